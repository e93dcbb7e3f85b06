# SPDX-License-Identifier: MIT
"""One boot, one condition: every configuration and page, each loaded until its median is known. Runs in the guest.

Question   How can a hundred thousand page loads be measured so that any of them can be measured again, bit for bit?
Method     A shard is what one boot does: the network of one condition is raised once, then configurations in order,
           pages in order, loads until `repeats.StoppingRule` is content. Before each load the network's chance starts
           anew from a seed made of the measurement's seed, the page and the repeat: all configurations meet the same
           losses.
Stop when  all cells are done. The file's last line marks that; without it the shard is done again, whole.
Reads as   `samples.py`: one line each for the kernel's account of network and stack, and for each load.
Fails as   a configuration that does not read back as asked has no loads but a reason (stack-not-as-asked,
           not-settable); a load that ended badly has the client's; a network that is not as asked ends the shard.
Differs    from loads in any order: six connections that share a queue are chaotic, so what repeats bit for bit is the
           shard, not the cell.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

from configtron.lab.testbed import aqm, network, servers
from configtron.lab.testbed.conditions import Condition
from configtron.lab.testbed.loads import FIRST, RESUMED, WARM, Load, PageClient
from configtron.lab.testbed.neighbours import AFTERWARDS_S, ALONE_S, ByteLog, FlowStarts, Neighbourhood, lost_bytes
from configtron.lab.testbed.network import Testbed
from configtron.lab.testbed.pages import PageModel
from configtron.lab.testbed.pathview import ClosedConnections, View, of_load, of_path
from configtron.lab.testbed.stack import DEVICE, Loader, ServerStack
from configtron.lab.testbed.tap import Tap
from configtron.model.errors import BadInput, Mismatch
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile
from configtron.model.records import canonical, pairs_form, pairs_of
from configtron.model.repeats import StoppingRule
from configtron.model.samples import (
    Sample,
    digest,
    end_line,
    path_line,
    sample_line,
    shard_line,
    slowness,
    stack_line,
)
from configtron.model.samples import Stack as Seen

# Within a shard's folder: what is to be done, and what was measured.
ORDERS, LINES = "orders.json", "loads.jsonl"
# And what the servers show: made outside, `servers.certify`.
TLS = "tls"
# Virtual seconds until a load counts as failed, which cost nothing: where one packet in twenty is lost and a round trip
# takes half a second, one connection carries some 5 kB/s; 3.8 MB, the largest site, take 750 s; twice that, and more.
LIMIT_S = 1800.0
# A path is looked at under the defaults of these knobs, whichever HTTP's version.
VIEWED = ("tcp_congestion_control", "initcwnd", "pacing")
# HTTPS; what Linux gives to clients (ip_local_port_range).
SERVERS_PORTS, CLIENTS_PORTS = (443, 443), (32_768, 65_535)
# A connection that was reset or closed is gone by then.
CLOSED_S = 0.5
# Bits of a load's seed: what both netem's generator and the client take.
SEED_BITS = 48


@dataclass(frozen=True)
class Orders:
    """All options of a shard. per_prefix: the driver that sets what is set by prefix (`stack.py`)."""

    condition: Condition
    configurations: tuple[Profile, ...]
    pages: tuple[PageModel, ...]
    rule: StoppingRule
    seed: int
    server: str = "nginx"
    per_prefix: str = "route"

    @property
    def cells(self) -> int:
        """The number of cells that it fills."""
        return len(self.configurations) * len(self.pages)

    def to_json(self) -> str:
        """One line, the same for equal orders."""
        return canonical(
            {
                "condition": json.loads(self.condition.to_json()),
                "configurations": [[profile.name, pairs_form(profile.settings)] for profile in self.configurations],
                "pages": [json.loads(page.to_json()) for page in self.pages],
                "rule": {"looks": list(self.rule.looks), "tolerance": self.rule.tolerance, "error": self.rule.error},
                "seed": self.seed,
                "server": self.server,
                "per_prefix": self.per_prefix,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Orders:
        """Return what `to_json` wrote. Errors: `BadInput`."""
        try:
            form = json.loads(text)
            rule = form["rule"]
            return cls(
                Condition.from_json(json.dumps(form["condition"])),
                tuple(Profile(name, pairs_of(settings)) for name, settings in form["configurations"]),
                tuple(PageModel.from_json(json.dumps(page)) for page in form["pages"]),
                StoppingRule(tuple(rule["looks"]), rule["tolerance"], rule["error"]),
                form["seed"],
                form["server"],
                form["per_prefix"],
            )
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput(f"not a shard's orders: {error}") from error


def seed_of(seed: int, site: str, repeat: int) -> int:
    """Return a load's seed: the same under every configuration and condition (which adds its own salt)."""
    return int(digest(str(seed), site, str(repeat))[: SEED_BITS // 4], 16)


@dataclass(frozen=True)
class Programs:
    """Paths of what was built outside the guest, which cannot write: the page-load client, the link's player."""

    client: str
    player: str


def perform(orders: Orders, folder: Path, load: Loader, programs: Programs) -> None:
    """Measure a shard and write its lines. Errors: `Missing`, `Mismatch`."""
    with (folder / LINES).open("w") as out, raised(orders, folder, load, programs) as worked:
        began, count = time.monotonic(), 0
        _write(out, shard_line(orders.condition.name, worked.testbed.seen))
        for at, profile in enumerate(orders.configurations):
            seen = worked.configure(at, profile)
            _write(out, stack_line(seen))
            for page in () if seen.reason else orders.pages:
                samples = worked.cell(at, profile, page)
                count += len(samples)
                _write(out, *map(sample_line, samples))
        if worked.views:
            _write(out, path_line(of_path(worked.views)))
        _write(out, end_line(count, time.monotonic() - began))


def _write(out: TextIO, *lines: str) -> None:
    """Write a cell at a time: the process outside counts them."""
    out.write("".join(line + "\n" for line in lines))
    out.flush()


@contextmanager
def raised(orders: Orders, folder: Path, load: Loader, programs: Programs) -> Iterator[Worked]:
    """A testbed, servers, stack and client for these orders, until the block ends. Errors: `Missing`, `Mismatch`."""
    origins = sorted({origin for page in orders.pages for origin in page.origins})
    aqm.load(orders.condition.aqms, folder)
    testbed = network.raise_testbed(orders.condition, origins, seed=orders.seed, player=Path(programs.player))
    try:
        if orders.condition.window_bytes:
            network.limit_window(orders.condition.window_bytes)
        with (
            servers.start(
                orders.pages,
                program=orders.server,
                netns=network.SERVERS,
                tls=folder / TLS,
                think_ms=orders.condition.think_ms,
                resumes=orders.condition.resumed,
            ),
            PageClient(orders.pages, testbed.addresses, programs.client, netns=network.CLIENT) as client,
        ):
            yield Worked(orders, testbed, ServerStack(testbed, load, orders.per_prefix), client)
    finally:
        testbed.close()


@dataclass(frozen=True)
class Worked:
    """A testbed at work."""

    orders: Orders
    testbed: Testbed
    stack: ServerStack
    client: PageClient
    views: list[View] = field(default_factory=list)
    _hosts: list[Neighbourhood] = field(default_factory=list)
    # by page and repeat: what neighbours get where no page loads
    _alone: dict[tuple[str, int], ByteLog] = field(default_factory=dict)

    def configure(self, at: int, profile: Profile) -> Seen:
        """Put a configuration in force, or say why not."""
        cell = f"{self.orders.condition.name} {profile.name}"
        try:
            found = self.stack.apply(profile, cell=cell)
        except Mismatch as error:
            return Seen(at, reason="stack-not-as-asked", words=str(error))
        except BadInput as error:
            return Seen(at, reason="not-settable", words=str(error))
        return Seen(at, tuple(sorted((knob, str(value)) for knob, value in found.items())))

    def load(self, page: PageModel, profile: Profile, repeat: int, cell: str) -> tuple[Load, float | None]:
        """One load, the network's chance begun anew from the page's and the repeat's seed.

        Beside it the bytes that neighbours lost; None where there are none or it failed.
        """
        seed = seed_of(self.orders.seed, page.name, repeat)
        condition = self.orders.condition.drawn(seed)
        if condition.neighbours:
            return self._beside(condition, page, profile, seed, repeat)
        self.testbed.change(condition, seed=seed, cell=cell)
        with self.testbed.changing():
            return self._load(page, profile, seed), None

    def _visit(self, page: PageModel, profile: Profile, seed: int) -> Load:
        """One load, first or again, as the condition has it."""
        visit = visit_of(self.orders.condition)
        return self.client.load(page.name, http=http_of(profile), seed=seed, limit_s=LIMIT_S, visit=visit)

    def _load(self, page: PageModel, profile: Profile, seed: int) -> Load:
        """One load, looked at from the servers where the stack is the default one."""
        if not all(value == KNOBS[knob].default for knob, value in profile.settings if knob in VIEWED):
            return self._visit(page, profile, seed)
        endings = ClosedConnections()
        # what goes to clients, and what comes of their ports; neighbours send from lower ones
        taps = [Tap(network.SERVERS, DEVICE, *ports) for ports in (SERVERS_PORTS, CLIENTS_PORTS)]
        try:
            found = self._visit(page, profile, seed)
        finally:
            # the last connections close after the load
            time.sleep(CLOSED_S)
            seen, ended = np.concatenate([tap.close() for tap in taps]), endings.read()
            endings.close()
        self.views.append(of_load(ended, seen, self.orders.condition.rtt_ms / 1e3))
        return found

    def _beside(
        self, condition: Condition, page: PageModel, profile: Profile, seed: int, repeat: int
    ) -> tuple[Load, float | None]:
        """One load beside the condition's neighbours."""
        cell = f"{condition.name} {profile.name}"
        plan = FlowStarts.of(condition, seed)
        if not self._hosts:
            self._hosts.append(Neighbourhood())
        if (page.name, repeat) not in self._alone:
            self.testbed.change(condition, seed=seed, cell=cell)
            with self._hosts[0].flows(plan) as flows:
                time.sleep(plan.start_s + ALONE_S)
                self._alone[page.name, repeat] = flows.log()
        self.testbed.change(condition, seed=seed, cell=cell)
        with self._hosts[0].flows(plan) as flows, self.testbed.changing():
            time.sleep(plan.start_s)
            # the client begins on a whole second, a thousandth of one later at most
            begun_s = math.ceil(time.monotonic()) - flows.began
            found = self._load(page, profile, seed)
            time.sleep(AFTERWARDS_S)
            log = flows.log()
        if found.failed:
            return found, None
        return found, lost_bytes(self._alone[page.name, repeat], log, begun_s, begun_s + found.elapsed_ms / 1e3)

    def cell(self, at: int, profile: Profile, page: PageModel) -> list[Sample]:
        """Loads of one page under the configuration in force."""
        http = http_of(profile)
        samples: list[Sample] = []
        while more := self.orders.rule.more(slowness(samples)):
            for _ in range(more):
                name = f"{self.orders.condition.name} {profile.name}"
                loaded, lost = self.load(page, profile, len(samples), name)
                samples.append(_sample(at, len(samples), http, loaded, lost))
        return samples


def visit_of(condition: Condition) -> str:
    """Return the kind of visit that precedes a load (`loads.py`)."""
    return f"{WARM}:{condition.warm_s}" if condition.warm_s else RESUMED if condition.resumed else FIRST


def http_of(profile: Profile) -> str:
    """Return the version that the client asks for."""
    return str(dict(profile.settings).get("http_version", "http/1.1"))


def _sample(at: int, repeat: int, http: str, load: Load, lost: float | None = None) -> Sample:
    failed = load.failed or ("" if load.http == http else "http-version")
    if failed:
        return Sample(at, load.page, repeat, failed)
    rounded = None if lost is None else round(lost)
    return Sample(at, load.page, repeat, "", load.plt_ms, load.ttfb_ms, load.index_ms, load.bytes, rounded)
