# SPDX-License-Identifier: MIT
"""How old the outcomes are that a served map reflects, and how long an unknown client waits for its class.

    python -m benchmarks.decision_age [--rate 1000] [--seconds 40] [--maker each|thompson ...]

Goal: 99 of 100 decisions are younger than a second beyond the wait for the epoch (mixes change only with it).

decision   from a row's storing in SQLite until each of four agents has checked the first map that reflects it
question   from an agent's query for a prefix that the map lacks until its answer, beside the same outcomes

`each` makes a map whenever rows came: the loop's own part. `thompson` is the product's learner with epochs of 10 s in
place of 600, in its process: rows wait up to an epoch, and for the map that is made (a second or two of a processor,
more for the first one, once an epoch).
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zmq

from benchmarks.loop import PROFILES, Agent, Manager, free_endpoint, map_of, prefix, until
from configtron.db.fleet import FleetStore
from configtron.fleet.agent_session import Answered
from configtron.fleet.map_document import OpenedMap
from configtron.learner.closed_loop import LoopOptions
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet.learner_process import LearnerRecipe
from configtron.service.fleet.makers import grid_of
from configtron.service.fleet.manager import run_manager
from configtron.service.fleet.map_maker import FixedMapMaker, MapMaker
from configtron.service.fleet.spool import Spool
from configtron.service.fleet.stages import Stages

AGENTS, PREFIXES, EPOCH_S = 4, 5000, 10
EVERY_S, WARM_S = 0.1, 3.0
MAKERS: dict[str, Callable[[], MapMaker]] = {
    "each": lambda: EachMaker(),
    "thompson": lambda: LoopMapMaker(
        LoopOptions(grid_of(list(PROFILES.values())[:1]), "thompson", MapOptions(epoch_s=EPOCH_S)), b"k" * 16
    ),
}


class EachMaker(FixedMapMaker):
    """Make another map whenever rows came."""

    def __init__(self) -> None:
        super().__init__(map_of(PREFIXES), 3600.0)

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Count rows; another prefix gets the other class."""
        super().observe(rows)
        self.change(map_of(PREFIXES, self.rows % PREFIXES))


class CountingMaker:
    """A maker whose maps have in their key how many rows it had observed."""

    def __init__(self, maker: MapMaker) -> None:
        self._maker, self._rows = maker, 0
        self.classes, self.save, self.restore = maker.classes, maker.save, maker.restore

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Count rows and hand them on."""
        self._rows += len(rows)
        self._maker.observe(rows)

    def make(self, now_ns: int, barred: Callable[[Profile], str]) -> FleetMap | None:
        """Return the maker's map, marked."""
        found = self._maker.make(now_ns, barred)
        return found and replace(found, key=self._rows.to_bytes(16, "big"))


def _managed(manager: Manager, name: str) -> None:
    logging.disable(logging.CRITICAL)
    process = LearnerRecipe(manager.options.database, "benchmarks.decision_age:counted", {"maker": name})
    run_manager(manager.options, CountingMaker(MAKERS[name]()) if name == "each" else process)


def counted(database: Path, arguments: Mapping[str, Any]) -> tuple[MapMaker, Stages | None]:
    """Return a maker for a process, without stages."""
    return CountingMaker(MAKERS[arguments["maker"]]()), None


