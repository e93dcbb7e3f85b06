# SPDX-License-Identifier: MIT
"""The closed loop of one host on the driver of trials, in virtual time, with the page loads of a small world.

    python -m tests.support.local_loop FOLDER CHUNKS

goes on from what FOLDER has, stores and learns so many chunks of rows in all, a line each, and prints a summary as
JSON: the process that starts it may kill it at any moment.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from configtron.db.agent_journal import AgentJournal
from configtron.db.fleet import FleetStore
from configtron.fleet.transport.curve_keys import signing_key
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.rollout import RolloutPlan
from configtron.model.tensor import Tensor
from configtron.service.fleet.agent import wanted_by_humans
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.stages import Stages
from configtron.service.learning.local_loop import GuardedMaker, LocalApplying, LocalLearning, drawn_from
from configtron.service.learning.serve_local import ServeOptions, loop_options, reachable_grid
from configtron.service.lease.context import context_of
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.planner import chosen
from configtron.tune.pools import for_kernel
from tests.support.live_world import LiveWorld, clients_of
from tests.support.worlds import small_tensor

# The first epoch; its length, s; chunks of rows an epoch, and rows of a chunk.
FIRST, EPOCH_S, CHUNKS, ROWS = 2_000_000, 600, 4, 60
# Of stages: the fewest clients, so that all of them are passed in some epochs.
PLAN = RolloutPlan(margins=(("median", 2.0), ("p95", 4.0), ("failures", 0.5)), clients=100)


class Hosted(NamedTuple):
    """Both halves of a loop, with their store."""

    learning: LocalLearning
    applying: LocalApplying
    store: FleetStore

    def turn(self, at_s: int) -> None:
        """Turn both halves, as at this second."""
        self.learning.turn(float(at_s), at_s * 10**9)
        self.applying.turn(float(at_s), at_s * 10**9)


def small_world_tensor() -> Tensor:
    """Return what a kernel sets of the small tensor: one version of HTTP, and no corking."""
    whole = small_tensor(conditions=4)
    kept = [
        at for at, profile in enumerate(whole.grid.profiles)
        if ("http_version", "http/1.1") in profile.settings and ("tcp_autocorking", 1) in profile.settings
    ]  # fmt: skip
    return whole.over(whole.grid.only(kept))


def small_world(tensor: Tensor) -> LiveWorld:
    """Return clients of one server."""
    clients = clients_of({"all": {at: 1 for at in range(4)}}, 4, 40, np.random.default_rng(3))
    return LiveWorld(tensor, clients, 3, loads=CHUNKS * ROWS, agents=1)


@contextmanager
def hosted(folder: Path, tensor: Tensor, boot: str, policy: str = "mab_nc", plan: RolloutPlan | None = None
           ) -> Iterator[Hosted]:  # fmt: skip
    """A loop on the driver of trials, whose database is in the folder. plan: of its stages; None: it has none."""
    lease = LeaseOptions(folder / "loop.db", driver="memory")
    options = ServeOptions(lease, folder / "keys", policy, 0.2, begin_with=300)
    key = signing_key(options.keys)
    with AgentJournal(lease.database) as journal, FleetStore(lease.database) as store:
        driver = chosen(context_of(journal), lease, for_kernel(journal.wanted()))
        enforcement = JournaledEnforcement(lease, journal, driver)
        humans = wanted_by_humans(journal)
        grid = reachable_grid(enforcement.barred, tensor.grid)
        names = tuple(humans.prefixes), frozenset(humans.profiles)
        maker = LoopMapMaker(loop_options(options, grid, *names, enforcement.draws), bytes(range(16)))
        stages = Stages(plan, note=maker.note) if plan is not None else None
        core = ManagerCore(
            store, GuardedMaker(maker, enforcement.barred), key, f"local/{boot}", FIRST * EPOCH_S * 10**9, stages
        )
        applier = Applier(enforcement, key.verify_key, humans, enforcement.human_rules())
        try:
            learning = LocalLearning(core, maker, boot)
            yield Hosted(learning, LocalApplying(learning, applier, key.verify_key), store)
        finally:
            enforcement.release()


def rows_stored(store: FleetStore) -> int:
    """Return how many rows are in the database."""
    found = after = 0
    while rows := store.rows_after(after):
        found, after = found + len(rows), rows[-1][0]
    return found


def play(here: Hosted, world: LiveWorld, chunks: int) -> Iterator[int]:
    """Go on from what is stored, chunk by chunk, up to so many in all."""
    sequence = 0
    for chunk in range(rows_stored(here.store) // ROWS, chunks):
        epoch, part = FIRST + chunk // CHUNKS, chunk % CHUNKS
        begun_s = epoch * EPOCH_S + part * 140
        here.turn(begun_s + 5)
        here.turn(begun_s + 6)
        in_force = here.applying.maps[drawn_from(here.applying.applier)[:2]]
        rows = world.epoch(epoch, in_force).rows[part * ROWS : (part + 1) * ROWS]
        here.learning.rows([row._replace(sequence=sequence + at) for at, row in enumerate(rows, start=1)])
        sequence += len(rows)
        here.turn(begun_s + 139)
        yield chunk


def main(folder: str, chunks: str) -> None:
    """Play, and print the summary."""
    tensor = small_world_tensor()
    with hosted(Path(folder), tensor, secrets.token_hex(4), plan=PLAN) as here:
        for chunk in play(here, small_world(tensor), int(chunks)):
            print(f"chunk {chunk}", flush=True)
        maker = here.learning.maker
        assert isinstance(maker, LoopMapMaker)
        learner = maker.learner
        print(json.dumps({"rows": rows_stored(here.store), "learned": learner.outcomes_,
                          "left_out": dict(learner.left_out_), "term": here.learning.core.term,
                          "mixes": len(learner.map.mixes) if learner.map else 0}))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
