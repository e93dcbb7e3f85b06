# SPDX-License-Identifier: MIT
"""What a worker of a cluster runs: one part of a campaign, from where it stands.

It asks for a lease, probes as `probe run` does in a folder of its own, and sends packets, results and ended sessions as
they come, numbered. Without a lease no connection starts, and those under way are reset (`leases.py`). The folder stays
until the coordinator has all of it: an attempt at the same part on the same machine makes only the missing calls. On
another machine it begins with what the coordinator has.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from configtron import __version__
from configtron.fleet.transport.dask_link import TaskLink
from configtron.lab.uml.kernel import cache_folder
from configtron.model.errors import ConfigtronError
from configtron.model.records import Result, result_from_json, result_to_json
from configtron.probe.blocklist import Blocklist
from configtron.probe.targets import Source
from configtron.probe.wire.journal import ENDED, JOURNAL, MARK_BYTES, Ended, batches, journal
from configtron.probe.wire.shard import Shard, perform, shard_from_json
from configtron.probe.wire.vantage_address import checked_vantage
from configtron.service.campaign.rate_shares import BEAT_S, LEASE_S

# Results and packets that wait this long, or are so many bytes, are sent.
SEND_EVERY_S = 0.25
SEND_BYTES = 1 << 18
# Days after which the folder of a campaign that never came back for it is removed.
KEEP_DAYS = 7.0
DAY_S = 86400.0


class PartRevoked(Exception):  # noqa: N818  # no fault
    """This attempt may not probe any more."""


def perform_part(topic: str, part: int, version: str) -> None:
    """Run a part of the campaign of that topic, on a worker of its region. Faults are sent, not raised."""
    line = PartLine(TaskLink(topic), part)
    if version != __version__:
        line.send("refused", text=f"has configtron {__version__}, the campaign {version}; install the same on both")
        return
    try:
        with PartLeaseHolder(line) as lease:
            orders = lease.orders()
            if orders is not None:
                folder = cache_folder() / "cluster" / topic / f"{orders['vantage']}-{part}"
                _remove_old(folder.parents[1])
                _perform(orders, folder, line, lease)
                line.send("end")
                if lease.closed():
                    shutil.rmtree(folder, ignore_errors=True)
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


class PartLeaseHolder:
    """A lease as its holder sees it: a thread reads the list every beat, and says that we live."""

    def __init__(self, line: PartLine, clock: Callable[[], float] = time.monotonic) -> None:
        self._line, self._clock = line, clock
        self._until = clock() + LEASE_S
        self._beat = -1
        self._state: dict[str, Any] = {}
        self._opt_out, self._opt_out_version = Blocklist(special=False), 0
        self._over = Event()
        self._thread = Thread(target=self._watch, name="lease", daemon=True)

    def __enter__(self) -> PartLeaseHolder:
        self._line.send("begin")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def orders(self) -> dict[str, Any] | None:
        """Wait for the lease; None if the part is done already, or the coordinator is gone."""
        while self._clock() < self._until:
            if self._has("closed"):
                return None
            if self._has("leases"):
                found: dict[str, Any] | None = self._line.link.read(f"orders-{self._line.attempt}", LEASE_S)
                if found is not None:
                    return found
            self._over.wait(BEAT_S / 4)
        return None

    def check(self) -> None:
        """Return if the lease holds. Errors: `PartRevoked`."""
        if self._clock() >= self._until or not self._has("leases"):
            raise PartRevoked

    def go_on(self) -> bool:
        """Return whether another target may begin."""
        return not self._state.get("stop")

    def why(self, host: str, address: str) -> str:
        """Return why a connection may not start: its operator opted out. Errors: `PartRevoked`."""
        self.check()
        return self._opt_out.host(host) or self._opt_out.address(address)

    def closed(self) -> bool:
        """Wait until the coordinator has all that was sent; False if it does not say so in time."""
        while self._clock() < self._until:
            if self._has("closed"):
                return True
            self._over.wait(BEAT_S / 4)
        return False

    def _has(self, name: str) -> bool:
        return self._line.attempt in self._state.get(name, ())

    def _watch(self) -> None:
        while not self._over.wait(BEAT_S / 2):
            asked_at = self._clock()
            try:
                self._line.send("alive")
                state = self._line.link.read("state", LEASE_S)
                if state and state["beat"] != self._beat:
                    self._read_opt_out(state)
                    self._beat, self._state, self._until = state["beat"], state, asked_at + LEASE_S
            except (OSError, RuntimeError):
                continue  # the lease runs out by itself

    def _read_opt_out(self, state: dict[str, Any]) -> None:
        if state["opt_out"] != self._opt_out_version:
            found = self._line.link.read("opt-out", LEASE_S) or []
            self._opt_out = Blocklist([Source(*one) for one in found], special=False)
            self._opt_out_version = state["opt_out"]


def _perform(orders: dict[str, Any], folder: Path, line: PartLine, lease: PartLeaseHolder) -> None:
    shard = _shard_here(shard_from_json(orders["shard"]))
    folder.mkdir(parents=True, exist_ok=True)
    _take_in(folder, orders["results"], orders["ended"])
    stream = PartStream(folder, shard, line, lease)
    perform(shard, folder, stream.take, lambda ended: None, lease.go_on, lease.why)
    stream.send_all()


def _shard_here(shard: Shard) -> Shard:
    """Return the shard with its vantage as this machine's routes have it."""
    (vantage,) = shard.vantages
    sample = [target for target in shard.targets if target.address][:1]
    return replace(shard, vantages=(checked_vantage(vantage, sample, shard.versions),))


