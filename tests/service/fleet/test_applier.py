# SPDX-License-Identifier: MIT
"""The applier, by a kernel of its own: what it leaves alone, when it turns, and what ends what is in force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configtron.fleet.map_document import document
from configtron.model.draw import Mix
from configtron.model.errors import Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.service.fleet.applier import Applier, LeaseOver
from tests.support.applied_maps import (
    EPOCH_S,
    FAR,
    HUMANS,
    KEY,
    MAP,
    MIXES,
    NS,
    PREFIXES,
    PROFILES,
    START_NS,
    TURN_NS,
    Recorded,
    loaded,
    made,
)


def test_a_map_is_drawn_by_prefix_where_the_kernel_does_not_draw() -> None:
    kernel = Recorded()
    one = Applier(kernel, KEY.verify_key, Rules())
    assert loaded(one, made()).result.error == ""
    assert set(kernel.rules.prefixes) == set(PREFIXES)
    arms = [name for prefix, name in kernel.rules.prefixes.items() if PREFIXES[prefix] == "near"]
    assert 10 < arms.count("fast") < 40
    one.tick(1.0, START_NS + EPOCH_S * NS)
    assert kernel.rules.prefixes != dict(zip(PREFIXES, arms, strict=False)) and kernel.changed > 5
    assert one.drawing is not None and one.drawing.epoch == START_NS // NS // EPOCH_S + 1


def test_prefixes_point_to_classes_where_the_kernel_draws_and_mixes_turn_with_the_epoch() -> None:
    kernel = Recorded(draws=True)
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    assert kernel.rules.prefixes == PREFIXES and set(kernel.rules.profiles) == {"fast", "slow", "near", "far"}
    ((plan, mixes),) = kernel.plans
    assert mixes["near"] == Mix(("fast", "slow"), (30_000, 35_536)) and plan.epoch == START_NS // NS // EPOCH_S
    second = made(replace(MAP, version=2, mixes={**MIXES, "near": (("fast", 65_536),)}))
    loaded(one, second)
    one.tick(5.0, START_NS + 5 * NS)
    assert len(kernel.plans) == 1
    one.tick(6.0, START_NS + EPOCH_S * NS)
    assert kernel.plans[-1][1]["near"] == Mix(("fast",), (65_536,)) and kernel.plans[-1][0].epoch == plan.epoch + 1
    # A rollback has another key: it does not wait for the epoch.
    loaded(one, made(replace(MAP, version=3, key=b"b" * 16)), 7.0)
    assert len(kernel.plans) == 3 and kernel.plans[-1][1] == mixes


def test_what_a_human_set_is_left_and_named() -> None:
    kernel = Recorded()
    one = Applier(kernel, KEY.verify_key, HUMANS, HUMANS)
    found = loaded(one, made())
    assert {entry for entry, _ in found.result.refused} == {"198.51.7.0/24", "203.0.0.0/24", "203.0.1.0/24"}
    assert found.result.error == "" and found.result.entries == len(PREFIXES) - 3
    assert {prefix: kernel.rules.prefixes[prefix] for prefix in HUMANS.prefixes} == HUMANS.prefixes
    assert "203.0.0.0/24" not in kernel.rules.prefixes


def test_a_class_with_a_barred_profile_keeps_default_and_the_rest_is_applied() -> None:
    kernel = Recorded()
    one = Applier(kernel, KEY.verify_key, Rules())
    profiles = {**PROFILES, "fast": Profile("fast", (("initcwnd", 99),))}
    found = loaded(one, made(replace(MAP, profiles=profiles)))
    assert found.result.refused == (("profile fast", "initcwnd is beyond your bound"),)
    assert set(kernel.rules.prefixes) == {prefix for prefix, name in PREFIXES.items() if name == "far"}


def test_a_change_costs_its_own_prefixes() -> None:
    kernel = Recorded(draws=True)
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    prefixes = {**PREFIXES, "198.51.0.0/24": "far", "192.0.2.0/24": "far"}
    del prefixes["198.51.1.0/24"]
    found = loaded(one, made(replace(MAP, version=2, prefixes=prefixes)))
    assert found.result.error == "" and found.result.entries == len(prefixes)
    one.tick(1.0, TURN_NS)
    assert kernel.begun == 1 and kernel.changed == 3 and kernel.rules.prefixes == prefixes


def test_validity_counts_on_the_hosts_own_clock_and_its_end_leaves_the_humans_rules() -> None:
    kernel = Recorded()
    one = Applier(kernel, KEY.verify_key, HUMANS, HUMANS)
    # The wall clock is a day ahead: the map is as valid as it was when it was made.
    assert one.load(document(made()), 0.0, START_NS + 86_400 * NS).result.error == ""
    one.tick(3599.0, START_NS + 86_400 * NS)
    assert one.held[:2] == (1, 1)
    one.tick(3600.5, START_NS + 86_400 * NS)
    assert one.held == (0, 0, b"") and kernel.rules.prefixes == HUMANS.prefixes
    assert any("void" in remark for remark in one.take_remarks())


def test_the_last_good_map_stays_when_the_driver_refuses_one() -> None:
    kernel = Recorded()
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    before, kernel.refuses = kernel.rules, Refused("the driver refuses it")
    # Another key, as a rollback has: it is put in force at once.
    found = loaded(one, made(replace(MAP, version=2, key=b"b" * 16, prefixes={"192.0.2.0/24": "far"})))
    assert found.result.error == "the driver refuses it" and not found.retry
    assert one.held[:2] == (1, 1) and kernel.rules == before


def test_a_map_that_the_driver_refuses_at_the_turn_is_rejected_then_and_the_last_good_one_is_drawn_again() -> None:
    kernel = Recorded()
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    bad = made(replace(MAP, version=2, prefixes={**PREFIXES, "192.0.2.0/24": "far"}))
    assert loaded(one, bad).result.error == "" and one.held[:2] == (1, 2)
    kernel.bars = "192.0.2.0/24"
    one.tick(1.0, TURN_NS)
    (late,) = one.take_late()
    assert late.result.error == "192.0.2.0/24 is refused" and late.held[:2] == one.held[:2] == (1, 1)
    assert (late.result.term, late.result.version) == (1, 2) and one.take_late() == []
    assert one.drawing is not None and one.drawing.epoch == TURN_NS // NS // EPOCH_S
    assert set(kernel.rules.prefixes) == set(PREFIXES) and list(kernel.documents) == [(1, 1)]
    # The next one is the difference to what is in force.
    third = made(replace(MAP, version=3, prefixes={**PREFIXES, "192.0.3.0/24": "far"}))
    assert loaded(one, third, 2.0).result.error == ""
    one.tick(3.0, TURN_NS + EPOCH_S * NS)
    assert "192.0.3.0/24" in kernel.rules.prefixes and kernel.begun == 1


@pytest.mark.parametrize("draws", [False, True])
def test_no_client_changes_its_arm_within_an_epoch_when_a_map_comes(draws: bool) -> None:
    kernel = Recorded(draws)
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    before, plans = kernel.rules, list(kernel.plans)
    prefixes = {**PREFIXES, "192.0.2.0/24": "near", "198.51.0.0/24": "far", "0.0.0.0/0": "far"}
    del prefixes["198.51.1.0/24"]
    profiles = {**PROFILES, "fast": Profile("fast", (("initcwnd", 40),))}
    more = replace(MAP, version=2, prefixes=prefixes, profiles=profiles, holdback=30_000, epoch_s=30, lease_s=5.0)
    assert loaded(one, made(more), 1.0).result.error == "" and one.held[:2] == (1, 2)
    # Two ticks before the old epoch's end, in another epoch of the new length.
    for now_s in (2.0, EPOCH_S - 1.0):
        one.tick(now_s, START_NS + round(now_s * NS))
        assert kernel.rules == before and kernel.plans == plans and one.drawn_classes == PREFIXES
    one.tick(float(EPOCH_S), TURN_NS)
    assert set(one.drawn_classes) == set(prefixes) and kernel.rules != before
    assert one.drawing is not None and (one.drawing.head.version, one.drawing.head.epoch_s) == (2, 30)


def test_a_rollback_takes_effect_at_once_though_a_map_waits() -> None:
    kernel = Recorded(draws=True)
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    waits = made(replace(MAP, version=2, prefixes={**PREFIXES, "192.0.2.0/24": "near"}))
    loaded(one, waits, 1.0)
    loaded(one, made(replace(MAP, version=3, key=b"b" * 16, prefixes={"192.0.3.0/24": "near"})), 2.0)
    assert kernel.rules.prefixes == {"192.0.3.0/24": "near"} and len(kernel.plans) == 2
    assert kernel.plans[-1][0].epoch == kernel.plans[0][0].epoch


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("how", ["runs", "killed", "lease"])
def test_a_key_that_comes_back_within_the_epoch_waits_for_the_turn(draws: bool, how: str) -> None:
    """A second manager of another key spoke meanwhile: under the first one's key each client has one arm an epoch."""
    kernel = Recorded(draws)
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    second = made(replace(MAP, term=2, key=b"b" * 16, prefixes={"192.0.2.0/24": "far"}))
    loaded(one, second, 1.0)
    assert list(one.drawn_classes) == ["192.0.2.0/24"]
    if how == "killed":
        one = Applier(kernel, KEY.verify_key, Rules())
        assert one.resume([*kernel.documents.values()], 2.0, START_NS + 2 * NS, kernel.drawn) == ""
    if how == "lease":
        kernel.refuses = LeaseOver("transaction 3 is undone")
        one.tick(2.5, START_NS + 2 * NS)
        kernel.refuses, kernel.rules = None, Rules()
    again = made(replace(MAP, term=3, prefixes={"192.0.3.0/24": "near"}))
    assert loaded(one, again, 3.0).result.error == "" and one.held[:2] == (3, 1)
    assert list(one.drawn_classes) == ["192.0.2.0/24"]
    one = Applier(kernel, KEY.verify_key, Rules())
    assert one.resume([*kernel.documents.values()], 4.0, START_NS + 4 * NS, kernel.drawn) == ""
    assert list(one.drawn_classes) == ["192.0.2.0/24"], "nor does a later start change it"
    one.tick(float(EPOCH_S), TURN_NS)
    assert list(one.drawn_classes) == ["192.0.3.0/24"]
    # A rollback, whose key is new, waits for nothing; nor does the first map's own key in another epoch.
    loaded(one, made(replace(MAP, term=3, version=2, key=b"c" * 16)), float(EPOCH_S) + 1.0)
    assert list(one.drawn_classes) == list(PREFIXES)


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("how", ["killed", "rebooted", "lease"])
def test_within_the_epoch_a_later_start_has_the_arms_of_before_though_a_map_waits(draws: bool, how: str) -> None:
    kernel = Recorded(draws)
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    waits = made(replace(MAP, version=2, prefixes={**PREFIXES, "192.0.2.0/24": "near"}, mixes={**MIXES, "near": FAR}))
    loaded(one, waits, 1.0)
    before, plans = kernel.rules, list(kernel.plans)
    # A boot begins its clock anew; the wall clock goes on.
    now_s, now_ns = 5.0 if how == "killed" else 0.5, START_NS + 20 * NS
    if how == "lease":
        kernel.refuses = LeaseOver("transaction 3 is undone")
        one.tick(2.0, now_ns)
        kernel.refuses, kernel.rules = None, Rules()
        assert one.held == (0, 0, b"") and one.load(document(waits), 3.0, now_ns).result.error == ""
    else:
        kernel.rules, one = Rules(), Applier(kernel, KEY.verify_key, Rules())
        assert one.resume([*kernel.documents.values()], now_s, now_ns, kernel.drawn) == ""
    assert kernel.rules == before and one.held[:2] == (1, 2)
    assert [(plan.epoch, plan.key, mixes) for plan, mixes in kernel.plans[len(plans) :]] == [
        (plan.epoch, plan.key, mixes) for plan, mixes in plans]  # fmt: skip
    one.tick(6.0, TURN_NS)
    assert "192.0.2.0/24" in one.drawn_classes and kernel.drawn[:3] == (1, 2, TURN_NS // NS // EPOCH_S)
    assert [*kernel.documents] == [(1, 2)]


@pytest.mark.parametrize("place", [(1, 1), (1, 0), (0, 9)])
def test_an_older_map_is_refused_even_when_none_is_in_force_any_more(place: tuple[int, int]) -> None:
    kernel = Recorded()
    one, first = Applier(kernel, KEY.verify_key, Rules()), made(replace(MAP, version=2))
    loaded(one, first)
    one.tick(4000.0, START_NS)
    assert one.held == (0, 0, b"")
    old = made(replace(MAP, term=place[0], version=place[1]))
    assert "is not later" in loaded(one, old).result.error
    assert loaded(one, first).result.error == ""


def test_a_foreign_change_freezes_once_until_it_is_unfrozen() -> None:
    kernel = Recorded()
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    kernel.external = "100000 prefixes are gone"
    for at in range(5):
        one.tick(1.0 + at, START_NS)
    assert len(one.take_remarks()) == 1 and one.frozen
    second = made(replace(MAP, version=2))
    assert "frozen" in loaded(one, second).result.error
    kernel.freeze = ""
    one.tick(9.0, START_NS)
    assert not one.frozen and one.held == (0, 0, b"")
    assert loaded(one, second).result.error == "" and kernel.begun == 2


@pytest.mark.parametrize("look_s", [0.0, 0.9], ids=["looked first", "renewed first"])
def test_what_another_program_took_away_is_not_renewed_and_is_one_line(look_s: float) -> None:
    kernel = Recorded()
    one = Applier(kernel, KEY.verify_key, Rules())
    loaded(one, made())
    one.tick(look_s, START_NS)
    # The driver refuses the renewal before the next look is due.
    kernel.external, kernel.refuses = "all of it is gone", Refused("the driver ebpf has no rules in force here")
    for at in range(3):
        one.tick(1.0 + at, START_NS)
    (line,) = one.take_remarks()
    assert "all of it is gone" in line and one.frozen and one.held[:2] == (1, 1)
    assert "frozen" in loaded(one, made(replace(MAP, version=2))).result.error and kernel.begun == 1


@pytest.mark.parametrize("is_gone", [True, False], ids=["all is gone", "renewals are refused"])
def test_a_lease_of_what_another_program_took_away_is_over(is_gone: bool) -> None:
    """It counted on, as if it was renewed."""
    kernel = Recorded()
    one = Applier(kernel, KEY.verify_key, Rules())
    loaded(one, made())
    one.tick(1.0, START_NS)
    assert one.left(1.0) == (3599.0, MAP.lease_s)
    kernel.external, kernel.is_gone = "all of it is gone", is_gone
    if not is_gone:
        kernel.refuses = Refused("the driver ebpf has no rules in force here")
    for at in range(8):
        one.tick(2.0 + at / 2, START_NS)
    assert one.frozen and one.left(5.5) == (3594.5, 0.0)


def test_a_lease_of_what_another_program_changed_in_part_goes_on() -> None:
    kernel = Recorded()
    one = Applier(kernel, KEY.verify_key, Rules())
    loaded(one, made())
    kernel.external = "198.51.0.0/24 profile: fast -> none"
    for at in range(8):
        one.tick(1.0 + at, START_NS)
    assert one.frozen and one.left(8.0) == (3592.0, MAP.lease_s)


@pytest.mark.parametrize("how", ["turn", "rollback"])
def test_a_change_by_another_program_is_not_hidden_by_a_change_of_ours(how: str) -> None:
    kernel = Recorded()
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    one.tick(0.5, START_NS)
    kernel.external = "198.51.0.0/24 profile: fast -> none"
    if how == "turn":
        one.tick(0.6, TURN_NS)
    else:
        assert "frozen" in loaded(one, made(replace(MAP, version=2, key=b"b" * 16)), 0.6).result.error
    assert one.frozen and (kernel.begun, kernel.changed) == (1, 0)


def test_it_looks_for_external_changes_four_times_a_second_however_often_it_is_woken() -> None:
    class Looked(Recorded):
        looks = 0

        def foreign(self) -> str:
            self.looks += 1
            return super().foreign()

    kernel = Looked()
    one = Applier(kernel, KEY.verify_key, Rules())
    loaded(one, made())
    for at in range(1000):
        one.tick(1.0 + at / 1000, START_NS)
    assert kernel.looks == 4


def test_a_lease_that_ended_is_begun_anew_and_is_no_reason_to_reject() -> None:
    kernel = Recorded()
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    loaded(one, first)
    kernel.refuses = LeaseOver("transaction 3 of the agent is undone")
    second = made(replace(MAP, version=2, key=b"b" * 16, prefixes={"192.0.2.0/24": "far"}))
    found = loaded(one, second)
    assert found.retry and one.held == (0, 0, b"")
    kernel.refuses = None
    assert loaded(one, second).result.error == "" and kernel.begun == 2


def test_the_latest_own_copy_is_put_in_force_again() -> None:
    kernel = Recorded()
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    second = made(replace(MAP, version=2, prefixes={**PREFIXES, "192.0.2.0/24": "far"}))
    kept = [document(first), document(second)]
    assert one.resume(kept, 5.0, START_NS + 60 * NS) == ""
    # As the turn before had it in force; a start that does not know of one has the latest map.
    assert one.held[:2] == (1, 2) and kernel.begun == 1 and "192.0.2.0/24" in kernel.rules.prefixes
    assert "over" in Applier(Recorded(), KEY.verify_key, Rules()).resume(kept, 5.0, START_NS + 3600 * NS)
    assert Applier(Recorded(), KEY.verify_key, Rules()).resume([kept[0][:-1]], 5.0, START_NS)


def test_a_map_whose_plan_is_refused_is_no_map_in_force_and_the_next_one_begins_anew() -> None:
    kernel = Recorded(draws=True)
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    kernel.refuses_plans = Refused("no room for the plan")
    assert "no room" in loaded(one, first).result.error and one.held == (0, 0, b"")
    assert one.rules == Rules() and kernel.begun == 1
    kernel.refuses_plans = None
    assert loaded(one, made(replace(MAP, version=2))).result.error == ""
    assert kernel.begun == 2 and one.held[:2] == (1, 2)
    # A plan that is refused later ends what was in force: its prefixes are those of the new map already.
    kernel.refuses_plans = Refused("no room for the plan")
    third = made(replace(MAP, version=3, key=b"b" * 16, prefixes={"192.0.2.0/24": "near"}))
    assert "no room" in loaded(one, third).result.error and one.held == (0, 0, b"")
    one.tick(2.0, START_NS + 2 * NS)
    assert kernel.renewed == 0 and "in part" in " ".join(one.take_remarks())


def test_a_map_that_a_full_disk_does_not_keep_is_in_force() -> None:
    kernel = Recorded()
    one, first = Applier(kernel, KEY.verify_key, Rules()), made()
    kernel.is_full = True
    assert loaded(one, first).result.error == "" and one.held[:2] == (1, 1)
    assert set(kernel.rules.prefixes) == set(PREFIXES)
    second = made(replace(MAP, version=2))
    assert loaded(one, second).result.error == "" and one.held[:2] == (1, 2)
    one.tick(1.0, START_NS + NS)
    assert [line for line in one.take_remarks() if "not kept" in line] and kernel.kept == []
    kernel.is_full = False
    one.tick(2.0, START_NS + 2 * NS)
    assert kernel.kept == [(1, 1), (1, 2)] and one.take_remarks() == []


def test_an_older_map_is_refused_by_a_later_start_whose_own_copy_is_void() -> None:
    first, second = made(), made(replace(MAP, version=2, not_after_ns=START_NS + 10 * NS))
    one = Applier(Recorded(), KEY.verify_key, Rules())
    assert "over" in one.resume([document(second)], 0.0, START_NS + 11 * NS)
    assert "not later than 1.2" in loaded(one, first).result.error
    assert loaded(one, second).result.error == ""
