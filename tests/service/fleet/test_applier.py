# SPDX-License-Identifier: MIT
"""The applier, by a kernel of its own: what it leaves alone, when it turns, and what ends what is in force.

That rules are those of map, epoch and mixes, also after kills and reboots, is judged in `test_whole_system.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from configtron.fleet.map_document import document
from configtron.model.errors import Refused
from configtron.model.nouns import Profile
from configtron.service.fleet.applier import LeaseOver
from tests.support.applied_maps import (
    EPOCH_S,
    HUMANS,
    MAP,
    NO_RULES,
    NS,
    PREFIXES,
    PROFILES,
    START_NS,
    TURN_NS,
    Recorded,
    Trial,
    made,
)

ONE_FAR, OTHER = {"192.0.2.0/24": "far"}, {"192.0.3.0/24": "near"}
GONE = Refused("the driver ebpf has no rules in force here")
PART = "198.51.0.0/24 profile: fast -> none"


def test_what_a_human_set_is_left_and_named() -> None:
    trial = Trial(humans=HUMANS)
    result, rules = trial.load().result, trial.kernel.rules.prefixes
    assert {entry for entry, _ in result.refused} == {"198.51.7.0/24", "203.0.0.0/24", "203.0.1.0/24"}
    assert result.error == "" and result.entries == len(PREFIXES) - 3
    assert {prefix: rules[prefix] for prefix in HUMANS.prefixes} == HUMANS.prefixes and "203.0.0.0/24" not in rules


def test_a_class_with_a_barred_profile_keeps_default_and_the_rest_is_applied() -> None:
    trial = Trial()
    found = trial.load(profiles={**PROFILES, "fast": Profile("fast", (("initcwnd", 99),))}).result
    assert found.refused == (("profile fast", "initcwnd is beyond your bound"),)
    assert set(trial.kernel.rules.prefixes) == {prefix for prefix, name in PREFIXES.items() if name == "far"}


def test_a_change_costs_its_own_prefixes() -> None:
    trial = Trial(draws=True)
    trial.take()
    prefixes = {**PREFIXES, "198.51.0.0/24": "far", **ONE_FAR}
    del prefixes["198.51.1.0/24"]
    found = trial.load(version=2, prefixes=prefixes).result
    assert found.error == "" and found.entries == len(prefixes)
    trial.tick(1.0, EPOCH_S)
    assert trial.kernel.begun == 1 and trial.kernel.changed == 3 and trial.kernel.rules.prefixes == prefixes


def test_validity_counts_on_the_hosts_own_clock_and_its_end_leaves_the_humans_rules() -> None:
    trial, day_s = Trial(humans=HUMANS), 86_400
    # The wall clock is a day ahead: the map is as valid as it was when it was made.
    trial.take(0.0, day_s)
    trial.tick(3599.0, day_s)
    assert trial.one.held[:2] == (1, 1)
    trial.tick(3600.5, day_s)
    assert trial.one.held == (0, 0, b"") and trial.kernel.rules.prefixes == HUMANS.prefixes
    assert any("void" in remark for remark in trial.one.take_remarks())


def test_the_last_good_map_stays_when_the_driver_refuses_one() -> None:
    trial = Trial()
    trial.take()
    before, trial.kernel.refuses = trial.kernel.rules, Refused("the driver refuses it")
    # Another key, as a rollback has: it is put in force at once.
    found = trial.load(version=2, key=b"b" * 16, prefixes=ONE_FAR)
    assert found.result.error == "the driver refuses it" and not found.retry
    assert trial.one.held[:2] == (1, 1) and trial.kernel.rules == before


def test_a_map_that_the_driver_refuses_at_the_turn_is_rejected_then_and_the_last_good_one_is_drawn_again() -> None:
    trial = Trial()
    one, kernel = trial.one, trial.kernel
    trial.take()
    trial.take(version=2, prefixes={**PREFIXES, **ONE_FAR})
    assert one.held[:2] == (1, 2)
    kernel.bars = "192.0.2.0/24"
    trial.tick(1.0, EPOCH_S)
    (late,) = one.take_late()
    assert late.result.error == "192.0.2.0/24 is refused" and late.held[:2] == one.held[:2] == (1, 1)
    assert (late.result.term, late.result.version) == (1, 2) and one.take_late() == []
    assert one.drawing is not None and one.drawing.epoch == TURN_NS // NS // EPOCH_S
    assert set(kernel.rules.prefixes) == set(PREFIXES) and list(kernel.documents) == [(1, 1)]
    # The next one is the difference to what is in force.
    trial.take(2.0, version=3, prefixes={**PREFIXES, "192.0.3.0/24": "far"})
    trial.tick(3.0, 2 * EPOCH_S)
    assert "192.0.3.0/24" in kernel.rules.prefixes and kernel.begun == 1


def test_a_rollback_takes_effect_at_once_though_a_map_waits() -> None:
    trial = Trial(draws=True)
    trial.take()
    trial.take(1.0, version=2, prefixes={**PREFIXES, "192.0.2.0/24": "near"})
    trial.take(2.0, version=3, key=b"b" * 16, prefixes=OTHER)
    first, second = trial.kernel.plans
    assert trial.kernel.rules.prefixes == OTHER and first[0].epoch == second[0].epoch


@pytest.mark.parametrize(("how", "draws"), [("killed", True), ("lease", False)])
def test_a_key_that_comes_back_within_the_epoch_waits_for_the_turn(how: str, draws: bool) -> None:
    """A second manager of another key spoke meanwhile: under the first one's key each client has one arm an epoch."""
    trial = Trial(draws)
    trial.take()
    trial.take(1.0, term=2, key=b"b" * 16, prefixes=ONE_FAR)
    assert dict(trial.one.drawn_classes) == ONE_FAR
    if how == "killed":
        assert trial.resume(2.0) == ""
    if how == "lease":
        trial.lose_lease(2.5)
    trial.take(3.0, term=3, prefixes=OTHER)
    assert trial.one.held[:2] == (3, 1) and dict(trial.one.drawn_classes) == ONE_FAR
    assert trial.resume(4.0) == "" and dict(trial.one.drawn_classes) == ONE_FAR, "nor does a later start change it"
    trial.tick(EPOCH_S)
    assert dict(trial.one.drawn_classes) == OTHER
    # A rollback, whose key is new, waits for nothing; nor does the first map's own key in another epoch.
    trial.take(EPOCH_S + 1.0, term=3, version=2, key=b"c" * 16)
    assert list(trial.one.drawn_classes) == list(PREFIXES)


