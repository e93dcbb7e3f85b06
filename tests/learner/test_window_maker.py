# SPDX-License-Identifier: MIT
"""Predicted windows in maps: few classes, known chances, nothing that is barred, and no choice of its own learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from configtron.learner.initial.end_states import EndStates, joined, of_rows
from configtron.learner.initial.teaching import MOST_OF_PREFIX, prefix_shares, weights_of
from configtron.learner.loop_maker import LEAD_S
from configtron.learner.map_making import MapOptions
from configtron.learner.map_text import map_text
from configtron.learner.window_classes import (
    DRAWN,
    MOST_CLASSES,
    RESUME,
    RTT_RUNGS_MS,
    SHARES,
    UNTOUCHED_CLASS,
    PathClass,
    checked_shares,
    joined_classes,
    rung_of,
    strategy_of,
)
from configtron.learner.window_maker import LEAST_LEARNED, WindowMapMaker
from configtron.model.draw import ARMS
from configtron.model.errors import BadInput, Busy
from configtron.model.fleet import WHOLE, FleetMap
from configtron.model.nouns import Profile
from configtron.tune.guard import Bound, Limits, why_not
from tests.support.careful_resume import HALF, MOST_RTTS

EPOCH_S = 600
OPTIONS = MapOptions(least_clients=5, new_prefixes=1_000_000)
# prefix -> (window, round trip in ms)
NEARBY = {f"10.{at // 8}.{at % 8}.0/24": (120.0 * 1.3 ** (at % 5 - 2), 12.0) for at in range(64)}
NEAR, FAR = ("10.1.0.0/24", (120.0, 12.0)), ("10.2.0.0/24", (900.0, 120.0))


def free(profile: Profile) -> str:
    return ""


def within(bounds: dict[str, Bound]) -> Callable[[Profile], str]:
    limits = Limits(bounds)
    return lambda profile: next(why_not(profile, limits), "")


def states(paths: dict[str, tuple[float, float]], count: int = 20, **more: Any) -> EndStates:
    return of_rows([
        {"at_s": 1.7e9 + at, "prefix": prefix, "max_cwnd": window, "min_rtt_ms": rtt, "packets_out": 400.0,
         "loss": 0.01} | more
        for prefix, (window, rtt) in paths.items() for at in range(count)
    ])  # fmt: skip


def maker(known: EndStates, shares: dict[str, float] = SHARES, options: MapOptions = OPTIONS) -> WindowMapMaker:
    return WindowMapMaker(lambda: known, options, bytes(16), shares)


def made(known: EndStates, barred: Callable[[Profile], str] = free, **given: Any) -> FleetMap:
    found = maker(known, **given).make(10**18, barred)
    assert found is not None
    return found


def arms(fleet_map: FleetMap, prefix: str) -> dict[str, tuple[dict[str, Any], float]]:
    """Return strategy -> (settings, share) of a prefix's class."""
    mix = fleet_map.mixes[fleet_map.prefixes[prefix]]
    return {strategy_of(name): (dict(fleet_map.profiles[name].settings), parts / WHOLE) for name, parts in mix}


def test_a_prefix_draws_the_strategies_of_its_own_window_with_the_operators_shares() -> None:
    fleet_map = made(states(dict([NEAR, FAR])))
    near, far = (arms(fleet_map, one) for one in (NEAR[0], FAR[0]))
    assert list(near) == list(far) == list(DRAWN)
    for strategy, share in SHARES.items():
        assert near[strategy][1] == pytest.approx(share, abs=1e-4)
    assert near["null"][0] == {} and near["fixed"][0] == {"initcwnd": 50}
    assert 60 <= near["pred-low"][0]["initcwnd"] < near["pred-high"][0]["initcwnd"] <= 100
    assert far["pred-round"][0] == {"initcwnd": 100}
    assert far[RESUME][0]["resume_cwnd"] in range(100, 901) and far[RESUME][0]["resume_rtt"] == 0.08
    assert near[RESUME][0]["resume_cwnd"] in range(26, 121) and near[RESUME][0]["resume_rtt"] == 0.01


def test_what_is_saved_is_of_the_same_path_as_what_was_learned() -> None:
    """RFC 9959: the round trip lies over half of the saved one, within ten times."""
    for rtt_ms in np.geomspace(RTT_RUNGS_MS[0], 3000.0, 50).tolist():
        assert rung_of(rtt_ms) / HALF < rtt_ms <= rung_of(rtt_ms) * MOST_RTTS


