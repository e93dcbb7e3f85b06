# SPDX-License-Identifier: MIT
"""The closed loop of one host in one process: the map maker of `learn manager`, the applier of `tune agent`.

The core is the manager's, so that maps, the maker's state and the position up to which rows were learned are one
transaction of one SQLite file: after `kill -9` they are consistent. The applier is the agent's: a leased transaction,
renewed each second, which the lease watchdog rolls back when this process is gone. There is no socket between them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nacl.signing import VerifyKey

from configtron.fleet.map_document import SignedMap, document, opened, whole_map
from configtron.fleet.messages import encode_rows
from configtron.learner.closed_loop import Moved
from configtron.model.errors import Refused, Unwritten
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_maker import LearningMaker
from configtron.service.fleet.retuning import ClassRetuning
from configtron.service.lease.retuning import RetuneCount
from configtron.service.outcomes.page_outcomes import refused_rows

log = logging.getLogger("configtron.fleet")

# Agent's name of this host's own rows.
AGENT = "local"
# Rows that wait for room on the disk; older ones are dropped and counted.
MOST_WAITING = 100_000
# Maps that connections may have been drawn from.
MOST_MAPS = 24


@dataclass(frozen=True, slots=True)
class LoopStep:
    """What a turn changed. applied: the map that was put in force, None: none was; drawn: (term, version, epoch) that
    arms are drawn from, (0, 0, 0): none are; moved: prefixes whose network and class changed; retuned: what became of
    their open connections."""

    applied: FleetMap | None = None
    drawn: tuple[int, int, int] = (0, 0, 0)
    moved: tuple[Moved, ...] = ()
    retuned: RetuneCount | None = None


class GuardedMaker:
    """A map maker for one host, without profiles that its driver, its operator or the guard refuses."""

    def __init__(self, maker: LearningMaker, barred: Callable[[Profile], str]) -> None:
        self.maker, self._barred = maker, barred

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        self.maker.observe(rows)

    def make(self, now_ns: int, barred: Callable[[Profile], str]) -> FleetMap | None:
        return self.maker.make(now_ns, lambda profile: barred(profile) or self._barred(profile))

    def save(self) -> str:
        return self.maker.save()

    def restore(self, text: str) -> None:
        if text:
            self.maker.restore(text)


class LocalLearning:
    """Store rows, learn from them, make maps. A turn may take seconds, so run it in a thread of its own.

    boot     identifies the rows of this start of the process, whose sequence begins at 1
    current  the map that is to be in force; moved: prefixes whose class another map changed, for the other half
    """

    def __init__(self, core: ManagerCore, maker: LearningMaker, boot: str) -> None:
        self.core, self.maker, self._boot = core, maker, boot
        self.current: SignedMap | None = core.session.current
        self.moved: deque[Moved] = deque()
        self.dropped = 0
        self._waiting: deque[OutcomeRow] = deque()
        self._full = False

    def rows(self, rows: Sequence[OutcomeRow]) -> None:
        """Take rows of this boot, in order of their sequence."""
        self.dropped += refused_rows(rows, self._wait)
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1

    def turn(self, now_s: float, now_ns: int) -> None:
        """Store rows, learn, and make the map that is due. Errors: `Refused` once another loop has the database."""
        self._store(now_ns)
        self.core.tick(now_s, now_ns)
        if self.core.stopped:
            raise Refused(self.core.stopped)
        self.moved.extend(self.maker.moved)
        self.maker.moved.clear()
        self.current = self.core.session.current

    def _store(self, now_ns: int) -> None:
        """Store the waiting rows, each once; on a full disk they go on waiting."""
        rows = list(self._waiting)
        if not rows:
            return
        try:
            self.core.add_rows(AGENT, self._boot, rows[0].sequence, rows, now_ns)
        except Unwritten as error:
            if not self._full:
                log.error("%s; outcomes wait in memory", error)
            self._full = True
            return
        self._full = False
        last = rows[-1].sequence
        while self._waiting and self._waiting[0].sequence <= last:
            self._waiting.popleft()

    def _wait(self, rows: Sequence[OutcomeRow]) -> None:
        """Let rows wait that an agent's spool would take. Errors: `BadInput` for one that no database takes."""
        encode_rows(rows)
        self._waiting.extend(rows)

    def learned(self) -> str:
        """Return what was learned so far, in words."""
        return self.maker.learned()


