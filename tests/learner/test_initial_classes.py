# SPDX-License-Identifier: MIT
"""The offline start: noise distinguished from difference, by repeats; too few of them are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.classes import ALLOWED_K
from configtron.learner.columns import ARM, Codes, Contexts, Decisions, Floats
from configtron.learner.importance import dead_knobs, proven
from configtron.learner.initial_classes import ALIKE_LN, beginning, tally_of
from configtron.learner.logged import Logged, grid_of
from configtron.learner.repeated import repeats
from configtron.model.nouns import Profile
from tests.support.worlds import small_tensor

TENSOR = small_tensor(conditions=80)


def log_of(noise_ln: float, n: int = 6000, prefixes: int = 160) -> Logged:
    """Clients under Default, the same whatever the noise: each prefix in one network, seen 8 % wrong."""
    rng = np.random.default_rng(4)
    prefix, site = rng.integers(prefixes, size=n), rng.integers(len(TENSOR.sites), size=n)
    condition = prefix % len(TENSOR.names)
    wrong = np.exp(0.08 * rng.standard_normal((2, n)))
    kbps, rtt = TENSOR.bandwidth_kbps[condition] * wrong[0], TENSOR.rtt_ms[condition] * wrong[1]
    names = tuple(f"10.0.{at}.0/24" for at in range(prefixes))
    contexts = Contexts(kbps, rtt, TENSOR.loss[condition], site, TENSOR.sites, prefix, names)
    zero = np.zeros(n, dtype=np.int64)
    made = Decisions(zero - 1, zero - 1, zero, zero + ARM["default"], np.ones(n), np.full(n, np.nan))
    ms = TENSOR.lookup(condition, zero + TENSOR.grid.default, site) * np.exp(noise_ln * rng.standard_normal(n))
    return Logged(zero, contexts, made, ms, zero, (Profile("default"),), ())


def begun(log: Logged) -> int:
    return len(beginning(log, None, np.random.default_rng(1)).classes)


@pytest.mark.slow
def test_noise_makes_no_classes() -> None:
    """The same clients, however noisy their loads: as many classes, give or take one step of the candidates."""
    found = [begun(log_of(noise)) for noise in (0.05, 0.12, 0.2, 0.3)]
    steps = [4, 6, 8, 12, 16, 20, 24, 32, 48, 64]
    places = [steps.index(k) for k in found]
    assert max(places) - min(places) <= 1 and max(found) < 64
    blind = log_of(0.3)
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
    assert repeats(np.zeros(0, dtype=np.int64), group, group, y).count == 0


def test_a_log_that_was_imported_twice_does_not_say_that_loads_never_vary() -> None:
    rng = np.random.default_rng(8)
    prefix, y = np.arange(400), rng.standard_normal(400)
    zero = np.zeros(800, dtype=np.int64)
    twice = repeats(np.tile(prefix, 2), zero, zero, np.tile(y, 2))
    assert twice.sigma_ln is None and twice.count == 400 and twice.variance == 0.0
    assert twice.why.startswith("400 of 400 repeats took exactly as long") and "imported twice" in twice.why
    # A third of them equal, as clocks of whole milliseconds may have it: still distinguished.
    again = np.concatenate((y, y + 0.1 * rng.standard_normal(400) * (prefix % 3 > 0)))
    assert repeats(np.tile(prefix, 2), zero, zero, again).sigma_ln == pytest.approx(0.0577, rel=0.2)


@pytest.mark.slow
def test_classes_that_could_not_be_made_alike_are_reported() -> None:
    log = log_of(0.12)
    assert 0.0 < beginning(log, None, np.random.default_rng(1)).spread_ln <= ALIKE_LN
    assert beginning(log, 6, np.random.default_rng(1)).spread_ln == 0.0
    prefix = log.contexts.prefix  # a client's loads are slow, or not, whatever its network
    unlike = replace(log, plt_ms=log.plt_ms * np.exp(1.0 * (prefix % 3)))
    found = beginning(unlike, None, np.random.default_rng(1))
    assert len(found.classes) == ALLOWED_K[-1] and found.spread_ln > ALIKE_LN


@pytest.mark.slow
def test_a_class_diverges_beyond_what_members_may_differ_by_and_noise() -> None:
    quiet, loud = (beginning(log_of(noise), 6, np.random.default_rng(1)) for noise in (0.05, 0.3))
    assert len(quiet.classes) == len(loud.classes) == 6
    assert ALIKE_LN < quiet.divergence().spread_ln < loud.divergence().spread_ln
    assert loud.divergence().spread_ln == pytest.approx(np.hypot(0.25, 0.3), rel=0.05)


@pytest.mark.slow
def test_devices_have_classes_of_their_own() -> None:
    log = log_of(0.05)
    device = np.where(np.arange(6000) < 100, 1, np.where(np.arange(6000) % 2 == 0, 0, -1))
    with_device = replace(log, contexts=replace(log.contexts, device=device, devices=("phone", "rare")))
    found = beginning(with_device, 6, np.random.default_rng(1), by_device=True).classes
    assert found.devices == ("",) * 6 + ("phone",) * 6 and len(set(found.ids)) == 12
    assert beginning(with_device, 6, np.random.default_rng(1)).classes.devices == ()


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
    classes = beginning(log, 12, np.random.default_rng(1)).classes
    tally = tally_of(log, classes, grid)
    found = {one.knob for one in proven(dead_knobs(grid, tally, tally.noise_ln(0.25)))}
    assert found == ({"pacing"} if dead else set())