@pytest.mark.parametrize("place", [(1, 1), (1, 0), (0, 9)])
def test_an_older_map_is_refused_even_when_none_is_in_force_any_more(place: tuple[int, int]) -> None:
    trial = Trial()
    trial.take(version=2)
    trial.tick(4000.0, 0.0)
    assert trial.one.held == (0, 0, b"")
    assert "is not later" in trial.load(term=place[0], version=place[1]).result.error
    trial.take(version=2)


def test_an_older_map_is_refused_by_a_later_start_whose_own_copy_is_void() -> None:
    trial = Trial()
    trial.take(version=2, not_after_ns=START_NS + 10 * NS)
    assert "over" in trial.resume(11.0)
    assert "not later than 1.2" in trial.load().result.error
    trial.take(version=2, not_after_ns=START_NS + 10 * NS)


# ---- other programs


@pytest.mark.parametrize("look_s", [0.0, 0.9], ids=["looked first", "renewed first"])
def test_what_another_program_took_away_is_not_renewed_and_is_one_line(look_s: float) -> None:
    trial = Trial()
    trial.take()
    trial.tick(look_s, 0.0)
    # The driver refuses the renewal before the next look is due.
    trial.kernel.external, trial.kernel.refuses = "all of it is gone", GONE
    for at in range(3):
        trial.tick(1.0 + at, 0.0)
    (line,) = trial.one.take_remarks()
    assert "all of it is gone" in line and trial.one.frozen and trial.one.held[:2] == (1, 1)
    assert "frozen" in trial.load(version=2).result.error and trial.kernel.begun == 1


@pytest.mark.parametrize(("external", "is_gone", "refuses", "lease_s"), [
    ("all of it is gone", True, None, 0.0), ("all of it is gone", False, GONE, 0.0), (PART, False, None, MAP.lease_s),
])  # fmt: skip
def test_the_lease_of_what_another_program_took_away_is_over_and_of_a_part_goes_on(
    external: str, is_gone: bool, refuses: Refused | None, lease_s: float
) -> None:
    """It counted on, as if it was renewed."""
    trial = Trial()
    trial.take()
    trial.tick(1.0, 0.0)
    assert trial.one.left(1.0) == (3599.0, MAP.lease_s)
    trial.kernel.external, trial.kernel.is_gone, trial.kernel.refuses = external, is_gone, refuses
    for at in range(9):
        trial.tick(2.0 + at / 2, 0.0)
    assert trial.one.frozen and trial.one.left(6.0) == (3594.0, lease_s)


