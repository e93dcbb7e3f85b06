# SPDX-License-Identifier: MIT
"""The product's own halves on the experiment's hosts: a manager that learns, and on each server an agent's parts.

Between manager and agents are no sockets: documents are handed over signed, rows are stored by (agent, start,
sequence). Drivers, leases, journals, readers, joins, maker and store are those of `learn manager` and `tune agent`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.live_kernel.place import ENDPOINT, FOLDER
from configtron.db.agent_journal import AgentJournal
from configtron.db.fleet import FleetStore
from configtron.fleet.transport.curve_keys import signing_key
from configtron.intake.pageloads.plan_book import PlanBook
from configtron.intake.receiving.ended_sockets import boottime_ns
from configtron.learner.loop_maker import LoopMapMaker
from configtron.linux.netns import inside
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.protocols import Drawing
from configtron.model.tuning import Place
from configtron.service.fleet.agent import wanted_by_humans
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.learning.local_loop import GuardedMaker, LocalApplying, LocalLearning
from configtron.service.lease.context import context_of
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.planner import chosen
from configtron.service.outcomes.local_outcomes import LocalOutcomes
from configtron.service.outcomes.root_reader import RecordsInForce
from configtron.tune.pools import for_kernel

DATABASE, KEYS = FOLDER / "manager.db", FOLDER / "keys"


class LearningManager:
    """One start of the manager; the next one goes on from the same database."""

    def __init__(self, maker: LoopMapMaker, barred: Callable[[Profile], str], start: int) -> None:
        self.store = FleetStore(DATABASE)
        self.store.__enter__()
        self.maker, self.key = maker, signing_key(KEYS)
        core = ManagerCore(self.store, GuardedMaker(maker, barred), self.key, f"manager/{start}", time.time_ns())
        self.learning = LocalLearning(core, maker, f"{start:016x}")

    @property
    def learned(self) -> int:
        """Return how many outcomes its maker has learned."""
        return self.maker.learner.outcomes_

    def turn(self) -> None:
        """Learn from rows, make the map that is due."""
        self.learning.turn(time.clock_gettime(time.CLOCK_BOOTTIME), time.time_ns())

    def kill(self) -> None:
        """Leave everything as it is; only what was written stays."""
        self.store.__exit__(None, None, None)


class RecordLog:
    """A driver's records, kept with the name of their server as they pass."""

    def __init__(
        self, driver: Callable[[], Drawing], name: str, kept: list[tuple[str, OpenRecord | CloseRecord]]
    ) -> None:
        self._source, self._name, self._kept = RecordsInForce(driver), name, kept

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        """Hand out the records that wait, each once."""
        for record in self._source.records():
            self._kept.append((self._name, record))
            yield record

    def lost_records(self) -> int:
        """Return how many records were lost so far."""
        return self._source.lost_records()


class HostAgent:
    """What an agent has on one server. plans: (server, term, version, epoch) of each plan that came in force."""

    def __init__(self, number: int, driver: str, boot: int, manager: LearningManager,
                 kept: list[tuple[str, OpenRecord | CloseRecord]],
                 plans: list[tuple[str, int, int, int]]) -> None:  # fmt: skip
        self.name, self._stack, self.manager = f"web{number}", ExitStack(), manager
        self._boot, self._plans = f"{boot:016x}", plans
        options = LeaseOptions(FOLDER / self.name / "agent.db", driver, place_of(driver, self.name))
        self._journal = self._stack.enter_context(AgentJournal(options.database))
        tuner: Any = chosen(context_of(self._journal), options, for_kernel(self._journal.wanted()))
        self.enforcement = JournaledEnforcement(options, self._journal, tuner)
        key = manager.key.verify_key
        self.applier = Applier(self.enforcement, key, wanted_by_humans(self._journal), self.enforcement.human_rules())
        self.applying = LocalApplying(manager.learning, self.applier, key)
        self.book = PlanBook(self.enforcement.draws)
        self.records = RecordLog(self.enforcement.drawing, self.name, kept)
        self.outcomes: LocalOutcomes | None = None
        self._drawn, self.abandoned = (0, 0, 0), False

    async def start(self) -> None:
        """Listen for beacons and log lines."""
        path: Path = FOLDER / self.name / "log"
        self.outcomes = LocalOutcomes(self.name, self._boot, self.records, self.book, self._rows, path)
        with inside(self.name):
            await self.outcomes.start("127.0.0.1", ENDPOINT)

    def _rows(self, rows: Sequence[OutcomeRow]) -> None:
        if self.abandoned:
            return
        store = self.manager.learning.core.store
        store.add_rows(self.name, self._boot, rows[0].sequence, rows, time.time_ns())

    def follow(self, manager: LearningManager) -> None:
        """Take maps from another start of the manager."""
        self.manager, self.applying.learning = manager, manager.learning

    def turn(self) -> FleetMap | None:
        """Apply what is due; return the map that was put in force, if one was."""
        step = self.applying.turn(time.clock_gettime(time.CLOCK_BOOTTIME), time.time_ns())
        self.applier.activations.pass_on(self.book, boottime_ns())
        if step.drawn != self._drawn and step.drawn[:2] in self.applying.maps:
            self._drawn = step.drawn
            self._plans.append((self.name, *step.drawn))
        return step.applied

    async def abandon(self) -> None:
        """End as a killed agent does: nothing is put back, no row is stored any more, its lease ends by itself."""
        self.abandoned = True
        if self.outcomes is not None:
            await self.outcomes.stop()
        self._stack.close()

    async def stop(self) -> None:
        """End in order: what stood before is put back."""
        if self.outcomes is not None:
            await self.outcomes.stop()
        self.enforcement.release()
        self._stack.close()


def place_of(driver: str, name: str) -> Place:
    """Return where a driver acts: in a server's namespace, BPF programs on its control group."""
    return Place(netns=name, cgroup=name if driver == "ebpf" else "")