def test_choices_of_its_own_do_not_teach() -> None:
    """Connections that reached what they were given would predict it for ever."""
    own = states(dict.fromkeys(NEARBY, (700.0, 12.0)), strategy="fixed")
    assert map_text(made(joined([states(NEARBY), own]))) == map_text(made(states(NEARBY)))
    jumped = states({NEAR[0]: (700.0, 12.0)}, strategy="resume", resumed="validated", count=200)
    assert map_text(made(joined([states(dict([NEAR])), jumped]))) != map_text(made(states(dict([NEAR]))))


def test_a_hundred_thousand_prefixes_share_some_dozens_of_classes() -> None:
    rng = np.random.default_rng(4)
    known = [PathClass((0, 50, low, low + 2, low + 1), saved, rtt) for low in range(1, 90, 7)
             for saved in (0, 33, 95, 270, 500) for rtt in RTT_RUNGS_MS]  # fmt: skip
    every = [known[at] for at in (rng.pareto(1.0, 100_000) * 20).astype(int) % len(known)]
    pairs = list(zip(every, joined_classes(every), strict=True))
    kept = {one for one, other in pairs if one is other}
    assert len(set(every)) > 300 and MOST_CLASSES - 1 <= len({other for _, other in pairs}) <= MOST_CLASSES
    # the most stay as they are; the others are near in round trip and window, and none has more than its own
    assert sum(one is other for one, other in pairs) > 50_000
    for one, other in {(one, other) for one, other in pairs if one not in kept}:
        nearer = all(one.apart(other) <= one.apart(third) for third in kept if one.holds(third))
        assert one.holds(other) and (other == UNTOUCHED_CLASS or nearer)


def test_each_class_fits_the_kernels_table() -> None:
    paths = {f"10.{at // 200}.{at % 200}.0/24": (4.0 * 1.4 ** (at % 17), 2.0 * 1.6 ** (at % 13)) for at in range(400)}
    fleet_map = made(states(paths, count=6))
    assert len(fleet_map.prefixes) == 400 and 1 < len(fleet_map.mixes) <= MOST_CLASSES
    assert all(len(mix) <= ARMS and sum(parts for _, parts in mix) == WHOLE for mix in fleet_map.mixes.values())
    # with as many of a version beside them
    assert 2 * (len(fleet_map.mixes) + len(fleet_map.profiles)) < 1024


def test_a_prefix_seldom_seen_is_not_listed_and_each_band_has_the_class_of_its_networks() -> None:
    fleet_map = made(joined([states(dict([NEAR, FAR])), states({"10.2.9.0/24": FAR[1]}, count=2)]))
    assert "10.2.9.0/24" not in fleet_map.prefixes
    unseen = {
        rtt: next(band.class_name for band in fleet_map.bands if rtt <= band.up_to_us) for rtt in (12_000, 120_000)
    }
    assert unseen == {12_000: fleet_map.prefixes[NEAR[0]], 120_000: fleet_map.prefixes[FAR[0]]}


ALL, NO_RESUME = frozenset(DRAWN) - {"fixed"}, frozenset(DRAWN) - {"fixed", RESUME}


@pytest.mark.parametrize(
    ("bounds", "left", "most"),
    [
        ({}, ALL, 30),
        ({"initcwnd": Bound(1, 20)}, ALL, 20),
        ({"resume_cwnd": Bound(4, 30)}, NO_RESUME, 30),
        ({"initcwnd": Bound(10, 10), "resume_cwnd": Bound(4, 160)}, ALL, 10),
        ({"initcwnd": Bound(1, 1)}, {"null", RESUME}, 0),
        # bounds that begin above the default window of 10, and above the smallest jump
        ({"initcwnd": Bound(12, 20)}, ALL, 20),
        ({"initcwnd": Bound(13, 14), "resume_cwnd": Bound(100, 160)}, ALL, 14),
        ({"initcwnd": Bound(values=("24",))}, ALL, 24),
    ],
)
def test_windows_are_cut_to_what_operators_permit(bounds: dict[str, Bound], left: frozenset[str], most: int) -> None:
    """A barred strategy is left out by name, and Null has its share: no map is refused for it."""
    one, barred = maker(states(dict([FAR]))), within(bounds)
    fleet_map = one.make(10**18, barred)
    assert fleet_map is not None and not any(barred(profile) for profile in fleet_map.profiles.values())
    found = arms(fleet_map, FAR[0])
    assert set(found) == left and set(one.left_out) >= {"fixed"} and "fixed" in one.learned()
    assert found["null"][1] == pytest.approx(1.0 - 0.1 * (len(left) - 1), abs=1e-4)
    assert max((each.get("initcwnd", 0) for each, _ in found.values()), default=0) == most
    if RESUME in found and "resume_cwnd" in bounds:
        assert found[RESUME][0]["resume_cwnd"] == 160


