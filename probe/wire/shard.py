# SPDX-License-Identifier: MIT
"""A shard of a campaign, performed: names resolved, calls made, results and evidence laid into one folder.

The folder is the journal (`journal.py`) and a pcapng a vantage. A result is written after the packets it was read from,
so whatever a kill leaves behind is whole up to some result, and performing the same shard in the same folder again
makes only the missing calls. The same code runs in this process and in a laboratory's guest.

Memory does not grow with the number of targets: they are read from a file as they are begun, and only sessions under
way are known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from configtron.linux.clock import SteadyClock
from configtron.model.errors import BadInput
from configtron.model.nouns import Target, Vantage
from configtron.probe.blocklist import Blocklist
from configtron.probe.pacing import run
from configtron.probe.spacing import Spacing
from configtron.probe.target_session import TargetSession, name_of, target_session
from configtron.probe.targets import Source, order
from configtron.probe.wire.addressing import WINDOW, Addresses
from configtron.probe.wire.garbage_collection import rare_garbage_collection
from configtron.probe.wire.journal import JOURNAL, Ended, Memory
from configtron.probe.wire.listing import listed
from configtron.probe.wire.pump import Pump
from configtron.probe.wire.recorder import Forbidden, Recorder, Sink
from configtron.probe.wire.shared_spacing import SharedSpacing

# The targets of a shard that names none itself: a file in its folder.
TARGETS = "targets.jsonl"
# A shard as a worker reads it: a file in its folder.
SHARD = "shard.json"


@dataclass(frozen=True, slots=True)
class Shard:
    """The calls to make: probes, targets, vantages, rates. `name` is the folder's within the run; rates are starts a
    second.

    targets   empty: those in the file `TARGETS` of the shard's folder, in its order
    versions  IP versions to ask for, best first
    crafted   the `packets` of `probe/craft.py` to send in place of the profile's probes, or ""
    special   whether IANA's special-purpose ranges are blocked (a laboratory's addresses are among them)
    """

    name: str
    targets: tuple[Target, ...]
    vantages: tuple[Vantage, ...]
    tests: tuple[str, ...]
    profile: str
    rate: float
    host_rate: float
    network_rate: float
    concurrency: int
    seed: int
    agent: str
    first_port: int
    last_port: int
    versions: tuple[int, ...] = (4,)
    special: bool = True
    blocked: tuple[Source, ...] = ()
    allowed: tuple[Source, ...] | None = None
    crafted: str = ""

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), sort_keys=True)


def shard_from_json(text: str) -> Shard:
    """Return the shard that `to_json` wrote."""
    try:
        row = json.loads(text)
        row["targets"] = tuple(Target(**t) for t in row["targets"])
        row["vantages"] = tuple(Vantage(**v) for v in row["vantages"])
        row["tests"], row["versions"] = tuple(row["tests"]), tuple(row["versions"])
        row["blocked"] = tuple(Source(*s) for s in row["blocked"])
        row["allowed"] = None if row["allowed"] is None else tuple(Source(*s) for s in row["allowed"])
        return Shard(**row)
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"not a shard: {type(error).__name__}: {error}") from error


class Beside(NamedTuple):
    """The limits and places that processes of a campaign share, and a clock that shows the same time to all."""

    spacing: SharedSpacing
    clock: SteadyClock


def perform(
    shard: Shard,
    folder: Path,
    sink: Sink = lambda results: None,
    on_end: Callable[[int], None] = lambda ended: None,
    go_on: Callable[[], bool] = lambda: True,
    forbidden: Forbidden = lambda host, address: "",
    beside: Beside | None = None,
    attempt: int = 0,
) -> None:
    """Make the missing calls of a shard.

    sink       gets each batch of new results once it is in the journal, and an empty one now and then while none come
    on_end     called with the number of ended sessions, whenever one ends
    go_on      called before a target begins; False lets only those under way finish
    forbidden  called before every connection; its answer, unless "", is the reason to refuse it
    beside     what this process shares with others that perform shards of the same campaign, each its own
    attempt    a number that no earlier attempt at the shard in another folder had
    """
    folder.mkdir(parents=True, exist_ok=True)
    blocklist = Blocklist(shard.blocked, allowed=shard.allowed, special=shard.special)
    spacing = beside.spacing if beside else Spacing(shard.rate, shard.host_rate, shard.network_rate)
    ports = range(shard.first_port, shard.last_port + 1)
    # Connections of a killed run may still stand at the servers: a resumed one uses other ports and numbers.
    stored = (folder / JOURNAL).stat().st_size if (folder / JOURNAL).exists() else 0
    pump = Pump(shard.vantages, ports=ports, seed=shard.seed + stored + attempt, agent=shard.agent, turns=spacing,
                clock=beside and beside.clock)  # fmt: skip
    ended, addresses = Ended(folder), Addresses(shard.vantages, shard.versions, blocklist)
    unfinished = _unfinished(shard, folder, ended)
    memory = Memory(folder, unfinished.__contains__)
    files = {vantage.name: f"{shard.name}/{vantage.name}.pcapng" for vantage in shard.vantages}
    why = lambda host, address: blocklist.host(host) or blocklist.address(address) or forbidden(host, address)  # noqa: E731
    worker = Recorder(pump, folder, files, memory.evidence_ends, sink, why)
    try:
        sessions = _TargetSessions(shard, folder, ended, addresses, memory, worker, on_end, go_on)
        with rare_garbage_collection():
            run(sessions.begun(), worker, spacing, memory.readings, addresses.look_up, concurrency=shard.concurrency,
                on_end=sessions.end)  # fmt: skip
    finally:
        addresses.close()
        pump.close()
        worker.close()
        ended.close()


def targets_of(shard: Shard, folder: Path) -> Iterator[Target]:
    """Return the targets in their order, read as they are wanted."""
    return iter(order(shard.targets, shard.seed)) if shard.targets else listed(folder / TARGETS)


def _unfinished(shard: Shard, folder: Path, ended: Ended) -> set[str]:
    """Return names, with their vantages, of sessions that an interrupted run may have begun or looked up, and not
    ended."""
    reach = (len(ended) + shard.concurrency) // len(shard.vantages) + 1 + 2 * WINDOW
    first = ended.low // len(shard.vantages)
    found = set()
    for n, target in enumerate(islice(targets_of(shard, folder), first, reach), start=first):
        for number, vantage in enumerate(shard.vantages):
            if n * len(shard.vantages) + number not in ended:
                found.add(f"{vantage.name}/{name_of(target)}")
    return found


class _TargetSessions:
    """Target sessions as they are begun, in the shard's order, and the places of those under way."""

    def __init__(
        self,
        shard: Shard,
        folder: Path,
        ended: Ended,
        addresses: Addresses,
        memory: Memory,
        worker: Recorder,
        on_end: Callable[[int], None],
        go_on: Callable[[], bool],
    ) -> None:
        self._shard, self._folder, self._ended, self._addresses = shard, folder, ended, addresses
        self._memory, self._worker, self._on_end, self._go_on = memory, worker, on_end, go_on
        self._places: dict[tuple[str, str], int] = {}

    def begun(self) -> Iterator[tuple[str, Target, TargetSession] | None]:
        """Yield sessions one after the other; None while names are being resolved."""
        shard, ended, each = self._shard, self._ended, len(self._shard.vantages)
        first = ended.low // each
        targets = islice(enumerate(targets_of(shard, self._folder)), first, None)
        windows = self._addresses.windows(targets, self._memory.readings, int(self._worker.now() * 1e9))
        tests = frozenset(shard.tests)
        for window in windows:
            if window is None:
                yield None
                continue
            fresh = [found for found in window if found.place not in ended]
            self._worker.keep([found.result for found in fresh if found.result is not None])
            for found in fresh:
                if found.target is None:
                    ended.add(found.place)
            self._on_end(len(ended))
            for found in fresh:
                if found.target is None:
                    continue
                if not self._go_on():
                    return
                self._places[found.vantage, name_of(found.target)] = found.place
                yield found.vantage, found.target, target_session(found.target, tests, shard.profile, shard.crafted)

    def end(self, vantage: str, target: Target) -> None:
        """End that session; all its results are kept."""
        name = name_of(target)
        self._ended.add(self._places.pop((vantage, name)))
        self._memory.forget(f"{vantage}/{name}")
        self._on_end(len(self._ended))