@pytest.mark.parametrize("how", ["turn", "rollback"])
def test_a_change_by_another_program_is_not_hidden_by_a_change_of_ours(how: str) -> None:
    trial = Trial()
    trial.take()
    trial.tick(0.5, 0.0)
    trial.kernel.external = PART
    if how == "turn":
        trial.tick(0.6, EPOCH_S)
    else:
        assert "frozen" in trial.load(0.6, version=2, key=b"b" * 16).result.error
    assert trial.one.frozen and (trial.kernel.begun, trial.kernel.changed) == (1, 0)


def test_it_looks_for_external_changes_four_times_a_second_however_often_it_is_woken() -> None:
    class Looked(Recorded):
        looks = 0

        def foreign(self) -> str:
            self.looks += 1
            return super().foreign()

    trial = Trial(kernel=(kernel := Looked()))
    trial.take()
    for at in range(1000):
        trial.tick(1.0 + at / 1000, 0.0)
    assert kernel.looks == 4


# ---- starts, plans and disks


def test_a_lease_that_ended_is_begun_anew_and_is_no_reason_to_reject() -> None:
    trial = Trial()
    trial.take()
    trial.kernel.refuses = LeaseOver("transaction 3 of the agent is undone")
    second = {"version": 2, "key": b"b" * 16, "prefixes": ONE_FAR}
    assert trial.load(**second).retry and trial.one.held == (0, 0, b"")
    trial.kernel.refuses = None
    trial.take(**second)
    assert trial.kernel.begun == 2


def test_the_latest_own_copy_is_put_in_force_again() -> None:
    trial = Trial()
    second = replace(MAP, version=2, prefixes={**PREFIXES, **ONE_FAR})
    trial.kernel.documents = {(1, at): document(made(one)) for at, one in enumerate((MAP, second), 1)}
    assert trial.resume(60.0) == ""
    # As the turn before had it in force; a start that does not know of one has the latest map.
    assert trial.one.held[:2] == (1, 2) and trial.kernel.begun == 1 and "192.0.2.0/24" in trial.kernel.rules.prefixes
    assert "over" in trial.resume(3600.0)
    trial.kernel.documents = {(1, 1): document(made())[:-1]}
    assert trial.resume(5.0)


def test_a_map_whose_plan_is_refused_is_no_map_in_force_and_the_next_one_begins_anew() -> None:
    trial = Trial(draws=True)
    one, kernel = trial.one, trial.kernel
    kernel.refuses_plans = Refused("no room for the plan")
    assert "no room" in trial.load().result.error and one.held == (0, 0, b"")
    assert one.rules == NO_RULES and kernel.begun == 1
    kernel.refuses_plans = None
    trial.take(version=2)
    assert kernel.begun == 2 and one.held[:2] == (1, 2)
    # A plan that is refused later ends what was in force: its prefixes are those of the new map already.
    kernel.refuses_plans = Refused("no room for the plan")
    assert "no room" in trial.load(version=3, key=b"b" * 16, prefixes=OTHER).result.error and one.held == (0, 0, b"")
    trial.tick(2.0)
    assert kernel.renewed == 0 and "in part" in " ".join(one.take_remarks())


def test_a_map_that_a_full_disk_does_not_keep_is_in_force() -> None:
    trial = Trial()
    trial.kernel.is_full = True
    trial.take()
    assert trial.one.held[:2] == (1, 1) and set(trial.kernel.rules.prefixes) == set(PREFIXES)
    trial.take(version=2)
    trial.tick(1.0)
    assert trial.one.held[:2] == (1, 2) and trial.kernel.kept == []
    assert [line for line in trial.one.take_remarks() if "not kept" in line]
    trial.kernel.is_full = False
    trial.tick(2.0)
    assert trial.kernel.kept == [(1, 1), (1, 2)] and trial.one.take_remarks() == []


def test_a_map_that_was_given_up_on_a_full_disk_is_not_put_in_force_by_a_later_start() -> None:
    trial = Trial()
    trial.take()
    trial.take(version=2, prefixes={**PREFIXES, **ONE_FAR})
    trial.kernel.bars, trial.kernel.is_full = "192.0.2.0/24", True
    trial.tick(1.0, EPOCH_S)
    trial.take(1.5, version=3)
    assert [*trial.kernel.documents] == [(1, 1), (1, 2)]
    assert any(line.startswith("maps after 1.1 are not forgotten") for line in trial.one.take_remarks())
    trial.kernel.is_full = False
    trial.tick(2.0, EPOCH_S)
    assert [*trial.kernel.documents] == [(1, 1), (1, 3)]