def test_a_prediction_below_the_operators_least_window_is_left_out() -> None:
    """It is not raised to the bound: the path carries less. The class has Null instead."""
    small, barred = ("10.3.0.0/24", (6.0, 20.0)), within({"initcwnd": Bound(20, 30)})
    fleet_map = made(states(dict([FAR, small])), barred)
    assert not any(barred(profile) for profile in fleet_map.profiles.values())
    assert "pred-low" in arms(fleet_map, FAR[0]) and set(arms(fleet_map, small[0])) == {"null"}


def test_a_driver_without_careful_resume_has_the_other_strategies() -> None:
    def barred(profile: Profile) -> str:
        return "out of reach" if any(knob.startswith("resume") for knob, _ in profile.settings) else ""

    one = maker(states(dict([FAR])))
    fleet_map = one.make(10**18, barred)
    assert fleet_map is not None and set(arms(fleet_map, FAR[0])) == set(DRAWN) - {RESUME}
    assert one.left_out == {RESUME: "out of reach"}
    # of strategies without a share none is named as left out
    two = maker(states(dict([FAR])), {"null": 0.5, RESUME: 0.5})
    assert two.make(10**18, lambda profile: "out of reach" if profile.settings else "") is not None
    assert two.left_out == {RESUME: "out of reach"} and "pred" not in two.learned()


def test_one_strategy_alone_and_a_share_of_nothing() -> None:
    found = arms(made(states(dict([FAR])), shares={RESUME: 1.0}), FAR[0])
    assert {name: share for name, (_, share) in found.items()} == {RESUME: 1.0}
    for wrong in ({"nothing": 1.0}, {"null": -1.0}, {"null": 0.0}, {}):
        with pytest.raises(BadInput):
            checked_shares(wrong)
    # few connections; lower bounds alone have no quantile: the bin below the mean of what was reached is resumed
    assert not made(states(dict([NEAR]), count=LEAST_LEARNED - 1)).mixes
    assert arms(made(states(dict([FAR]), bound=True, loss=0.0)), FAR[0])[RESUME][0]["resume_cwnd"] == 350


def test_a_map_an_epoch_and_what_it_keeps_over_a_kill() -> None:
    known = states(dict([NEAR, FAR]))
    one, other = maker(known), maker(known)
    times = [at for at in range(0, 3 * EPOCH_S) if one.make(at * 10**9, free) is not None]
    assert times == [0, *(round(epoch * EPOCH_S - LEAD_S) for epoch in (1, 2, 3))]
    one.note(replace(made(known), key=b"q" * 16), True)
    other.restore(one.save())
    assert other.make((3 * EPOCH_S - 1) * 10**9, free) is None
    first, second = (each.make(4 * EPOCH_S * 10**9, free) for each in (one, other))
    assert first is not None and second is not None and map_text(first) == map_text(second)
    assert first.key == second.key == b"q" * 16
    with pytest.raises(BadInput, match="no state of a learner"):
        maker(known).restore('{"maker":1}')


@pytest.mark.parametrize(
    ("profile", "strategy"),
    [("", ""), ("default", ""), ("null", "null"), ("fixed-50", "fixed"), ("pred-low-20", "pred-low"),
     ("resume-400-80", "resume"), ("fast", "other"), ("pred", "other"), ("nullity", "other")],
)  # fmt: skip
def test_a_profile_names_its_strategy(profile: str, strategy: str) -> None:
    assert strategy_of(profile) == strategy


