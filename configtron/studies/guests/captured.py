# SPDX-License-Identifier: MIT
"""Loads of one page under a few configurations, every packet of each logged at both ends. Runs in a guest.

    perform(orders, folder, means) -> text

Orders are JSON: condition, site, configurations (settings), repeats, seed. The text has a row a load: times as the
client has them, and a checksum of each log, so equal texts mean equal packets. The logs are columns (`tap.PACKET`):
`CONFIGURATION-REPEAT-server.npy` and `-client.npy`, beside the text. Repeat r meets the same losses under every
configuration.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from configtron.lab.testbed import families, servers
from configtron.lab.testbed.loads import Load
from configtron.lab.testbed.model import shipped
from configtron.lab.testbed.network import CLIENT, SERVERS
from configtron.lab.testbed.shard import TLS, Orders, Worked, raised
from configtron.lab.testbed.stack import DEVICE
from configtron.lab.testbed.tap import Seen, Tap
from configtron.lab.testbed.wires import CLIENT_DEVICE
from configtron.model.errors import BadInput, Mismatch
from configtron.model.nouns import Profile
from configtron.model.records import Json, canonical, pairs_form, pairs_of
from configtron.model.repeats import StoppingRule
from configtron.studies.guests.parts import Means

# Servers listen here, and clients' ports are above: one filter sees both directions.
HTTPS, HIGHEST = 443, 65535


@dataclass(frozen=True)
class CaptureOrders:
    """condition and site by name; configurations in the order in which they are loaded."""

    condition: str
    site: str
    configurations: tuple[Profile, ...]
    repeats: int
    seed: int

    def to_json(self) -> str:
        """Return the orders as one line of JSON, the same for equal orders."""
        settings: list[Json] = [[one.name, pairs_form(one.settings)] for one in self.configurations]
        return canonical({"condition": self.condition, "site": self.site, "configurations": settings,
                          "repeats": self.repeats, "seed": self.seed})  # fmt: skip

    @classmethod
    def from_json(cls, text: str) -> CaptureOrders:
        """Return the orders that `to_json` wrote. Errors: `BadInput`."""
        try:
            form = json.loads(text)
            profiles = tuple(Profile(name, pairs_of(settings)) for name, settings in form["configurations"])
            return cls(form["condition"], form["site"], profiles, int(form["repeats"]), int(form["seed"]))
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput(f"not a capture's orders: {error}") from error


class LoadRow(NamedTuple):
    """One load: configuration and repeat by number, what the client measured, the checksum of its logs (`packets`)."""

    configuration: int
    repeat: int
    plt_ms: float
    connections: int
    failed: str
    packets: str


def loads_of(text: str) -> list[LoadRow]:
    """Return the loads in the text of `perform`. Errors: `BadInput`."""
    try:
        return [LoadRow(*row) for row in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise BadInput(f"not a capture's loads: {error}") from error


def logs(folder: Path, one: LoadRow) -> tuple[Seen, Seen]:
    """Return a load's packets at the servers' and at the client's end. Errors: `BadInput`."""
    try:
        paths = _paths(folder, one.configuration, one.repeat)
        server, client = (np.load(path, allow_pickle=False) for path in paths)
    except (OSError, ValueError) as error:
        raise BadInput(f"{folder}: a log cannot be read ({error}); remove the folder and run again") from error
    return server, client


def _paths(folder: Path, configuration: int, repeat: int) -> list[Path]:
    return [folder / f"{configuration}-{repeat}-{end}.npy" for end in ("server", "client")]


def perform(orders: str, folder: Path, means: Means) -> str:
    """Run all loads; return their text. Errors: `BadInput`, `Mismatch` where a stack or a log is wrong."""
    wanted = CaptureOrders.from_json(orders)
    page, condition = shipped()[wanted.site], families.named(wanted.condition)
    shard = Orders(condition, wanted.configurations, (page,), StoppingRule((wanted.repeats,)), wanted.seed)
    servers.certify([page], folder / TLS)
    with raised(shard, folder, means.load, means.programs) as worked:
        return canonical([list(row) for row in _loads(worked, wanted, folder)])


def _loads(worked: Worked, wanted: CaptureOrders, folder: Path) -> Sequence[LoadRow]:
    found = []
    for at, profile in enumerate(wanted.configurations):
        seen = worked.configure(at, profile)
        if seen.reason:
            raise Mismatch(f"{profile.name}: {seen.reason}: {seen.words}")
        for repeat in range(wanted.repeats):
            load, ends = _load_between_taps(worked, profile, repeat)
            for path, packets in zip(_paths(folder, at, repeat), ends, strict=True):
                np.save(path, packets)
            checksum = hashlib.sha256(b"".join(packets.tobytes() for packets in ends)).hexdigest()
            found.append(LoadRow(at, repeat, load.plt_ms, load.connections, load.failed, checksum))
    return found


def _load_between_taps(worked: Worked, profile: Profile, repeat: int) -> tuple[Load, list[Seen]]:
    """Load the page; return the load and its two logs, which may begin with packets of the load before."""
    page = worked.orders.pages[0]
    taps = [Tap(netns, device, HTTPS, HIGHEST) for netns, device in ((SERVERS, DEVICE), (CLIENT, CLIENT_DEVICE))]
    load, _ = worked.load(page, profile, repeat, profile.name)
    return load, [tap.close() for tap in taps]
