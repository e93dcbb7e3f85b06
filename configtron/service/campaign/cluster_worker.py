# SPDX-License-Identifier: MIT
"""What a worker of a cluster runs: one part of a campaign, from where it stands.

It asks for a share of the rates, probes as `probe run` does in a folder of its own, and sends packets, results and
ended sessions as they come, numbered. Without a share no connection starts, and those under way are reset
(`rate_shares.py`). The coordinator has all that was sent: a further attempt at the part begins with that, here or on
another machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from configtron import __version__
from configtron.fleet.transport.dask_link import TaskLink
from configtron.model.errors import ConfigtronError
from configtron.model.records import Result, result_to_json
from configtron.probe.blocklist import Blocklist
from configtron.probe.targets import Source
from configtron.probe.wire.journal import ENDED, JOURNAL, MARK_BYTES, Ended
from configtron.probe.wire.shard import perform, shard_from_json
from configtron.probe.wire.vantage_address import checked_vantage
from configtron.service.campaign.rate_shares import BEAT_S, LEASE_S

# Results and packets that wait this long, or are so many bytes, are sent.
SEND_EVERY_S = 0.25
SEND_BYTES = 1 << 18


class PartRevoked(Exception):  # noqa: N818  # no fault
    """This attempt may not probe any more."""


def perform_part(topic: str, part: int, version: str) -> None:
    """Run a part of the campaign of that topic, on a worker of its region. Faults are sent, not raised."""
    line = PartLine(TaskLink(topic), part)
    if version != __version__:
        line.send("refused", text=f"has configtron {__version__}, the campaign {version}; install the same on both")
        return
    try:
        with PartShare(line) as share:
            orders = share.orders()
            if orders is not None:
                with tempfile.TemporaryDirectory(prefix="configtron-part-") as folder:
                    _perform(orders, Path(folder), line, share)
                line.send("end")
    except PartRevoked:
        line.send("end")
    except (ConfigtronError, OSError) as error:
        line.send("fault", text=f"{type(error).__name__}: {error}")


class PartLine:
    """Numbered messages of one attempt at a part."""

    def __init__(self, link: TaskLink, part: int) -> None:
        self.link, self.attempt = link, uuid4().hex
        self._part, self._number = part, 0

    def send(self, kind: str, **more: object) -> None:
        """Send a message; all but "alive" are numbered, so that a lost one is noticed."""
        number = -1 if kind == "alive" else self._number
        self._number += kind != "alive"
        self.link.send({"kind": kind, "attempt": self.attempt, "part": self._part, "number": number, **more})


class PartShare:
    """A share of the rates as its holder sees it: a thread reads the list every beat, and says that we live."""

    def __init__(self, line: PartLine, clock: Callable[[], float] = time.monotonic) -> None:
        self._line, self._clock = line, clock
        self._until = clock() + LEASE_S
        self._state: dict[str, Any] = {"beat": -1, "leases": (), "done": (), "stop": False}
        self._opt_out, self._opt_out_version = Blocklist(special=False), 0
        self._over = Event()
        self._thread = Thread(target=self._watch, name="share", daemon=True)

    def __enter__(self) -> PartShare:
        self._line.send("begin")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def orders(self) -> dict[str, Any] | None:
        """Wait for the share; None if the part is done already, or the coordinator is gone."""
        while self._clock() < self._until and self._line.attempt not in self._state["done"]:
            if self._line.attempt in self._state["leases"]:
                found: dict[str, Any] | None = self._line.link.read(f"orders-{self._line.attempt}", LEASE_S)
                if found is not None:
                    return found
            self._over.wait(BEAT_S / 4)
        return None

    def check(self) -> None:
        """Return if the share holds. Errors: `PartRevoked`."""
        if self._clock() >= self._until or self._line.attempt not in self._state["leases"]:
            raise PartRevoked

    def go_on(self) -> bool:
        """Return whether another target may begin."""
        return not self._state["stop"]

    def why(self, host: str, address: str) -> str:
        """Return why a connection may not start: its operator opted out. Errors: `PartRevoked`."""
        self.check()
        return self._opt_out.host(host) or self._opt_out.address(address)

    def _watch(self) -> None:
        while not self._over.wait(BEAT_S / 2):
            asked_at = self._clock()
            try:
                self._line.send("alive")
                state = self._line.link.read("state", LEASE_S)
                if state and state["beat"] != self._state["beat"]:
                    if state["opt_out"] != self._opt_out_version:
                        found = self._line.link.read("opt-out", LEASE_S) or []
                        self._opt_out = Blocklist([Source(*one) for one in found], special=False)
                        self._opt_out_version = state["opt_out"]
                    self._state, self._until = state, asked_at + LEASE_S
            except (OSError, RuntimeError):
                continue  # the share runs out by itself


def _perform(orders: dict[str, Any], folder: Path, line: PartLine, share: PartShare) -> None:
    shard = shard_from_json(orders["shard"])
    (vantage,) = shard.vantages
    sample = [target for target in shard.targets if target.address][:1]
    shard = replace(shard, vantages=(checked_vantage(vantage, sample, shard.versions),))
    (folder / JOURNAL).write_text("".join(f"{text}\n" for text in orders["results"]))
    marks = Ended(folder)
    for place in orders["ended"]:
        marks.add(place)
    marks.close()
    stream = PartStream(folder, vantage.name, line, share)
    perform(shard, folder, stream.take, go_on=share.go_on, forbidden=share.why, attempt=int(line.attempt[:8], 16))
    stream.send_all()


class PartStream:
    """A part's folder as messages: packets before the results that were read from them, these before ended sessions."""

    def __init__(self, folder: Path, vantage: str, line: PartLine, share: PartShare) -> None:
        self._packets, self._marks, self._line, self._share = folder / f"{vantage}.pcapng", folder / ENDED, line, share
        self._packets_at = self._marks_at = self._bytes = 0
        self._lines: list[str] = []
        self._sent_at = float("-inf")

    def take(self, results: Sequence[Result]) -> None:
        """Send new results, some at a time. Errors: `PartRevoked`."""
        self._share.check()
        fresh = [result_to_json(result) for result in results]
        self._lines, self._bytes = self._lines + fresh, self._bytes + sum(map(len, fresh))
        if self._bytes >= SEND_BYTES or time.monotonic() >= self._sent_at + SEND_EVERY_S:
            self.send_all()

    def send_all(self) -> None:
        """Send everything that was not sent."""
        ended = self._new_marks()
        with self._packets.open("rb") as file:
            file.seek(self._packets_at)
            while data := file.read(SEND_BYTES):
                self._packets_at += len(data)
                self._line.send("packets", data=data)
        if self._lines or ended:
            self._line.send("results", results=self._lines, ended=ended)
        self._lines, self._bytes, self._sent_at = [], 0, time.monotonic()

    def _new_marks(self) -> list[int]:
        with self._marks.open("rb") as file:
            file.seek(self._marks_at)
            data = file.read()
        whole = len(data) // MARK_BYTES * MARK_BYTES
        self._marks_at += whole
        return [int(data[at : at + MARK_BYTES], 16) for at in range(0, whole, MARK_BYTES)]