@pytest.mark.slow
def test_one_prefix_with_as_many_connections_as_all_others_decides_for_no_other() -> None:
    """Neither the bands, nor what classifiers and the hierarchy predict for others, are its own."""
    paths = {f"10.{at // 16}.{at % 16}.0/24": (90.0, 30.0) for at in range(96)}
    honest = states(paths)
    before = made(honest)
    for window in (1.0, 1e6):
        after = made(joined([honest, states({"10.200.0.0/24": (window, 30.0)}, count=len(honest))]))
        for prefix in paths:
            was, now = arms(before, prefix), arms(after, prefix)
            saved = [one.pop(RESUME)[0]["resume_cwnd"] for one in (was, now)]
            # a bin's edge may be near
            assert now == was and 0.7 <= saved[1] / saved[0] <= 1.4
        assert {band.class_name for band in after.bands} <= {after.prefixes[prefix] for prefix in paths}


def test_a_jump_that_went_badly_is_heard_as_well_as_one_that_went_well() -> None:
    """The path became narrow: jumps of half of 900 lose segments, so what is saved falls, though Null met nothing."""
    wide = {prefix: (900.0 * window / 120.0, 120.0) for prefix, (window, _) in NEARBY.items()}
    lost = states(dict.fromkeys(wide, (60.0, 120.0)), strategy="resume", propensity=0.1, resumed="retreated", loss=0.2)
    before, after = (made(known) for known in (states(wide), joined([states(wide), lost])))
    nothing: Any = ({"resume_cwnd": 0}, 0.0)
    for prefix in wide:
        was, now = (arms(one, prefix).get(RESUME, nothing)[0]["resume_cwnd"] for one in (before, after))
        assert now < 0.7 * was


def test_clients_weigh_alike_whatever_share_null_has() -> None:
    """A prefix half of whose connections are Null's counts as one whose all are; held-back ones are no twenty."""
    drawn = [{"strategy": "null", "propensity": 0.475}] * 19 + [{"strategy": "", "propensity": 0.05}] * 2
    some = of_rows([{"prefix": "10.1.0.0/24", "at_s": 1.7e9} | one for one in drawn])
    assert weights_of(some).sum() == pytest.approx(42, abs=0.1)
    one = of_rows([{"prefix": "10.1.0.0/24", "at_s": 1.7e9}] * 1000 + [{"prefix": "10.2.0.0/24", "at_s": 1.7e9}] * 7)
    shares = prefix_shares(one, weights_of(one))
    assert shares[:1000].sum() == pytest.approx(MOST_OF_PREFIX) and shares[1000:].tolist() == [1.0] * 7


def test_a_locked_database_delays_an_epochs_map_and_does_not_skip_it() -> None:
    failures = [Busy("locked")]

    def known() -> EndStates:
        if failures:
            raise failures.pop()
        return states(dict([NEAR]))

    one = WindowMapMaker(known, OPTIONS, bytes(16), SHARES)
    with pytest.raises(Busy):
        one.make(10**18, free)
    assert one.make(10**18, free) is not None


def test_a_persons_profile_of_a_strategys_name_stays_the_persons() -> None:
    options = replace(OPTIONS, owned_profiles=frozenset({"null", "fixed-50"}))
    found = made(states(dict([NEAR])), options=options)
    assert not {"null", "fixed-50"} & found.profiles.keys()
    assert set(arms(found, NEAR[0])) == set(DRAWN) and found.profiles["fixed-50-1"].settings == (("initcwnd", 50),)


@pytest.mark.slow
def test_a_prefix_keeps_its_class_while_that_is_near_and_windows_are_no_larger_than_half_more() -> None:
    known = [states(NEARBY)]
    one = WindowMapMaker(lambda: known[0], OPTIONS, bytes(16), SHARES)

    def classes(epoch: int) -> dict[str, str]:
        found = one.make(10**18 + epoch * EPOCH_S * 10**9, free)
        assert found is not None
        return dict(found.prefixes)

    before = classes(0)
    assert before == classes(1)
    known[0] = states({prefix: (window * 1.3, rtt) for prefix, (window, rtt) in NEARBY.items()})
    fresh, kept = dict(made(known[0]).prefixes), classes(2)
    assert sum(kept[one] == before[one] for one in kept) > 2 * sum(fresh[one] == before[one] for one in kept)
    known[0] = states(dict.fromkeys(NEARBY, (8.0, 12.0)))
    assert set(classes(3).values()).isdisjoint(before.values())