def _take_in(folder: Path, results: Sequence[str], ended: Sequence[int]) -> None:
    """Add what the coordinator has of this part to what lies here."""
    known = {result.trace_id for result in journal(folder)}
    with (folder / JOURNAL).open("ab") as file:
        for text in results:
            if result_from_json(text).trace_id not in known:
                file.write(text.encode() + b"\n")
    marks = Ended(folder)
    for place in ended:
        marks.add(place)
    marks.close()


class PartStream:
    """A part's folder as messages: packets before the results that were read from them, these before ended sessions."""

    def __init__(self, folder: Path, shard: Shard, line: PartLine, lease: PartLeaseHolder) -> None:
        self._folder, self._line, self._lease = folder, line, lease
        self._packets = folder / f"{shard.vantages[0].name}.pcapng"
        self._packets_at = self._marks_at = self._bytes = 0
        self._lines: list[str] = []
        self._sent_at = float("-inf")
        own = f"{shard.name}/"
        self._earlier = [one for one in journal(folder) if not one.frames or one.evidence_file.startswith(own)]

    def take(self, results: Sequence[Result]) -> None:
        """Send new results, some at a time. Errors: `PartRevoked`."""
        self._lease.check()
        self._lines += [result_to_json(result) for result in results]
        self._bytes += sum(map(len, self._lines[-len(results) :])) if results else 0
        if self._bytes >= SEND_BYTES or time.monotonic() >= self._sent_at + SEND_EVERY_S:
            self.send_all()

    def send_all(self) -> None:
        """Send everything that was not sent."""
        ended = self._new_marks()
        for batch in batches(self._earlier):
            self._line.send("results", results=[result_to_json(result) for result in batch])
        self._earlier = []
        self._send_packets()
        if self._lines or ended:
            self._line.send("results", results=self._lines, ended=ended)
        self._lines, self._bytes, self._sent_at = [], 0, time.monotonic()

    def _send_packets(self) -> None:
        if not self._packets.exists():
            return
        with self._packets.open("rb") as file:
            file.seek(self._packets_at)
            while data := file.read(SEND_BYTES):
                self._packets_at += len(data)
                self._line.send("packets", data=data)

    def _new_marks(self) -> list[int]:
        path = self._folder / ENDED
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._marks_at)
            data = file.read()
        whole = len(data) // MARK_BYTES * MARK_BYTES
        self._marks_at += whole
        return [int(data[at : at + MARK_BYTES], 16) for at in range(0, whole, MARK_BYTES)]


def _remove_old(folder: Path) -> None:
    """Remove folders of campaigns that were not touched for days."""
    for old in folder.glob("*"):
        if time.time() - old.stat().st_mtime > KEEP_DAYS * DAY_S:
            shutil.rmtree(old, ignore_errors=True)
