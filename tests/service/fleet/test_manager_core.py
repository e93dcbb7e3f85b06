# SPDX-License-Identifier: MIT
"""The manager's core: harm stops at the canary, a good version reaches all, and a kill in any stage changes nothing.

Versions are planned by the test, rows are drawn by the published maps; core, store and stages are the product's.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.db.fleet import FleetStore
from configtron.db.tuning import Tuning
from configtron.fleet.messages import AgentHello, MapResult, batch_frame, encode_rows, frame
from configtron.learner.chance import seeded
from configtron.learner.map_making import MapOptions
from configtron.learner.rollout import Rollout, RolloutPlan
from configtron.learner.sequential.switchback import SwitchPlan
from configtron.learner.staged_mixes import NOTHING_STAGED, apart, staged_map, version_of
from configtron.learner.state import decode
from configtron.model.errors import BadInput, Unwritten
from configtron.model.fleet import MOST_ARMS, WHOLE, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet import enrolment
from configtron.service.fleet.learner_main import made_by
from configtron.service.fleet.learner_process import LearnerRecipe
from configtron.service.fleet.makers import chosen_maker
from configtron.service.fleet.manager import LOCK_PATIENCE_S, ManagerOptions
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_maker import FixedMapMaker
from configtron.service.fleet.stages import ROLLOUT, STAGES, StageOptions, switch_plan
from configtron.service.learning import fleet_report
from tests.support.fleet_rows import BEGUN_NS, fleet_rows
from tests.support.running_fleet import MAP
from tests.support.staged_world import FIRST, KEY, PLAIN, PlannedMaker, StagedWorld, planned_map

# Small margins need many clients; these make a stage of some epochs.
PLAN = RolloutPlan(margins=(("median", 0.25), ("p95", 0.6), ("failures", 0.1)), clients=700)
DAY_S = 86_400.0
NOTHING = planned_map({"near": [(PLAIN, WHOLE)], "far": [(PLAIN, WHOLE)]})


def mostly(*names: str) -> list[tuple[str, int]]:
    """Return a mix of a tenth Default, and these."""
    each = (WHOLE - 6_000) // len(names)
    return [(PLAIN, WHOLE - each * len(names)), *((name, each) for name in names)]


def wanting(*names: str) -> PlannedMaker:
    return PlannedMaker(planned_map({"near": mostly(*names), "far": mostly(*names)}))


def world_of(folder: Path, *names: str, **named: Any) -> StagedWorld:
    """Return a world whose maker wants these profiles."""
    return StagedWorld(folder, wanting(*names), PLAN, **named)


def to_stage(world: StagedWorld, stage: str, epochs: int = 25) -> None:
    """Play until a stage."""
    for _ in range(3 * epochs):
        if world.step() == stage:
            return
    raise AssertionError(f"{world.stage} after {epochs} epochs, not {stage}")


def stored(world: StagedWorld) -> Rollout:
    """Return the roll-out that the database has."""
    with FleetStore(world.folder / "staged.db", read_only=True) as store:
        found = decode(store.facts()[ROLLOUT])["rollout"]
    assert isinstance(found, Rollout)
    return found


def test_a_good_version_reaches_all_by_its_gates(tmp_path: Path) -> None:
    world = world_of(tmp_path, "x0.8")
    stages = world.play(1)
    while stages[-1] != "all" and len(stages) < 60:
        stages.append(world.step())
    order = [stage for at, stage in enumerate(stages) if at == 0 or stages[at - 1] != stage]
    assert order == ["", "canary", "quarter", "all"]
    assert [row.why for row in stored(world).evidence][:4] == ["begun", "unseen", "gate", "gate"]
    assert dict(world.current.mixes)["near"] == tuple(mostly("x0.8"))
    whys = [row.why for row in world.store.maps()]
    assert sum(why.startswith("made; canary of 1.") for why in whys) > 1


def test_harm_is_stopped_at_the_canary_and_the_next_map_changes_the_draw_at_once(tmp_path: Path) -> None:
    world = world_of(tmp_path, "x2.5")
    to_stage(world, "canary")
    key, canary = world.current.key, dict(world.current.mixes)["near"]
    had = sum(weight for name, weight in canary if name == "x2.5") / WHOLE
    assert 0.0 < had <= 0.05
    to_stage(world, "returned")
    rollout = stored(world)
    last = rollout.evidence[-1]
    assert (last.why, last.stage) == ("alarm", "returned") and dict(last.numbers)["low"] > 0.0
    assert set(world.current.mixes["near"]) == {(PLAIN, WHOLE)} and world.current.key != key
    # It is not tried again, and no client ever gets it.
    assert set(world.play(6)) == {"returned"} and "x2.5" not in world.current.profiles


class LosingWorld(StagedWorld):
    """None of the new profile's loads arrives."""

    def rows(self, drawn: FleetMap, part: int) -> list[OutcomeRow]:
        return [row for row in super().rows(drawn, part) if row.profile != "x0.8"]


