# SPDX-License-Identifier: MIT
"""A class whose choice no client of it has loaded gets the fastest configuration that they did load."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.columns import Codes, Floats
from configtron.learner.driver_support import reached
from configtron.learner.fallback import LEAST_LOADS, fallback
from configtron.learner.rule_cost import JudgedOutcomes, known_outcomes
from configtron.learner.rulebook import rulebook
from configtron.learner.rules_export import export_rules, loaded_configurations
from tests.support.worlds import SITES, clients, small_classes, small_tensor

TENSOR, WARM = small_tensor(), small_tensor(seed=9)
DEFAULT, EVERY = TENSOR.grid.default, np.ones(len(TENSOR.grid), dtype=np.bool_)
OTHER, THIRD = [at for at in range(len(TENSOR.grid)) if at != DEFAULT][:2]


@cache
def offline():  # type: ignore[no-untyped-def]
    """A policy without a model of its own that has loaded nothing itself."""
    return policy("offline", Setting(TENSOR.grid, SITES, small_classes(TENSOR), np.random.default_rng(3), 500, WARM))


def loads(*parts: tuple[int, int, float, int], network: int = 0, spread: float = 0.05, seed: int = 7
          ) -> JudgedOutcomes:  # fmt: skip
    """Outcomes of one class: (site, configuration, ms, how many) each, with a little noise."""
    rng, width = np.random.default_rng(seed), len(SITES) + 1
    column: list[list[float]] = [[], [], []]
    for site, configuration, ms, count in parts:
        column[0] += [network * width + site] * count
        column[1] += [configuration] * count
        column[2] += list(ms * np.exp(spread * rng.normal(size=count)))
    row, at, ms_ = (np.array(one) for one in column)
    contexts = clients(TENSOR, len(row))[0]
    return JudgedOutcomes(contexts, row.astype(np.int64), np.full(len(row), network), at.astype(np.int64), ms_)


def chosen(*parts: tuple[int, int, float, int], among: np.ndarray = EVERY) -> int:
    found = fallback(offline(), loads(*parts, network=2), among)
    assert (np.delete(found, 2) == DEFAULT).all(), "classes without a load keep Default"
    return int(found[2])


def test_the_fastest_that_was_loaded_is_taken() -> None:
    assert chosen((0, DEFAULT, 1000, 40), (0, OTHER, 800, 40), (0, THIRD, 700, 40)) == THIRD
    assert chosen((0, DEFAULT, 1000, 40), (0, OTHER, 800, 40), (0, THIRD, 1100, 40)) == OTHER
    assert chosen((0, DEFAULT, 600, 40), (0, OTHER, 800, 40), (0, THIRD, 700, 40)) == DEFAULT
    within = EVERY & (np.arange(len(EVERY)) != THIRD)
    assert chosen((0, DEFAULT, 1000, 40), (0, OTHER, 800, 40), (0, THIRD, 700, 40), among=within) == OTHER


def test_a_slow_site_is_not_a_slow_configuration() -> None:
    """By plain means the other one, only ever loaded at the slow site, would look slower by half."""
    assert chosen((0, DEFAULT, 100, 40), (1, DEFAULT, 1000, 10), (1, OTHER, 800, 40)) == OTHER
    assert chosen((0, DEFAULT, 100, 10), (1, DEFAULT, 1000, 40), (0, OTHER, 130, 40)) == DEFAULT
    # a site's level is not that of what it was loaded with most
    mostly = (0, DEFAULT, 100, 20), (0, OTHER, 60, 200), (1, DEFAULT, 100, 200), (1, THIRD, 80, 20)
    assert chosen(*mostly) == OTHER


@pytest.mark.parametrize("count", [1, LEAST_LOADS - 1, LEAST_LOADS])
def test_a_few_loads_are_not_enough(count: int) -> None:
    took = chosen((0, DEFAULT, 1000, 60), (0, OTHER, 500, count))
    assert took == (OTHER if count >= LEAST_LOADS else DEFAULT)


def test_what_chance_may_have_done_is_not_taken() -> None:
    """One standard error: 16 % of what is alike is taken, more than 14 of 40 in one of a thousand runs."""
    alike = (0, DEFAULT, 1000.0, LEAST_LOADS), (0, OTHER, 1000.0, LEAST_LOADS)
    taken = [fallback(offline(), loads(*alike, spread=0.3, seed=seed), EVERY)[0] == OTHER for seed in range(40)]
    assert sum(taken) <= 14
    many = (0, DEFAULT, 1000.0, 2000), (0, OTHER, 960.0, 2000)
    assert fallback(offline(), loads(*many, spread=0.3), EVERY)[0] == OTHER


def test_default_without_a_load_is_taken_for_usual() -> None:
    assert chosen((0, OTHER, 500, 60), (0, THIRD, 900, 60)) == OTHER
    assert chosen((0, OTHER, 900, 60)) == DEFAULT, "nothing to hold it against"


def life(configuration: Codes, slow: Codes) -> tuple[Floats, Codes]:
    """Page load times: 900 ms, half of that for what is not `slow`."""
    noise = np.random.default_rng(5).normal(size=len(configuration))
    return 900.0 * np.where(configuration == slow, 1.0, 0.5) * np.exp(0.1 * noise), configuration


def test_it_is_handed_over_where_the_best_was_never_loaded() -> None:
    """And only there; nothing is handed over that its class has no load of."""
    made, among = offline(), reached(TENSOR.grid, lambda knob, _: knob != "http_version")
    contexts, _ = clients(TENSOR, 4000)
    free = rulebook(made, contexts, among=among)
    wanted = set(free.by_class.tolist())
    spare = next(at for at in range(len(TENSOR.grid)) if among[at] and at not in wanted and at != DEFAULT)
    ms, configuration = life(np.where(np.arange(len(contexts)) % 2 == 0, DEFAULT, spare), np.int64(DEFAULT))
    out = export_rules(made, contexts, configuration, ms, among).tune
    assert out.instead > 0 and (out.by_class[free.by_class != DEFAULT] == spare).mean() > 0.9
    assert (out.by_class[free.by_class == DEFAULT] == DEFAULT).all()
    seen = loaded_configurations(made, known_outcomes(made, contexts, configuration, ms))
    at = np.arange(len(seen))
    assert (seen[at, out.by_class] | (out.by_class == DEFAULT)).all()
    assert out.instead + out.unseen == (free.by_class != DEFAULT).sum()
    slower, _ = life(configuration, np.int64(spare))
    kept = export_rules(made, contexts, configuration, slower, among).tune
    assert kept.instead == 0 and kept.unseen > 0 and not kept.profiles
    other = export_rules(made, contexts, configuration, ms, among, unjudged="another's").tune
    assert other.instead == 0 and not other.profiles, "a log of other configurations says nothing of these"


def test_the_later_half_has_no_say() -> None:
    """Those that judge must not choose."""
    made, among = offline(), reached(TENSOR.grid, lambda knob, _: knob != "http_version")
    contexts, _ = clients(TENSOR, 4000)
    choice = np.where(np.arange(len(contexts)) % 2 == 0, DEFAULT, OTHER)
    ms, _ = life(choice, np.int64(DEFAULT))
    late = np.where(np.arange(len(ms)) < len(ms) // 2, ms, ms[::-1] * np.where(choice == OTHER, 9.0, 1.0))
    one, two = (export_rules(made, contexts, choice, y, among) for y in (ms, late))
    assert (one.tune.by_class == two.tune.by_class).all() and one.losses["tune"] != two.losses["tune"]
    assert one.tune.instead == two.tune.instead > 0
