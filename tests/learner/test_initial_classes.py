# SPDX-License-Identifier: MIT
"""The offline start: noise distinguished from difference, by repeats; knobs that do nothing, by outcomes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from configtron.learner import Setting, importance, policy
from configtron.learner.classes import ALLOWED_K, Classes
from configtron.learner.columns import ARM, Codes, Contexts, Decisions, Floats
from configtron.learner.contrasts import Contrasts
from configtron.learner.initial_classes import ALIKE_LN, Beginning, beginning, tally_of
from configtron.learner.logged import Logged, grid_of
from configtron.learner.repeated import repeats
from configtron.learner.tally import no_tally
from configtron.model.grid import paper_grid
from configtron.model.nouns import Profile
from tests.support.worlds import SITES, clients, small_classes, small_tensor

NETWORKS = small_tensor(conditions=80)


def log_of(noise_ln: float, n: int = 6000, prefixes: int = 160) -> Logged:
    """Clients under Default, the same whatever the noise: each prefix in one network, seen 8 % wrong."""
    rng = np.random.default_rng(4)
    prefix, site = rng.integers(prefixes, size=n), rng.integers(len(NETWORKS.sites), size=n)
    condition = prefix % len(NETWORKS.names)
    wrong = np.exp(0.08 * rng.standard_normal((2, n)))
    kbps, rtt = NETWORKS.bandwidth_kbps[condition] * wrong[0], NETWORKS.rtt_ms[condition] * wrong[1]
    names = tuple(f"10.0.{at}.0/24" for at in range(prefixes))
    contexts = Contexts(kbps, rtt, NETWORKS.loss[condition], site, NETWORKS.sites, prefix, names)
    zero = np.zeros(n, dtype=np.int64)
    made = Decisions(zero - 1, zero - 1, zero, zero + ARM["default"], np.ones(n), np.full(n, np.nan))
    ms = NETWORKS.lookup(condition, zero + NETWORKS.grid.default, site) * np.exp(noise_ln * rng.standard_normal(n))
    return Logged(zero, contexts, made, ms, zero, (Profile("default"),), ())


def started(log: Logged, k: int | None = 6, **more: bool) -> Beginning:
    return beginning(log, k, np.random.default_rng(1), **more)


def begun(log: Logged) -> int:
    return len(started(log, None).classes)


@pytest.mark.slow
def test_noise_makes_no_classes() -> None:
    """The same clients, however noisy their loads: as many classes, give or take one step of the candidates."""
    found = [begun(log_of(noise, 3000)) for noise in (0.05, 0.3)]
    steps = [4, 6, 8, 12, 16, 20, 24, 32, 48, 64]
    places = [steps.index(k) for k in found]
    assert max(places) - min(places) <= 1 and max(found) < 64
    blind = log_of(0.3, 3000)
    alone = replace(blind, contexts=replace(blind.contexts, prefix=np.zeros(0, dtype=np.int64), prefixes=()))
    assert begun(alone) > found[-1], "what is not known to be noise counts as difference"


def noisy(sigma: float, n: int = 4000, seed: int = 2) -> tuple[Codes, Floats]:
    rng = np.random.default_rng(seed)
    group = rng.integers(500, size=n)
    return group, 3.0 * group + sigma * rng.standard_normal(n)


@pytest.mark.parametrize("sigma", [0.05, 0.12, 0.3])
def test_repeats_show_the_noise(sigma: float) -> None:
    group, y = noisy(sigma)
    found = repeats(group, group * 0, group * 0, y)
    assert found.sigma_ln == pytest.approx(sigma, rel=0.05) and found.count == 4000 - len(np.unique(group))
    # A hundredth of the clients come into a network that is three e-folds away: once each.
    moved = y + 3.0 * ((group < 25) & (np.arange(4000) > 2000))
    assert repeats(group, group * 0, group * 0, moved).sigma_ln == pytest.approx(sigma, rel=0.15)


def test_too_few_repeats_are_reported() -> None:
    group, y = noisy(0.1)
    none = repeats(group * 0 - 1, group, group, y)
    assert none.sigma_ln is None and "no outcome has a prefix" in none.why and none.variance == 0.0
    few = repeats(np.arange(4000) % 3990, group * 0, group * 0, y)
    assert few.sigma_ln is None and few.count == 10 and few.why.startswith("10 loads repeat another")
    assert repeats(group[:0], group[:0], group[:0], y[:0]).count == 0


def test_a_log_that_was_imported_twice_does_not_say_that_loads_never_vary() -> None:
    rng, prefix, zero = np.random.default_rng(8), np.arange(400), np.zeros(800, dtype=np.int64)
    y = rng.standard_normal(400)
    twice = repeats(np.tile(prefix, 2), zero, zero, np.tile(y, 2))
    assert twice.sigma_ln is None and twice.count == 400 and twice.variance == 0.0
    assert twice.why.startswith("400 of 400 repeats took exactly as long") and "imported twice" in twice.why
    # A third of them equal, as clocks of whole milliseconds may have it: still distinguished.
    again = np.concatenate((y, y + 0.1 * rng.standard_normal(400) * (prefix % 3 > 0)))
    assert repeats(np.tile(prefix, 2), zero, zero, again).sigma_ln == pytest.approx(0.0577, rel=0.2)


@pytest.mark.slow
def test_classes_that_could_not_be_made_alike_are_reported() -> None:
    log = log_of(0.12, 3000)
    assert 0.0 < started(log, None).spread_ln <= ALIKE_LN and started(log).spread_ln == 0.0
    # a client's loads are slow, or not, whatever its network
    found = started(replace(log, plt_ms=log.plt_ms * np.exp(1.0 * (log.contexts.prefix % 3))), None)
    assert len(found.classes) == ALLOWED_K[-1] and found.spread_ln > ALIKE_LN


@pytest.mark.slow
def test_a_configuration_that_one_site_has_is_not_taken_for_slow() -> None:
    """Each site has a profile of its own, a tenth of its loads another's; all are as fast."""
    log = log_of(0.05, 2000, prefixes=20)
    site = log.contexts.site
    mostly = np.where(np.arange(2000) % 10 == 0, (site + 1) % 3, site)
    profiles = tuple(Profile(f"p{at}", (("initcwnd", at),)) for at in (4, 10, 16))
    many = replace(log, decisions=replace(log.decisions, configuration=mostly), profiles=profiles)
    assert started(many, None).spread_ln == pytest.approx(started(log, None).spread_ln, abs=0.05)


