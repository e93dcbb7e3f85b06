# SPDX-License-Identifier: MIT
"""The closed loop of one host: outcomes in, rules in force out; killed at any moment, nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from configtron.model.errors import BadInput, Unwritten
from configtron.model.fleet import WHOLE, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.learning.local_loop import AGENT, drawn_from, mix_text
from configtron.service.learning.serve_local import reachable_grid
from tests.support import ROOT, local_loop
from tests.support.children import child
from tests.support.dated_plans import dated_plan
from tests.support.local_loop import CHUNKS, EPOCH_S, FIRST, PLAN, ROWS, hosted, play, rows_stored, small_world

TENSOR = local_loop.small_world_tensor()


@pytest.mark.slow
def test_what_clients_experience_becomes_rules_in_force(tmp_path: Path) -> None:
    with hosted(tmp_path, TENSOR, "boot1") as here:
        world, gained = small_world(TENSOR), []
        for chunk in play(here, world, 6 * CHUNKS):
            gained.append(len(here.applying.applier.rules.prefixes))
            assert rows_stored(here.store) == (chunk + 1) * ROWS
        learner = here.learning.maker.learner
        assert learner.outcomes_ == 6 * CHUNKS * ROWS and not learner.left_out_
        # Nothing before there are classes, then a profile for each prefix that did not draw Default.
        assert gained[0] == 0 and gained[-1] > 0
        drawn = drawn_from(here.applying.applier)
        assert drawn[0] == here.learning.core.term and drawn[2] == FIRST + 5
        fleet_map = here.applying.maps[drawn[:2]]
        plan = dated_plan(fleet_map, drawn[2])
        assert plan.of_prefix is not None
        rules = here.applying.applier.rules
        for prefix in fleet_map.prefixes:
            profile = plan.of_prefix(prefix).profile  # type: ignore[union-attr]
            assert rules.prefixes.get(prefix, "") == ("" if profile == "default" else profile)
        assert plan.of_prefix("198.51.100.0/24").class_name == ""  # type: ignore[union-attr]


def test_a_row_that_no_database_takes_is_left_out_alone(tmp_path: Path) -> None:
    """A visitor's browser could end the loop by half of a character."""
    with hosted(tmp_path, TENSOR, "boot1") as here:
        good = [OutcomeRow(AGENT, "boot1", at, at, "site", "192.0.2.0/24", "u", 100.0) for at in (1, 2, 3)]
        here.learning.rows([good[0], good[1]._replace(protocol="\ud800"), good[2]])
        here.turn(FIRST * EPOCH_S)
        assert rows_stored(here.store) == 2 and here.learning.dropped == 1


@pytest.mark.slow
def test_a_clean_start_goes_on_and_learns_no_row_twice(tmp_path: Path) -> None:
    with hosted(tmp_path, TENSOR, "boot1") as here:
        for _ in play(here, small_world(TENSOR), 2 * CHUNKS):
            pass
        term = here.learning.core.term
    with hosted(tmp_path, TENSOR, "boot2") as here:
        for _ in play(here, small_world(TENSOR), 3 * CHUNKS):
            pass
        assert here.learning.core.term == term + 1
        assert here.learning.maker.learner.outcomes_ == 3 * CHUNKS * ROWS and not here.learning.maker.learner.left_out_


def test_what_the_learner_makes_reaches_clients_by_stages_and_every_row_teaches(tmp_path: Path) -> None:
    with hosted(tmp_path, TENSOR, "boot1", plan=PLAN) as here:
        stages, seen = here.learning.core.stages, []
        assert stages is not None
        for _ in play(here, small_world(TENSOR), 8 * CHUNKS):
            seen.append(stages.rollout.stage if stages.rollout is not None else "")
        learner = here.learning.maker.learner
        assert learner.outcomes_ == 8 * CHUNKS * ROWS and not learner.left_out_
        assert set(seen) == {"", "canary"}
        drawn = here.applying.maps[drawn_from(here.applying.applier)[:2]]
        assert (learner.map or drawn).mixes == drawn.mixes


@pytest.mark.slow
def test_killed_at_any_moment_policy_maps_and_propensities_agree(tmp_path: Path) -> None:
    """SIGKILL after random times. Every row is stored and learned once, by the map that its propensity is of."""
    rng, environment = np.random.default_rng(1), {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.support.local_loop", str(tmp_path), str(6 * CHUNKS)]
    kills, found = 0, ""
    while not found:
        with child(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            wanted = int(rng.integers(1, 5)) if kills < 6 else 10**6
            for seen, line in enumerate(running.stdout, start=1):
                if line.startswith("{"):
                    # it has ended: a kill from here on would lead to no further start
                    found = line
                    break
                if seen == wanted:
                    time.sleep(float(rng.random()) * 0.3)
                    running.kill()
                    kills += 1
                    break
    summary = json.loads(found)
    assert kills >= 3 and summary["term"] == kills + 1
    assert summary["rows"] == summary["learned"] == 6 * CHUNKS * ROWS and summary["left_out"] == {}
    assert summary["mixes"] > 0


def test_rows_wait_while_the_disk_is_full_and_are_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hosted(tmp_path, TENSOR, "boot1") as here:
        world = small_world(TENSOR)
        now = FIRST * EPOCH_S
        here.turn(now + 5)
        rows = world.epoch(FIRST, here.applying.maps[drawn_from(here.applying.applier)[:2]]).rows[:10]
        with monkeypatch.context() as full:

            def fails(*_: object) -> int:
                raise Unwritten("loop.db: no space left on the device")

            full.setattr(here.store, "add_rows", fails)
            here.learning.rows(rows)
            for at in range(3):
                here.turn(now + 6 + at)
            assert rows_stored(here.store) == 0
        here.turn(now + 9)
        assert [row.agent for _, row in here.store.rows_after(0)] == [AGENT] * 10


def test_only_what_the_host_takes_is_learned() -> None:
    def no_window(profile: Profile) -> str:
        return "initcwnd is out of reach" if "initcwnd" in dict(profile.settings) else ""

    grid = reachable_grid(no_window, TENSOR.grid)
    assert 1 < len(grid) < len(TENSOR.grid)
    assert {dict(profile.settings)["initcwnd"] for profile in grid.profiles} == {10}
    with pytest.raises(BadInput, match="nothing to learn: no driver"):
        reachable_grid(lambda profile: "no driver", TENSOR.grid)


@pytest.mark.slow
def test_a_map_in_one_line(tmp_path: Path) -> None:
    with hosted(tmp_path, TENSOR, "boot1") as here:
        for _ in play(here, small_world(TENSOR), 3 * CHUNKS):
            pass
        fleet_map = here.learning.maker.learner.map
        assert fleet_map is not None and sum(parts for mix in fleet_map.mixes.values() for _, parts in mix) % WHOLE == 0
        assert f"{len(fleet_map.prefixes)} prefixes in {len(fleet_map.mixes)} classes; " in mix_text(fleet_map)
