# SPDX-License-Identifier: MIT
"""Flows: trials and answers as text and back, spreads, effects, stated pairs; in a guest what is known of a path comes
out, schemes are what was asked, the same seed repeats."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.families import named
from configtron.lab.uml.recipes import SOURCES
from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.model.congestion import OF_LINUX
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.studies.flows.effects import (
    DIRECTION,
    EFFECTS,
    MOMENT,
    PATH,
    SCHEME,
    Figures,
    balanced,
    effects,
    shares,
)
from configtron.studies.flows.flows import (
    MOST_FLOWS,
    REFUSED,
    SCHEMES,
    Flow,
    FlowOutcome,
    Ran,
    Trial,
    TrialOutcome,
    orders_of,
    outcomes_of,
    outcomes_text,
    run,
    trials_of,
)
from configtron.studies.flows.ranking import Entry, delays, facts
from configtron.studies.flows.spread import CORNERS, agreement, ellipse, jain, margin, mean, ranks
from configtron.studies.flows.stated_pairs import PUBLISHED, StatedPair, agreement_fact, interval, tau
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN
from configtron.studies.registry.kinds import Arguments

LINK = named("pantheon:2")
OWN = Profile("own", (("initcwnd", 4), ("tcp_congestion_control", "bbr")))
TRIALS = [
    Trial(LINK, (Flow("cubic"), Flow("bbr", 10.5)), seed=7),
    Trial(named("access:dsl/4"), (Flow(), Flow("cubic", rival=True)), 35.0, 2**40, 5.0, OWN),
]


def test_trials_survive_their_text() -> None:
    assert trials_of(orders_of(TRIALS)) == TRIALS
    assert "\n" not in orders_of(TRIALS)


def test_answers_survive_their_text() -> None:
    silent = TrialOutcome((FlowOutcome(0.0, math.nan, 0.0, 0, 0, "refused", scheme="lp"),))
    outcomes = [
        TrialOutcome((FlowOutcome(11.5, 40.25, 0.01, 100, 9, scheme="cubic"),)),
        TrialOutcome((), "not as asked"),
    ]
    assert outcomes_of(outcomes_text(outcomes)) == outcomes
    flow = outcomes_of(outcomes_text([silent]))[0].flows[0]
    assert math.isnan(flow.late_ms) and math.isnan(flow.power) and flow.reason == "refused"
    assert FlowOutcome(10.0, 100.0, 0.0, 1, 1, scheme="cubic").power == pytest.approx(-2.302585)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Trial(LINK, ()), lambda: Trial(LINK, (Flow("cubic"),) * (MOST_FLOWS + 1)),
        lambda: Trial(LINK, (Flow("cubic", 30.0),)), lambda: Trial(LINK, (Flow("cubic"),), counted_from_s=30.0),
        lambda: Trial(LINK, (Flow("cubic"),), math.nan), lambda: Trial(LINK, (Flow(),)), lambda: trials_of("[{}]"),
        lambda: trials_of("nothing"), lambda: outcomes_of("[]"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadInput):
        wrong()


def test_every_scheme_that_the_kernel_has_is_listed() -> None:
    text = (SOURCES / "config.fragment").read_text() + (SOURCES / "schemes.fragment").read_text()
    switched = {name.lower() for name in re.findall(r"^CONFIG_TCP_CONG_(\w+)=y", text, re.M)} - {"advanced"}
    kernel = {"hstcp": "highspeed"}
    assert {kernel.get(name, name) for name in switched} | {"reno"} == set(OF_LINUX)


SHARES = st.lists(st.floats(0.001, 1000), min_size=1, max_size=12)


def test_jains_index_by_hand() -> None:
    assert jain([2.0] * 6) == 1.0
    assert jain([5.0, 0.0, 0.0, 0.0]) == 0.25
    # five equal and one with twice as much: 49 of 54
    assert jain([1, 1, 1, 1, 1, 2]) == pytest.approx(49 / 54)
    assert jain([0.0, 0.0]) is None


@given(SHARES, st.floats(0.01, 100))
def test_jains_index_lies_between_one_share_and_all_and_has_no_unit(shares: list[float], factor: float) -> None:
    index = jain(shares)
    assert index is not None and 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9
    assert jain([share * factor for share in shares]) == pytest.approx(index)


def test_an_interval_by_hand() -> None:
    # standard deviation 1, four degrees of freedom short of five: t is 2.776
    values = [8.0, 10.0, 10.0, 10.0, 12.0]
    assert mean(values) == 10.0 and margin(values) == pytest.approx(2.776 * 2**0.5 / 5**0.5, rel=1e-3)
    assert margin([3.0]) is None and mean([]) is None
    assert mean([1.0, math.nan, 3.0]) == 2.0 and margin([1.0, math.nan]) is None
    assert margin([5.0] * 3) == 0.0


@pytest.mark.parametrize(("free", "factor"), [(1, 12.706), (10, 2.228), (11, 2.201), (15, 2.131), (29, 2.045)])
def test_an_interval_narrows_with_the_degrees_of_freedom(free: int, factor: float) -> None:
    # Student's table; these values' standard deviation is 1
    values = [math.sqrt(free / 2), -math.sqrt(free / 2), *[0.0] * (free - 1)]
    assert margin(values) == pytest.approx(factor / math.sqrt(free + 1), rel=0.005)


def test_an_ellipse_reaches_one_deviation_along_each_axis() -> None:
    points = [(10 + 3 * x, 5 + 0.5 * y) for x in (-1, 1) for y in (-1, 1)]
    corners = ellipse(points)
    # the deviation of four such points is sqrt(4/3) of their distance
    assert len(corners) == CORNERS
    assert max(x for x, _ in corners) == pytest.approx(10 + 3 * (4 / 3) ** 0.5, rel=1e-6)
    assert min(y for _, y in corners) == pytest.approx(5 - 0.5 * (4 / 3) ** 0.5, rel=1e-6)
    assert ellipse([(1.0, 2.0)]) == []
    assert {(round(x, 9), round(y, 9)) for x, y in ellipse([(1.0, 2.0)] * 3)} == {(1.0, 2.0)}


@pytest.mark.parametrize("slope", [2.0, -2.0, 0.5, -0.5, 7.0, -7.0])
def test_an_ellipse_leans_with_its_points(slope: float) -> None:
    corners = ellipse([(float(n), slope * n) for n in range(5)])
    assert all(y == pytest.approx(slope * x, abs=1e-5) for x, y in corners)


def test_rankings() -> None:
    assert ranks([3.0, 9.0, 3.0, 1.0]) == [2.5, 1.0, 2.5, 4.0]
    assert agreement([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert agreement([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert agreement([1, 1, 1], [1, 2, 3]) is None


# Paths, directions, moments, schemes, runs.
SHAPE = (5, 2, 3, 6, 3)


def along(*axes: int, seed: int = 1) -> Figures:
    """Numbers that differ along these axes alone."""
    shape = [SHAPE[axis] if axis in axes else 1 for axis in range(len(SHAPE))]
    return np.random.default_rng(seed).normal(size=shape) + np.zeros(SHAPE)


def share_of(figures: Figures) -> dict[str, float]:
    return dict(zip(EFFECTS, shares(figures), strict=True))


def test_pure_and_nested_effects_are_within_their_levels() -> None:
    assert share_of(along(PATH))["path"] == pytest.approx(1.0) == share_of(along(SCHEME))["scheme"]
    direction, moment = along(PATH, DIRECTION), along(PATH, DIRECTION, MOMENT)
    direction -= direction.mean(axis=DIRECTION, keepdims=True)
    moment -= moment.mean(axis=MOMENT, keepdims=True)
    by_time = moment * along(SCHEME)
    by_time -= by_time.mean(axis=SCHEME, keepdims=True)
    for figures, name in ((direction, "direction"), (moment, "time"), (by_time, "scheme by time")):
        assert share_of(figures)[name] == pytest.approx(1.0)


def test_shares_add_up() -> None:
    figures = np.random.default_rng(2).normal(size=SHAPE)
    assert sum(shares(figures)) == pytest.approx(1.0) and all(shares(figures) > 0)
    # of noise alone, most is the runs'
    assert share_of(figures)["runs"] == pytest.approx(2 / 3, abs=0.05)
    assert list(shares(np.ones(SHAPE))) == [0.0] * len(EFFECTS)


def noisy(chance: np.random.Generator, *parts: Figures) -> Figures:
    """The parts, and what one run has for all schemes, and for one."""
    common = chance.normal(size=(*SHAPE[:3], 1, SHAPE[4]))
    return sum(parts, 0.7 * common + 0.7 * chance.normal(size=SHAPE))


PARTS = (4 * along(PATH), along(PATH, DIRECTION, MOMENT, seed=4), 0.5 * along(SCHEME))


@pytest.mark.slow
def test_what_is_there_is_seen_and_nothing_else() -> None:
    """Paths, moments and schemes differ, directions and orders do not: twenty times; of noise alone nothing is seen."""
    chance, seen = np.random.default_rng(3), dict.fromkeys(EFFECTS, 0)
    for _ in range(20):
        for effect in effects(noisy(chance, *PARTS), chance, 100):
            seen[effect.name] += effect.is_seen
    assert min(seen[name] for name in ("path", "time", "scheme")) >= 19
    assert max(seen[name] for name in ("direction", "scheme by path", "scheme by direction", "scheme by time")) <= 4
    assert seen["runs"] == 0
    alone = [[one.is_seen for one in effects(chance.normal(size=SHAPE), chance, 100)] for _ in range(10)]
    assert np.sum(alone) <= 10 * 7 * 0.1


@pytest.mark.slow
def test_intervals_hold_what_other_runs_have() -> None:
    chance, held = np.random.default_rng(6), []
    others = np.mean([shares(noisy(chance, *PARTS)) for _ in range(300)], axis=0)
    for _ in range(20):
        found = effects(noisy(chance, *PARTS), chance, 100)
        held.append([one.low <= other <= one.high for one, other in zip(found, others, strict=True)])
    assert np.mean(held) > 0.85 and np.mean(held, axis=0).min() >= 0.7


def test_gaps_are_filled_or_their_scheme_is_left_out() -> None:
    figures = np.random.default_rng(7).normal(size=SHAPE)
    figures[0, 0, 0, 1, 0] = math.nan
    figures[1, 1, 2, 4] = math.nan
    found = balanced(figures)
    assert (found.schemes, found.filled) == ([0, 1, 2, 3, 5], 1) and not np.isnan(found.figures).any()
    assert found.figures[0, 0, 0, 1, 0] == pytest.approx(figures[0, 0, 0, 1, 1:].mean())
    assert balanced(np.full(SHAPE, math.nan)).schemes == []
    noise = np.random.default_rng(8).normal(size=SHAPE)
    one, two = (effects(noise, np.random.default_rng(9), 20)[:-1] for _ in range(2))
    assert one == two, "the same chance gives the same effects"


AS_STATED = {"copa": 30.0, "vivace": 40.0, "verus": 50.0, "bbr": 60.0, "cubic": 80.0, "allegro": 90.0}


@pytest.mark.parametrize("seed", range(5))
def test_over_a_whole_order_it_is_scipys(seed: int) -> None:
    names = "abcdefg"
    found = dict(zip(names, np.random.default_rng(seed).permutation([10.0, 20, 30, 40, 50, 60, 70]), strict=True))
    pairs = [StatedPair(less, more, "") for less, more in combinations(names, 2)]
    expected = kendalltau(range(len(names)), list(found.values())).statistic
    assert tau(pairs, found) == pytest.approx(expected)


def test_ties_count_half_and_absent_pairs_not_at_all() -> None:
    pairs = [StatedPair("a", "b", ""), StatedPair("b", "c", ""), StatedPair("c", "d", "")]
    assert tau(pairs, {"a": 10.0, "b": 10.05, "c": 20.0}) == 0.5
    assert tau(pairs, {"a": 10.0, "d": 20.0}) is None


def test_the_interval_is_of_the_mean_over_paths() -> None:
    assert interval([0.5] * 6) == (0.5, 0.5)
    values = np.random.default_rng(3).normal(0.3, 0.2, 40)
    low, high = interval(values.tolist())
    spread = 1.96 * values.std() / 40**0.5
    assert (low, high) == pytest.approx((values.mean() - spread, values.mean() + spread), abs=0.015)


def test_the_verdict_follows_the_interval() -> None:
    other = {scheme: 100.0 - delay for scheme, delay in AS_STATED.items()}
    assert agreement_fact({f"path {number}": AS_STATED for number in range(8)}).verdict == HOLDS
    assert agreement_fact({f"path {number}": other for number in range(8)}).verdict == ABSENT
    mixed = {f"path {number}": AS_STATED if number < 3 else other for number in range(5)}
    fact = agreement_fact(mixed)
    assert fact.verdict == PARTLY and fact.ours.startswith("Kendall's tau 0.20 [")
    assert "copa below cubic 3 of 5" in fact.words


def test_the_study_compares_the_delays_of_its_single_flows() -> None:
    def trial(scheme: str, late_ms: float) -> TrialOutcome:
        return TrialOutcome((FlowOutcome(5.0, late_ms, 0.0, 10**6, 1000, scheme=scheme),))

    rows = [("copa", 1, 31.0, 33.0), ("cubic", 1, 60.0, 62.0), ("cubic", 3, 1.0, 1.0)]
    entries = [
        Entry(path, scheme, count, (trial(scheme, first), trial(scheme, second)))
        for path in ("pantheon:15", "pantheon:16")
        for scheme, count, first, second in rows
    ]
    assert delays(entries, 1)["pantheon:15"] == {"copa": 32.0, "cubic": 61.0}
    stated = facts(entries)[-1]
    assert stated.verdict == PARTLY and stated.ours == "Kendall's tau 1.00 [1.00, 1.00]", "two paths show no spread"


def test_without_a_stated_pair_nothing_is_claimed() -> None:
    assert agreement_fact({"path": {"reno": 10.0, "cubic": 20.0}}).verdict == UNKNOWN
    assert all(pair.source for pair in PUBLISHED)


def in_guest(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.root(pytest.mark.lab(test))


WORKER = "configtron.studies.guests.worker"
# 25 ms to the client and no queue that fills: vegas leaves it empty.
EMPTY = Condition("empty", LinkDirection(5e3, 25.0, queue_packets=500), LinkDirection(delay_ms=5))
# One packet in fifty is lost, played, and in steps of one packet each 2 ms.
LOSSY = Condition("lossy", LinkDirection(6e3, 10.0, loss=0.02, kind="bursts"), LinkDirection(delay_ms=10))
TUNED = Profile("tuned", (("initcwnd", 30), ("pacing", "fq"), ("tcp_congestion_control", "vegas")))
GUEST_TRIALS = [
    Trial(EMPTY, (Flow("vegas"),), 6, counted_from_s=2),
    Trial(LOSSY, (Flow("bbr"),), 6),
    # a buffer of a tenth of the path: what one scheme fills and loses
    Trial(named("pantheon:15"), (Flow("cubic"), Flow("reno", 1.0), Flow("none-such")), 5),
    Trial(named("access:cable"), (Flow(), Flow("cubic", rival=True), Flow("reno", rival=True)), 5, 1, 1, TUNED),
    Trial(EMPTY, tuple(Flow(scheme) for scheme in SCHEMES), 1),
    Trial(EMPTY, (Flow("copa"),), 6, counted_from_s=2),
    Trial(LOSSY, (Flow("copa"), Flow("ledbat", 1.0)), 4),
    Trial(EMPTY, (Flow("ledbat"), Flow("cubic", 1.0, rival=True)), 4),
]


def ran(folder: Path) -> Ran:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    return run(Arguments(folder, worker=WORKER), {"one": GUEST_TRIALS, "two": GUEST_TRIALS[:2]})


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return ran(tmp_path_factory.mktemp("flows"))


@pytest.fixture(scope="module")
def in_one(found: Ran) -> list[TrialOutcome]:
    assert not found.missing
    return list(found.outcomes["one"])


def only(in_one: TrialOutcome) -> FlowOutcome:
    assert not in_one.reason and len(in_one.flows) == 1 and not in_one.flows[0].reason
    return in_one.flows[0]


@in_guest
def test_an_empty_path_is_as_late_as_it_is_long(in_one: list[TrialOutcome]) -> None:
    flow = only(in_one[0])
    # a full packet takes 2.4 ms to leave; vegas keeps two to four of them waiting
    assert 25.0 < flow.late_ms < 25.0 + 6 * 2.4 and flow.loss == 0.0
    assert flow.mbit == pytest.approx(5.0, rel=0.02)


@in_guest
def test_what_chance_takes_is_the_loss(in_one: list[TrialOutcome]) -> None:
    flow = only(in_one[1])
    assert flow.loss == pytest.approx(0.02, abs=3 * (0.02 / flow.sent) ** 0.5) and flow.sent > 2000
    assert flow.mbit == pytest.approx(6.0 * 0.98, rel=0.1) and flow.late_ms > 10.0


@in_guest
def test_a_scheme_that_the_kernel_lacks_is_refused_and_no_other(in_one: list[TrialOutcome]) -> None:
    cubic, reno, none = in_one[2].flows
    assert (cubic.scheme, reno.scheme) == ("cubic", "reno") and not cubic.reason and not reno.reason
    assert (none.reason, none.sent) == (REFUSED, 0)
    # nine kilobytes wait for 6 ms at 12 Mbit/s, after 30 ms of way
    assert all(30.0 < flow.late_ms < 38.0 and flow.loss > 0 for flow in (cubic, reno))


@in_guest
def test_a_configuration_is_the_servers_and_not_their_rivals(in_one: list[TrialOutcome]) -> None:
    assert not in_one[3].reason
    assert [flow.scheme for flow in in_one[3].flows] == ["vegas", "cubic", "reno"]
    assert sum(flow.mbit for flow in in_one[3].flows) == pytest.approx(5.0, rel=0.05)
    # all wait in the one queue
    assert all(flow.late_ms > 14.0 + 20 for flow in in_one[3].flows)


@in_guest
def test_every_scheme_sends(in_one: list[TrialOutcome]) -> None:
    assert [(flow.scheme, flow.reason) for flow in in_one[4].flows] == [(scheme, "") for scheme in SCHEMES]


@in_guest
def test_a_scheme_of_user_space_is_as_late_as_its_paper_has_it(in_one: list[TrialOutcome]) -> None:
    flow = only(in_one[5])
    # a full packet takes 2.4 ms to leave; copa keeps none to five of them waiting
    assert 25.0 < flow.late_ms < 25.0 + 6 * 2.4 and flow.loss == 0.0 and flow.scheme == "copa"
    assert flow.mbit == pytest.approx(5.0, rel=0.02)


@in_guest
def test_schemes_of_user_space_share_a_played_path(in_one: list[TrialOutcome]) -> None:
    flows = in_one[6].flows
    assert [(flow.scheme, flow.reason) for flow in flows] == [("copa", ""), ("ledbat", "")]
    # chance takes one packet in fifty; what copa makes of it is the path's rate, less what the other has
    sent = sum(flow.sent for flow in flows)
    assert sum(flow.loss * flow.sent for flow in flows) / sent == pytest.approx(0.02, abs=3 * (0.02 / sent) ** 0.5)
    assert sum(flow.mbit for flow in flows) > 0.85 * 6.0


@in_guest
def test_datagrams_and_a_connection_share_a_queue(in_one: list[TrialOutcome]) -> None:
    flows = in_one[7].flows
    assert [(flow.scheme, flow.reason) for flow in flows] == [("ledbat", ""), ("cubic", "")]
    assert sum(flow.mbit for flow in flows) > 0.9 * 5.0 and all(flow.mbit > 0.2 for flow in flows)


@in_guest
def test_the_same_seed_gives_the_same_figures(found: Ran, tmp_path: Path) -> None:
    again = ran(tmp_path)
    assert again == found
    assert found.outcomes["two"] == found.outcomes["one"][:2]