def test_a_version_whose_loads_do_not_arrive_is_stated_and_goes_no_further(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It stayed in its canary, and the log had no word of it."""
    world = LosingWorld(tmp_path, wanting("x0.8"), PLAN)
    to_stage(world, "canary")
    assert set(world.play(4)) == {"canary"} and stored(world).suspended == "sample-ratio"
    lines = [one.getMessage() for one in caplog.records if "clients of one group are missing" in one.getMessage()]
    assert len(lines) == 1 and "rollback" in lines[0]


def after_its_roll_out(world: StagedWorld) -> None:
    to_stage(world, "all")
    world.slower = {"x0.8": 2.0}


def while_the_next_is_on_its_way(world: StagedWorld) -> None:
    to_stage(world, "all")
    world.maker.wanted = replace(wanting("x0.75").wanted, key=world.current.key)
    to_stage(world, "canary")
    assert {"x0.8", "x0.75"} <= set(world.current.profiles)
    world.slower = {"x0.8": 2.0}


def when_the_clock_is_set_back(world: StagedWorld) -> None:
    """Looks that seemed to be earlier than the latest one were passed over, until the clock had caught up."""
    to_stage(world, "canary")
    world.slower, world.stepped_s = {"x0.8": 2.5}, -DAY_S


def when_the_clock_is_set_back_before_a_start(world: StagedWorld) -> None:
    when_the_clock_is_set_back(world)
    world.start()


def on_an_agent_whose_clock_is_late(world: StagedWorld) -> None:
    """Its loads seemed to be from before the stage: they were left out for a day, on both of its arms."""
    # The manager's clock is the one that is ahead.
    world.stepped_s = DAY_S
    to_stage(world, "canary")
    world.slower = {"x0.8": 2.5}


@pytest.mark.parametrize("harm", [
    after_its_roll_out, while_the_next_is_on_its_way, when_the_clock_is_set_back,
    when_the_clock_is_set_back_before_a_start, on_an_agent_whose_clock_is_late,
])  # fmt: skip
def test_harm_is_taken_back(tmp_path: Path, harm: Callable[[StagedWorld], None]) -> None:
    world = world_of(tmp_path, "x0.8")
    harm(world)
    to_stage(world, "returned", 12)
    assert stored(world).evidence[-1].why == "alarm"
    assert "x0.8" not in world.current.profiles and set(world.current.mixes["far"]) == {(PLAIN, WHOLE)}


@pytest.mark.parametrize("stage", ["canary", "quarter", "all", "returned"])
def test_a_kill_in_each_stage_goes_on_as_without_it(stage: str, tmp_path: Path) -> None:
    factor = "x2.5" if stage == "returned" else "x0.8"
    worlds = []
    for name, killed in (("a", False), ("b", True)):
        (tmp_path / name).mkdir()
        world = world_of(tmp_path / name, factor)
        to_stage(world, stage)
        if killed:
            before = world.stages
            world.start()
            assert world.stages.rollout == before.rollout and world.stages.state.candidate == before.state.candidate
            assert [*world.stages._rows] == [*before._rows]
        world.play(2)
        worlds.append(world)
    one, other = worlds
    assert one.current.mixes == other.current.mixes
    assert [(row.stage, row.why) for row in stored(one).evidence] == [
        (row.stage, row.why) for row in stored(other).evidence]  # fmt: skip


def test_a_trip_without_room_on_the_disk_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(tmp_path, "x2.5")
    to_stage(world, "canary")
    with monkeypatch.context() as full:

        def fails(*_: object) -> None:
            raise Unwritten("staged.db: no space left on the device")

        full.setattr(world.store, "put_map", fails)
        while world.step() != "returned":
            assert world.epoch < FIRST + 12
        assert "x2.5" in world.current.profiles
    world.tick(599.0)
    assert "x2.5" not in world.current.profiles and stored(world).stage == "returned"


def test_the_shadow_rejects_what_the_log_shows_to_harm(tmp_path: Path) -> None:
    both = PlannedMaker(planned_map({"near": mostly("x0.8", "x1.0"), "far": mostly("x0.8", "x1.0")}))
    world = StagedWorld(tmp_path, both, PLAN)
    to_stage(world, "all")
    world.slower = {"x1.0": 1.2, "x0.8": 0.6}
    world.maker.wanted = replace(wanting("x1.0").wanted, key=world.current.key,
                                 profiles=both.wanted.profiles)  # fmt: skip
    before = stored(world).version
    world.play(4)
    assert stored(world).version == before and world.stages.state.returned
    assert {name for name, _ in world.current.mixes["near"]} == {PLAIN, "x0.8", "x1.0"}


def test_an_operator_s_rollback_recalls_what_is_on_its_way(tmp_path: Path) -> None:
    world = world_of(tmp_path, "x0.8")
    to_stage(world, "quarter")
    enrolment.roll_back(tmp_path / "staged.db", "1.2")
    world.tick(599.0)
    assert stored(world).evidence[-1].why == "recalled" and stored(world).stage == "returned"
    assert "x0.8" not in world.current.profiles


def test_dark_hours_give_default_to_all_and_the_report_compares_them(tmp_path: Path) -> None:
    switch = SwitchPlan(600, 4, 1, 5.0)
    world = StagedWorld(tmp_path, wanting("x0.8"), None, switch, loads=400)
    dark = []
    for _ in range(28):
        world.play(1)
        dark.append(set(world.current.mixes["near"]) == {(PLAIN, WHOLE)})
    days = [dark[at : at + 4] for at in range(0, 28, 4)]
    assert [sum(day) for day in days] == [1] * 7 and len({day.index(True) for day in days}) > 1
    found = fleet_report.report(fleet_report.ReportOptions(tmp_path / "staged.db")).switchback
    assert found is not None and found.days == 7 and found.high < 0.0
    assert found.estimate == pytest.approx(np.log(0.8) * 0.9 * 0.8, abs=0.08)


def test_versions_share_a_class_s_arms_by_their_share_of_clients() -> None:
    many = [("a", 20_000), *((f"b{at}", 1_000) for at in range(6)), ("c", WHOLE - 26_000)]
    old = version_of(planned_map({"near": many}), (1, 1))
    new = version_of(planned_map({"near": [*reversed(many)]}), (1, 2))
    latest = planned_map({"near": many, "other": [(PLAIN, WHOLE)]})
    chosen = set()
    for seed in range(40):
        found, first = staged_map(latest, old, new, 0.25, seeded(seed))
        mix = found.mixes["near"]
        assert len(mix) <= MOST_ARMS and sum(weight for _, weight in mix) == WHOLE
        assert sum(weight for _, weight in mix[first["near"] :]) == WHOLE // 4
        assert found.mixes["other"][: first["other"]] == ((PLAIN, WHOLE * 3 // 4),)
        chosen |= {name for name, _ in mix}
    assert staged_map(latest, old, replace(new, profiles={**new.profiles, "a": old.profiles["c"]}), 0.5, seeded(1))[
        0].profiles["a-2"].settings == old.profiles["c"].settings  # fmt: skip
    assert chosen == {name for name, _ in many}
    assert apart(old, old, latest) == 0.0 and apart(NOTHING_STAGED, old, latest) == 0.5


def test_barred_profiles_leave_a_version(tmp_path: Path) -> None:
    version = version_of(wanting("x0.8", "x0.9").wanted, (1, 1))
    left = version.permitted(lambda profile: "no" if profile.name == "x0.8" else "")
    assert left.arms("near")[0] == (PLAIN, version.arms("near")[0][1] + version.arms("near")[1][1])
    none = version.permitted(lambda profile: "no" if profile.settings else "")
    assert none.arms("near") == ((PLAIN, WHOLE),) and none.arms("unknown") == ((PLAIN, WHOLE),)


def test_damaged_facts_are_named(tmp_path: Path) -> None:
    world = world_of(tmp_path, "x0.8", switch=SwitchPlan())
    to_stage(world, "canary")
    for fact, text in ((STAGES, "{"), (STAGES, '{"map":[]}'), (ROLLOUT, "[]"), (ROLLOUT, '{"map":[["rollout",1]]}')):
        kept = world.store.facts()[fact]
        world.store.put_facts({fact: text})
        with pytest.raises(BadInput, match=f"fact '({STAGES}|{ROLLOUT})' is damaged"):
            world.start()
        world.store.put_facts({fact: kept})
    for text in ("[]", "{}", '{"key": "zz"}', '{"key": "00", "block": 1}'):
        with pytest.raises(BadInput, match="'dark' is damaged"):
            switch_plan(text)


def test_a_manager_without_stages_forgets_them(tmp_path: Path) -> None:
    world = world_of(tmp_path, "x0.8")
    to_stage(world, "canary")
    ManagerCore(world.store, PlannedMaker(NOTHING), KEY, "plain", world.now_s * 10**9)
    assert not {STAGES, ROLLOUT} & world.store.facts().keys()


def test_stages_need_a_holdback_and_whole_blocks() -> None:
    def none(*_: object) -> None: ...

    with pytest.raises(BadInput, match="--holdback"):
        StageOptions().made(b"k", none, MapOptions(holdback=0.0))
    with pytest.raises(BadInput, match="epoch"):
        StageOptions(dark_hours=1).made(b"k", none, MapOptions(epoch_s=700))
    with pytest.raises(BadInput, match="stage-clients"):
        StageOptions(1)
    assert StageOptions().made(b"k", none, MapOptions(epoch_s=700)) is not None, "without dark hours"
    assert StageOptions(stages=False).made(b"k", none, MapOptions()) is None


@pytest.mark.parametrize("staged", [True, False])
def test_how_a_process_makes_maps_says_whether_they_are_staged(tmp_path: Path, staged: bool) -> None:
    with Tuning(tmp_path / "m.db") as tuning:
        tuning.set_profiles([Profile("fast", (("initcwnd", 20),))])
    options = ManagerOptions(tmp_path / "m.db", tmp_path / "keys")
    recipe = chosen_maker(options, None, "mab_nc", StageOptions(stages=staged))
    assert isinstance(recipe, LearnerRecipe) and recipe.staged == staged
    assert (made_by(recipe.maker)(recipe.database, {**recipe.arguments})[1] is not None) == staged


def test_versions_that_do_nothing_raise_alarms_and_claims_as_rarely_as_stated(tmp_path: Path) -> None:
    """Of 6 A/A roll-outs, whose alarms may err in 2.5 % and claims in 2.5 %: two or more are no chance (p = 3 %)."""
    wrong, ends = [], set()
    for seed in range(6):
        (folder := tmp_path / str(seed)).mkdir()
        world = StagedWorld(folder, wanting("x1.0"), replace(PLAN, clients=400), seed=seed, loads=1200)
        world.play(8)
        rollout = stored(world)
        ends.add(rollout.stage)
        if rollout.claimed or any(row.why == "alarm" for row in rollout.evidence):
            wrong.append((seed, rollout.evidence[-1]))
    assert len(wrong) < 2 and ends & {"quarter", "all"}, (wrong, ends)


@pytest.mark.parametrize("stepped_s", [-DAY_S, -40.0, 0.0])
def test_a_map_is_renewed_in_time_though_the_clock_was_set_back(tmp_path: Path, stepped_s: float) -> None:
    """Agents fell back to Default: they count the 100 s by their own clocks, and the manager waited for its own."""
    with FleetStore(tmp_path / "m.db") as store:
        core = ManagerCore(store, FixedMapMaker(MAP, valid_s=100.0), KEY, "m", BEGUN_NS)
        for second in range(140):
            core.tick(float(second), BEGUN_NS + round((second + (stepped_s if second > 45 else 0.0)) * 1e9))
        # The first is made at second 0; agents that got it then have it until second 100.
        assert [row.why for row in store.maps()][:3] == ["made", "validity renewed", "validity renewed"]


def test_what_an_agent_said_stays_until_it_is_revoked(tmp_path: Path) -> None:
    """A result before the hello forgot its operator's bounds; those of a revoked agent held for ever."""
    with FleetStore(tmp_path / "m.db") as store:
        store.enroll("web1", "key")
        fast, hello = Profile("fast", (("initcwnd", 20),)), AgentHello("b1", "0", bounds=(("initcwnd", 10, 10, ()),))
        for start, said in enumerate((hello, MapResult(1, 1, b"", omitted=1 << 62))):
            core = ManagerCore(store, FixedMapMaker(MAP, valid_s=100.0), KEY, f"m{start}", BEGUN_NS)
            core.receive(b"1", "key", frame(said), 0.0, BEGUN_NS)
            assert "web1" in core.barred(fast)
            core.tick(50.0, BEGUN_NS + 50 * 10**9)
            assert f'"heard_s":{BEGUN_NS // 10**9}' in store.facts()["agent web1"], "not when it was written"
        assert len(core.session.receive(b"1", "key", frame(said), 51.0)) == 1, "heard again; the same result is no news"
        store.revoke("web1")
        core.tick(60.0, BEGUN_NS + 60 * 10**9)
        assert core.barred(fast) == ""


def test_a_locked_database_holds_up_no_answer_and_rows_come_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch held the manager's loop for half a minute, and each tick that writes did so too."""
    with FleetStore(tmp_path / "m.db") as store:
        store.enroll("web1", "key")
        core = ManagerCore(store, FixedMapMaker(MAP, valid_s=100.0), KEY, "m", BEGUN_NS)
        store.wait_at_most(LOCK_PATIENCE_S)
        assert store._connection.execute("PRAGMA busy_timeout").fetchone()[0] < 50, "ms that each write may wait"
        core.receive(b"1", "key", frame(AgentHello("b1", "0")), 0.0, BEGUN_NS)
        batch = batch_frame("b1", 1, encode_rows([fleet_rows(1, 1)[0]._replace(rtt_ms=20.0)]))
        other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with caplog.at_level(logging.ERROR):
            answers = [core.receive(b"1", "key", batch, at, BEGUN_NS) for at in (1.0, 2.0)]
            core.tick(60.0, BEGUN_NS + 60 * 10**9)
            greeted = core.receive(b"1", "key", frame(AgentHello("b1", "0")), 61.0, BEGUN_NS)
        assert answers == [[], []] and greeted and len(caplog.records) == 1 and "locked" in caplog.text
        other.execute("ROLLBACK")
        assert core.receive(b"1", "key", batch, 62.0, BEGUN_NS)
        assert len(store.rows_after(0)) == 1


def test_an_agent_whose_frames_are_refused_is_not_heard_and_listed_with_the_reason(tmp_path: Path) -> None:
    with FleetStore(tmp_path / "m.db") as store:
        store.enroll("web1", "key")
        core = ManagerCore(store, FixedMapMaker(MAP, valid_s=100.0), KEY, "m", BEGUN_NS)
        core.receive(b"1", "key", frame(AgentHello("b1", "0", seen_term=9, seen="x")), 0.0, BEGUN_NS)
        core.tick(50.0, BEGUN_NS)
    (found,) = enrolment.agents(tmp_path / "m.db")
    assert not found.heard_at and "1 frames refused, the last: the agent names a manager" in found.reason


@pytest.mark.parametrize("ahead", [{"at_ns": BEGUN_NS + 10**12}, {"epoch": 10**9}])
def test_rows_from_the_future_do_not_teach(ahead: dict[str, Any], tmp_path: Path) -> None:
    """One such row, and its prefix counted no client any more: it was in no map."""
    with FleetStore(tmp_path / "m.db") as store:
        core = ManagerCore(store, FixedMapMaker(MAP, valid_s=100.0), KEY, "m", BEGUN_NS)
        core.tick(0.0, BEGUN_NS)
        row = fleet_rows(1, 1)[0]._replace(at_ns=BEGUN_NS, epoch=0)
        core.add_rows("web1", "b1", 1, [row._replace(sequence=1), row._replace(sequence=2, **ahead)], BEGUN_NS)
        assert [row.why_not for _, row in store.rows_after(0)] == ["", "dated-ahead"]