class AskingAgent(Agent):
    """An agent that notes when it has checked a map that reflects so many rows, and how long its questions took."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.loads: list[tuple[int, int]] = []
        self.asked: dict[str, float] = {}
        self.took_s: list[float] = []

    def loaded(self, found: OpenedMap, now_ns: int) -> None:
        """Note a map."""
        self.loads.append((int.from_bytes(found.head.key, "big"), now_ns))

    def answered(self, answer: Answered) -> None:
        """Note an answer."""
        if (asked_s := self.asked.pop(answer.prefix, None)) is not None:
            self.took_s.append(time.monotonic() - asked_s)

    def ask(self, number: int) -> None:
        """Ask for a prefix that the map lacks."""
        name = f"203.{number // 256 % 256}.{number % 256}.0/24"
        self.asked[name] = time.monotonic()
        self.do(self.session.query(name, 20_000))


def row_of(chance: np.random.Generator, at_ns: int) -> OutcomeRow:
    """Return a page load of some client."""
    at = int(chance.integers(PREFIXES))
    return OutcomeRow(
        "", "", 0, at_ns, "a.example", prefix(at), f"{int(chance.integers(1 << 62)):016x}",
        float(chance.lognormal(6.5, 0.7)), rtt_ms=float(5 + at % 250), device="phone", protocol="h2",
        bandwidth_kbps=9000.0, loss=0.001,
    )  # fmt: skip


def measured(name: str, rate: int, seconds: float) -> str:
    """Return a line."""
    with tempfile.TemporaryDirectory() as folder:
        manager = Manager(Path(folder), free_endpoint())
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        agents = [AskingAgent(manager.address, pair, context) for pair in manager.enroll(AGENTS)]
        for at, each in enumerate(agents):
            each.spool = Spool(manager.folder / f"s{at}.db", "a")
        manager.process = multiprocessing.get_context("fork").Process(target=_managed, args=(manager, name))
        manager.process.start()
        play(agents, rate, seconds)
        used = manager.processor_s()
        manager.kill()
        with FleetStore(manager.options.database) as store:
            query = "SELECT received_ns FROM fleet_outcome ORDER BY id"
            stored_ns = np.array([row[0] for row in store._connection.execute(query)])
    return report(name, agents, stored_ns, used, len(stored_ns) / seconds)


def play(agents: list[AskingAgent], rate: int, seconds: float) -> None:
    """Feed spools and ask questions for so long, then a while without."""
    chance, rest = np.random.default_rng(1), 3 * EPOCH_S
    began = due = time.monotonic()
    number = 0

    def feed(_: Agent) -> bool:
        nonlocal due, number
        now = time.monotonic()
        if now >= due and now < began + seconds:
            due += EVERY_S
            for each in agents:
                assert each.spool is not None
                each.spool.add([row_of(chance, time.time_ns()) for _ in range(round(rate * EVERY_S / AGENTS))])
                if now > began + WARM_S:
                    each.ask(number := number + 1)
        return now > began + seconds + rest

    until(agents, feed)


def report(name: str, agents: list[AskingAgent], stored_ns: npt.NDArray[np.int64], used_s: float, rate: float) -> str:
    """Return what was measured as a line."""
    reflected = np.zeros(len(stored_ns), dtype=np.int64)
    for each in agents:
        counts, times = (np.array(column) for column in zip(*each.loads, strict=True))
        # The first map with as many rows: counts never fall.
        first = np.searchsorted(counts, np.arange(1, len(stored_ns) + 1))
        known = np.append(times, np.iinfo(np.int64).max)[first]
        reflected = np.maximum(reflected, known)
    there = reflected < np.iinfo(np.int64).max
    ages = (reflected[there] - stored_ns[there]) / 1e9
    took = np.array([took for each in agents for took in each.took_s])
    lost = sum(len(each.asked) for each in agents)
    maps = max(len(each.loads) for each in agents)
    decision, question = np.quantile(ages, (0.5, 0.99)), np.quantile(took, (0.5, 0.99))
    wait = f", of which up to {EPOCH_S} s for the epoch" if name != "each" else ""
    return (f"{name}: {len(stored_ns)} rows at {rate:.0f} a second, {maps} maps; decision age {decision[0]:.2f} s at"
            f" the median, {decision[1]:.2f} at p99{wait} ({int((~there).sum())} rows not reflected); {len(took)}"
            f" questions answered in {1e3 * question[0]:.0f} ms at the median, {1e3 * question[1]:.0f} at p99, {lost}"
            f" unanswered; manager {used_s:.1f} s of a processor; load {os.getloadavg()[0]:.1f}")  # fmt: skip


def main() -> int:
    """Measure and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--maker", choices=[*MAKERS], action="append")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for name in options.maker or [*MAKERS]:
        print(measured(name, options.rate, options.seconds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