@pytest.mark.slow
def test_a_class_diverges_beyond_what_members_may_differ_by_and_noise() -> None:
    quiet, loud = (started(log_of(noise)) for noise in (0.05, 0.3))
    assert len(quiet.classes) == len(loud.classes) == 6
    assert ALIKE_LN < quiet.divergence().spread_ln < loud.divergence().spread_ln
    assert loud.divergence().spread_ln == pytest.approx(np.hypot(0.25, 0.3), rel=0.05)


@pytest.mark.slow
def test_devices_have_classes_of_their_own() -> None:
    log = log_of(0.05)
    device = np.where(np.arange(6000) < 100, 1, np.where(np.arange(6000) % 2 == 0, 0, -1))
    with_device = replace(log, contexts=replace(log.contexts, device=device, devices=("phone", "rare")))
    found = started(with_device, by_device=True).classes
    assert found.devices == ("",) * 6 + ("phone",) * 6 and len(set(found.ids)) == 12
    assert started(with_device).classes.devices == ()


def chosen(worth: float, n: int = 8_000, seed: int = 6) -> Logged:
    """Any of eight profiles for any client; pacing is worth so much, the window a fifth."""
    log, rng = log_of(0.12, n), np.random.default_rng(seed)
    window, pacing = rng.integers(4, size=n), rng.integers(2, size=n)
    ms = log.plt_ms * (1.0 + 0.2 * window) * np.where(pacing == 0, 1.0 + worth, 1.0)
    profiles = tuple(
        Profile(f"p{at}", (("initcwnd", (4, 10, 16, 30)[at // 2]), ("pacing", ("fq", "pfifo_fast")[at % 2])))
        for at in range(8)
    )
    made = replace(log.decisions, configuration=2 * window + pacing)
    return replace(log, decisions=made, plt_ms=ms, profiles=profiles)


@pytest.mark.slow
@pytest.mark.parametrize(("worth", "dead"), [(0.0, True), (0.05, False)])
def test_a_knob_is_dead_by_outcomes_where_the_width_of_classes_is_taken_off(worth: float, dead: bool) -> None:
    log = chosen(worth)
    grid = grid_of(log.profiles)
    tally = tally_of(log, started(log, 12).classes, grid)
    found = {one.knob for one in importance.proven(importance.dead_knobs(grid, tally, tally.noise_ln(0.25)))}
    assert found == ({"pacing"} if dead else set())


@cache
def six() -> Classes:
    """Classes of all these logs' clients, whatever their loads took."""
    return started(log_of(0.12, 8000)).classes


def seen(log: Logged, share: float = 0.01, *, cut: int = 3000) -> dict[str, importance.DeadKnob]:
    made = Contrasts(grid_of(log.profiles), six(), log.contexts.sites, len(log))
    parts = range(0, len(log), cut)
    for at in parts:
        made.count(log[at : at + cut])
    made.fit()
    for at in parts:
        made.add(log[at : at + cut])
    return {one.dead.knob: one for one in made.found(share)}


@pytest.mark.parametrize(("worth", "unseen"), [(0.0, True), (0.03, False), (0.2, False)])
def test_dead_knobs_are_distinguished_from_weak_ones(worth: float, unseen: bool) -> None:
    found = seen(chosen(worth, seed=7))
    assert ("pacing" in found) == unseen and "initcwnd" not in found
    if unseen:
        assert found["pacing"].unseen < 0.03


@pytest.mark.slow
def test_batches_do_not_show_and_less_is_surer_of_less() -> None:
    log = chosen(0.0, seed=7)
    whole, parts = seen(log, cut=8000)["pacing"], seen(log, cut=777)["pacing"]
    assert whole.unseen == pytest.approx(parts.unseen, rel=1e-6) and whole.pairs == parts.pairs == len(log)
    assert seen(log, 0.0001)["pacing"].unseen > whole.unseen
    assert seen(log[:2000])["pacing"].unseen > 1.5 * whole.unseen


def acting(effect: Floats, base: Floats | None = None, likely: Floats | None = None, n: int = 8000) -> Logged:
    """Two profiles, pacing or not, which is drawn `likely`. effect, base: (n,) ln(ms), of pacing and of clients."""
    log, rng = log_of(0.12, n), np.random.default_rng(9)
    likely = np.full(n, 0.5) if likely is None else likely
    plain = rng.random(n) < likely
    ms = log.plt_ms * np.exp(np.where(plain, 0.0, effect) + (0.0 if base is None else base))
    profiles = tuple(Profile(name, (("initcwnd", 10), ("pacing", name))) for name in ("pfifo_fast", "fq"))
    made = replace(
        log.decisions, configuration=1 - plain.astype(np.int64), propensity=np.where(plain, likely, 1 - likely)
    )
    return replace(log, decisions=made, plt_ms=ms, profiles=profiles)


@pytest.mark.slow
def test_an_effect_is_seen_wherever_it_is() -> None:
    """3 % root mean square: for one site alone, and up here, down there, so that the mean over all is nothing."""
    site, rtt = log_of(0.12, 8000).contexts.site, log_of(0.12, 8000).contexts.rtt_ms
    by_turns = np.where((site + (rtt > np.median(rtt))) % 2 == 0, 0.04, -0.04)
    assert abs(by_turns.mean()) < 0.004
    for effect, unseen in ((np.zeros(8000), True), (np.where(site == 0, 0.052, 0.0), False), (by_turns, False)):
        assert ("pacing" in seen(acting(effect))) is unseen


@pytest.mark.slow
def test_a_logger_that_is_uneven_hides_nothing() -> None:
    """Slow clients, for a reason that no feature shows, are paced four times as often: what pacing saves them is lost
    in that, unless loads count by the inverse of their propensity."""
    slow = np.random.default_rng(3).random(8000) < 0.5
    likely = np.where(slow, 0.2, 0.8)
    hidden = acting(np.full(8000, -0.06), 0.1 * slow, likely)
    assert "pacing" not in seen(hidden)
    untold = replace(hidden, decisions=replace(hidden.decisions, propensity=np.full(8000, np.nan)))
    assert "pacing" in seen(untold), "without propensities it is unknown; else this test shows nothing"
    assert "pacing" in seen(acting(np.zeros(8000), 0.1 * slow, likely))


@pytest.mark.slow
def test_what_was_hardly_tried_is_not_judged() -> None:
    assert "pacing" not in seen(acting(np.zeros(8000), None, np.full(8000, 0.9995)))
    never = acting(np.zeros(8000))
    usual = replace(never.decisions, configuration=np.zeros(8000, dtype=np.int64))
    assert seen(replace(never, decisions=usual)) == {}


@pytest.mark.slow
def test_a_knob_is_held_alive_about_as_often_as_it_says() -> None:
    """An effect of just what was asked for is taken for none in a tenth of the logs at most, if so much is allowed."""
    base, profiles, dead = log_of(0.12, 3000), acting(np.zeros(8000)).profiles, 0
    for seed in range(60):
        rng = np.random.default_rng((77, seed))
        fq = rng.integers(2, size=3000)
        ms = base.plt_ms * np.exp(0.04 * fq + 0.12 * rng.standard_normal(3000))
        log = replace(base, decisions=replace(base.decisions, configuration=fq), plt_ms=ms, profiles=profiles)
        found = seen(log, 0.1).get("pacing")
        dead += found is not None and found.unseen <= np.expm1(0.04)
    assert dead <= 9  # 6 are expected at most; one such test in ten would have more than 9 if it were 7


TENSOR = small_tensor(conditions=40)


def test_knobs_that_matter_come_first() -> None:
    found = importance.knob_importance(TENSOR, np.random.default_rng(1))
    by_name = {row.name: row for row in found}
    # The formula of `small_tensor`: windows and HTTP version count, corking and pacing are not in it.
    assert {found[0].name, found[1].name} <= {"initcwnd", "http_version", "tcp_congestion_control"}
    assert by_name["tcp_autocorking"].p95 == by_name["pacing"].p95 == 0.0
    for row in found:
        assert row.median_low <= row.median <= row.median_high and row.p95_low <= row.p95 <= row.p95_high


def test_a_feature_that_is_exchanged_costs() -> None:
    rng = np.random.default_rng(1)
    oracle = policy("cell_optimum", Setting(TENSOR.grid, SITES, small_classes(TENSOR, 12), rng, truth=TENSOR))
    contexts, condition = clients(TENSOR, 2000)
    rows = importance.feature_importance(oracle, contexts, lambda k: TENSOR.lookup(condition, k, contexts.site), rng)
    assert {row.name for row in rows} == {"bandwidth_kbps", "rtt_ms", "loss", "site"}
    assert max(row.p95 for row in rows) > 0.01
    flat = replace(TENSOR, median_ms=np.ones_like(TENSOR.median_ms))
    none = importance.feature_importance(oracle, contexts, lambda k: flat.lookup(condition, k, contexts.site), rng)
    assert all(row.p95 == 0.0 for row in none)


def test_planted_dead_knobs_are_found_and_not_explored() -> None:
    """Over the paper's 768: three knobs do nothing, one does nothing where another has a value."""
    grid, rng = paper_grid(), np.random.default_rng(2)
    icw, http = grid.column("initcwnd"), grid.column("http_version")
    bbr, paced = grid.column("tcp_congestion_control") == 3, grid.column("pacing")
    truth = 7.0 - 0.1 * icw + 0.2 * http + 0.15 * grid.column("tcp_congestion_control") + 0.2 * paced * ~bbr
    tally = no_tally(6, len(grid))
    for _ in range(4):
        for row in range(6):
            y = truth + 0.1 * rng.standard_normal(len(grid))
            tally = tally.plus(np.full(len(grid), row), np.arange(len(grid)), y)
    found = importance.dead_knobs(grid, tally, 0.1)
    named = {(row.dead.knob, row.dead.where, row.dead.value) for row in found}
    assert named == {
        ("tcp_slow_start_after_idle", "", ""), ("tcp_low_latency", "", ""), ("tcp_autocorking", "", ""),
        ("pacing", "tcp_congestion_control", "bbr"),
    }  # fmt: skip
    assert all(0 < row.unseen < 0.1 and row.pairs > 100 for row in found)
    assert len(grid.without([row.dead for row in found])) == 84
    assert len(importance.proven(found)) == sum(row.unseen <= 0.05 for row in found) > 0


def test_pairs_are_of_what_both_sides_saw_and_are_compared_in_parts() -> None:
    grid, rng = paper_grid(), np.random.default_rng(2)
    rows, some = rng.integers(0, 5, 4000), rng.integers(0, len(grid), 4000)
    tally = no_tally(5, len(grid)).plus(rows, some, 7.0 + 0.1 * rng.standard_normal(4000))
    whole = importance.dead_knobs(grid, tally, 0.1)
    assert {row.dead.knob for row in whole if not row.dead.where} == {knob.name for knob in grid.knobs}
    assert all(row.pairs < 5 * 768 * 3 and 0.0 < row.unseen < 0.2 for row in whole)
    parts = importance.dead_knobs(grid, tally, 0.1, at_once=777)
    assert [(one.dead, one.pairs) for one in whole] == [(one.dead, one.pairs) for one in parts]
    assert [one.unseen for one in whole] == pytest.approx([one.unseen for one in parts])
    many = {"initcwnd", "tcp_congestion_control"}
    few = {one.dead for one in importance.dead_knobs(grid, tally, 0.1, most_values=2)}
    assert few == {one.dead for one in whole if {one.dead.knob, one.dead.where}.isdisjoint(many)}


def test_a_tensors_repeats_are_loads_and_no_loads_give_no_importance() -> None:
    repeats = np.repeat(TENSOR.median_ms[..., None], 3, axis=3)
    repeats[0, 0, 0, 0] = np.nan
    tally = importance.tensor_tally(replace(TENSOR, repeats_ms=repeats))
    assert tally.count[0, 0] == 2 and tally.count[1, 0] == 3
    assert importance.tensor_tally(TENSOR).count.sum() == TENSOR.median_ms.size
    grid = paper_grid()
    assert importance.dead_knobs(grid, no_tally(3, len(grid)), 0.1) == [] and len(grid.without([])) == 768