class LocalApplying:
    """Put maps in force, begin epochs, renew leases. Times: seconds since boot, ns of the wall clock.

    retuning  applies a prefix's new class to its open connections; None: they keep their settings
    """

    def __init__(
        self, learning: LocalLearning, applier: Applier, key: VerifyKey,
        retuning: ClassRetuning | None = None,
    ) -> None:  # fmt: skip
        self.learning, self.applier, self._key, self._retuning = learning, applier, key, retuning
        self.maps: dict[tuple[int, int], FleetMap] = {}
        self._refused: tuple[int, int] = (0, 0)

    def turn(self, now_s: float, now_ns: int) -> LoopStep:
        """Do what is due; call it several times a second."""
        before = drawn_from(self.applier)
        applied = self._apply(now_s, now_ns)
        self.applier.tick(now_s, now_ns)
        for late in self.applier.take_late():
            self._refused = (late.result.term, late.result.version)
        for remark in self.applier.take_remarks():
            log.warning("%s", remark)
        drawn = drawn_from(self.applier)
        moved = self._move() if drawn != before else ()
        retuned = self._retuning.turn() if self._retuning is not None else None
        return LoopStep(applied, drawn, moved, retuned)

    def _apply(self, now_s: float, now_ns: int) -> FleetMap | None:
        """Apply the current map unless it is in force; return it."""
        current = self.learning.current
        if current is None or current.place in (self.applier.held[:2], self._refused):
            return None
        data = document(current)
        found = self.applier.load(data, now_s, now_ns)
        if found.result.error:
            self._refused = current.place
            log.warning("map %d.%d is not applied: %s", *current.place, found.result.error)
            return None
        for entry, reason in found.result.refused:
            log.warning("map %d.%d: %s is left out: %s", *current.place, entry, reason)
        now = whole_map(opened(data, self._key))
        self.maps[current.place] = now
        while len(self.maps) > MOST_MAPS:
            del self.maps[next(iter(self.maps))]
        return now

    def _move(self) -> tuple[Moved, ...]:
        """Retune the open connections of prefixes whose network, and so their class, changed."""
        every = [self.learning.moved.popleft() for _ in range(len(self.learning.moved))]
        self.applier.take_reclassed()
        changed = tuple(one for one in every if one.outcomes)
        if changed:
            slowest = max(changed, key=lambda one: one.seconds)
            log.info("%d prefixes changed their network, %s within %.0f s and %d outcomes", len(changed),
                     slowest.prefix, slowest.seconds, slowest.outcomes)  # fmt: skip
        if self._retuning is not None:
            self._retuning.add({one.prefix: one.before for one in changed})
        return changed


def drawn_from(applier: Applier) -> tuple[int, int, int]:
    """Return (term, version, epoch) that arms are drawn from now; (0, 0, 0): none are."""
    now = applier.drawing
    return (0, 0, 0) if now is None else (now.head.term, now.head.version, now.epoch)


def mix_text(fleet_map: FleetMap) -> str:
    """Return a map in one line: how many prefixes, classes and profiles, and the largest shares."""
    parts: dict[str, int] = {}
    for mix in fleet_map.mixes.values():
        for name, weight in mix:
            parts[name] = parts.get(name, 0) + weight
    total = max(sum(parts.values()), 1)
    largest = sorted(parts.items(), key=lambda one: -one[1])[:4]
    shares = ", ".join(f"{name} {weight / total:.0%}" for name, weight in largest)
    counted = f"{len(fleet_map.prefixes)} prefixes in {len(fleet_map.mixes)} classes"
    return f"{counted}; {shares or 'every client has Default'}"
