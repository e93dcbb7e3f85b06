# SPDX-License-Identifier: MIT
"""How long a manager's network loop pauses while its learner learns, and how late its answers are meanwhile.

    python -m benchmarks.learner_pause [--rows 10000] [--epochs 4] [--within]

One manager with a policy and epochs of 10 s, one agent that sends rows, and asks for an unknown client's class ten
times a second. Printed: the longest time between two turns of the manager's loop, and how late its answers were.
`--within` has the learner in the manager's own process, as it was until November 2026.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from benchmarks.decision_age import AskingAgent, row_of
from benchmarks.loop import PROFILES, Agent, Manager, free_endpoint, until
from configtron.learner.closed_loop import LoopOptions
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.service.fleet.learner_process import LearnerRecipe
from configtron.service.fleet.makers import grid_of
from configtron.service.fleet.manager import run_manager
from configtron.service.fleet.map_maker import MapMaker
from configtron.service.fleet.spool import Spool
from configtron.service.fleet.stages import Stages

EPOCH_S, EVERY_S, BATCH = 10, 0.1, 500


def thompson(database: Path, arguments: Mapping[str, Any]) -> tuple[MapMaker, Stages | None]:
    """Return the product's preferred policy, without stages."""
    options = LoopOptions(grid_of(list(PROFILES.values())[:1]), "thompson", MapOptions(epoch_s=EPOCH_S))
    return LoopMapMaker(options, b"k" * 16), None


def managed(manager: Manager, within: bool, longest: Synchronized[float]) -> None:
    """Run a manager, and note the longest time between two turns."""
    logging.disable(logging.CRITICAL)
    before = time.monotonic()

    def turned() -> bool:
        nonlocal before
        now = time.monotonic()
        longest.value, before = max(longest.value, now - before), now
        return False

    database = manager.options.database
    maker = thompson(database, {})[0] if within else LearnerRecipe(database, "benchmarks.learner_pause:thompson")
    run_manager(manager.options, maker, stop=turned)


def measured(rows: int, epochs: int, within: bool) -> str:
    """Return a line."""
    with tempfile.TemporaryDirectory() as folder:
        manager = Manager(Path(folder), free_endpoint())
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        (pair,) = manager.enroll(1)
        agent = AskingAgent(manager.address, pair, context)
        agent.spool = Spool(manager.folder / "s.db", "a")
        longest = multiprocessing.Value("d", 0.0)
        manager.process = multiprocessing.get_context("fork").Process(target=managed, args=(manager, within, longest))
        manager.process.start()
        play(agent, rows, epochs)
        used, pause_s = manager.processor_s(), longest.value
        manager.kill()
    late = max(agent.took_s)
    where = "within the manager" if within else "in its own process"
    return (f"learner {where}: {rows} rows, {len(agent.loads)} maps in {epochs} epochs; longest pause of the loop"
            f" {1e3 * pause_s:.0f} ms; {len(agent.took_s)} questions answered in"
            f" {1e3 * np.quantile(agent.took_s, 0.5):.0f} ms at the median, {1e3 * late:.0f} ms at most,"
            f" {len(agent.asked)} unanswered; manager {used:.1f} s of a processor; load"
            f" {os.getloadavg()[0]:.1f}")  # fmt: skip


def play(agent: AskingAgent, rows: int, epochs: int) -> None:
    """Send rows in the first epoch, and ask until the last one is over."""
    chance = np.random.default_rng(1)
    waiting = [replace(row_of(chance, time.time_ns()), sequence=0) for _ in range(rows)]
    end = time.monotonic() + epochs * EPOCH_S
    due, number = time.monotonic(), 0

    def feed(_: Agent) -> bool:
        nonlocal due, number
        now = time.monotonic()
        if now >= due:
            due += EVERY_S
            assert agent.spool is not None
            agent.spool.add(waiting[-BATCH:])
            del waiting[-BATCH:]
            agent.ask(number := number + 1)
        return now > end

    until([agent], feed)


def main() -> int:
    """Measure and print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--within", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(measured(options.rows, options.epochs, options.within), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
