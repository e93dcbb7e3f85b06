# SPDX-License-Identifier: MIT
"""Logged outcomes as columns; a policy taught by them: the same bits however they are cut, and no peeping."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.columns import ARM, Decisions
from configtron.learner.features import configuration_features
from configtron.learner.logged import Logged, grid_of, logged_of, taught
from configtron.learner.policies.default import Static
from configtron.learner.saved import Recipe, recipe_of
from configtron.learner.searches import DONE
from configtron.learner.value import value
from configtron.model.errors import BadInput
from configtron.model.grid import Dead, live_grid, paper_grid
from configtron.model.nouns import Context, Decision, Outcome, Profile
from tests.support.worlds import clients, small_classes, small_tensor

TENSOR = small_tensor()


def logged(n: int, seed: int = 1) -> Logged:
    """n outcomes of clients of a small tensor, decided at random over 24 configurations."""
    contexts, condition = clients(TENSOR, n, seed)
    rng = np.random.default_rng(seed)
    configuration = rng.integers(24, size=n)
    ms = TENSOR.lookup(condition, configuration * 7, contexts.site) * np.exp(0.1 * rng.standard_normal(n))
    column = np.full(n, 1.0 / 24)
    made = Decisions(
        np.full(n, -1), rng.integers(-1, 3, size=n), configuration, np.full(n, ARM["epsilon"]), column, column * np.nan
    )
    profiles = tuple(TENSOR.grid.profiles[7 * at] for at in range(24))
    at = np.arange(n, dtype=np.int64)
    return Logged(at * 0, contexts, made, ms, at * 1_000_000, profiles, ("a", "b", "c"))


def recipe(policy: str = "mab_nc") -> Recipe:
    return Recipe(policy, TENSOR.grid, TENSOR.sites, small_classes(TENSOR), 5, 70)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["configtron", "bo_nc"])
def test_a_search_ends_where_the_logger_does_not_follow(policy: str) -> None:
    """Another's log hardly ever has what a search asks for: with patience it goes on from what was seen."""
    log = logged(4000)
    waiting, patient = recipe(policy).make(), replace(recipe(policy), patience=20).make()
    for made in (waiting, patient):
        taught(made, log)
    first = [(made.choose_many(log.contexts).arm == ARM["lhc"]).mean() for made in (waiting, patient)]
    # ConfigTron tests on a quarter of a cell's sessions, the others on all of them.
    assert first[0] > (0.2 if policy == "configtron" else 0.5) and first[1] < 0.1
    loaded = patient.cells.tally_.count.sum(axis=1) > 40  # type: ignore[attr-defined]
    assert loaded.sum() > 10 and (patient.search.searches_.phase[loaded] == DONE).all()  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mab_nc", "thompson", "default"])
def test_cuts_do_not_show(policy: str) -> None:
    log, heard = logged(400), list[int]()
    whole, parts = recipe(policy).make(), recipe(policy).make()
    one = taught(whole, log, heard.append)
    many = [taught(parts, log[at : at + 33]) for at in range(0, 400, 33)]
    assert whole.save() == parts.save()
    assert (one.configuration == np.concatenate([d.configuration for d in many])).all() and len(one) == 400
    assert heard == sorted(heard) and heard[-1] == 400, "its progress is reported"
    assert len(heard) > 1 or policy == "default"


def test_a_client_is_decided_for_before_it_is_known_and_the_loggers_choices_teach() -> None:
    """What comes later does not change what was decided before the update that takes it in."""
    log, other, made = logged(140), logged(140), recipe().make()
    one = taught(made, log).configuration
    counted = made.cells.tally_.count.sum(axis=0)  # type: ignore[attr-defined]
    assert set(np.flatnonzero(counted)) <= {7 * at for at in range(24)} and counted.sum() == 140
    other.plt_ms[70:] *= 3.0
    assert (one == taught(recipe().make(), other).configuration).all()
    other.plt_ms[:70] = other.plt_ms[:70][::-1]
    three = taught(recipe().make(), other).configuration
    assert (one[:70] == three[:70]).all() and (one[70:] != three[70:]).any()


def test_grids_of_logs() -> None:
    live = live_grid()
    assert grid_of([live.profiles[3], live.profiles[9]]).profiles == live.profiles
    few = [Profile("a", (("tcp_slow_start_after_idle", 0),)), Profile("b", (("initcwnd", 42),))]
    own = grid_of(few)
    assert [own.index(profile) for profile in few] == [1, 2] and own.default == 0 and len(own) == 3
    assert len(paper_grid()) == 768
    with pytest.raises(BadInput, match="no knob is called 'speed'"):
        grid_of([Profile("c", (("speed", 9),))])
    with pytest.raises(BadInput, match="none of the grid's"):
        replace(logged(3), profiles=tuple(few) * 12).on(live)


def test_recipes_come_back() -> None:
    one = recipe("thompson")
    assert recipe_of(one.text()).text() == one.text() and recipe_of(one.text()).make().save() == one.make().save()
    made, again = one.make(), one.make()
    taught(made, logged(140))
    again.restore(made.save())
    assert again.save() == made.save()
    for name, why in (("optimal", "in simulation only"), ("best", "no policy is called")):
        with pytest.raises(BadInput, match=why):
            recipe(name).make()
    with pytest.raises(BadInput, match="no recipe"):
        recipe_of('{"map":[["recipe",3]]}')


def test_what_was_only_taken_for_a_choice_does_not_judge_it_twice() -> None:
    """Half of the loads were by a twin whose dead knob stands otherwise: the candidate is judged by the other half."""
    log = logged(4000)
    base = Profile("a", (("initcwnd", 30), ("tcp_autocorking", 1)))
    twin = Profile("b", (("initcwnd", 30), ("tcp_autocorking", 0)))
    which = np.arange(4000) % 2
    made = replace(log.decisions, configuration=which, propensity=np.full(4000, 0.5))
    log = replace(log, decisions=made, profiles=(base, twin), plt_ms=np.full(4000, 700.0))
    grid = live_grid().without([Dead("tcp_autocorking", "seen to do nothing")])
    assert grid.index(twin) == grid.index(base) and grid.has(base) and not grid.has(twin)
    candidate = Static(grid, np.random.default_rng(0), grid.index(base))
    found = value(candidate, log.contexts, log.judging(grid), log.plt_ms)
    assert found.ips.ms == pytest.approx(700.0, rel=0.01) and found.effective == pytest.approx(2000, rel=0.01)
    twice = value(candidate, log.contexts, log.on(grid), log.plt_ms)  # IPS would be 1400 ms: no policy is judged by it
    assert twice.ips.reason == twice.dr.reason == "log:weights-above-one" and np.isnan(twice.ips.ms)


class Counted(str):
    """A class's name that counts how often it is compared."""

    asked = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.asked += 1
        return str.__eq__(self, other)


def test_classes_are_found_without_a_search() -> None:
    """As many classes as outcomes, a client each say, cost one look-up an outcome."""
    names = [Counted(f"c{at % 200}") for at in range(400)]
    log = [Outcome(Decision(Context(), name, Profile("default"), "default"), 5.0, 0) for name in names]
    Counted.asked = 0
    assert list(logged_of(log).decisions.network) == [at % 200 for at in range(400)]
    assert Counted.asked < 2000


@pytest.mark.parametrize("value", [-3, 0, float("nan"), "ten"])
def test_a_grid_of_what_a_knob_cannot_be_is_refused(value: int | float | str) -> None:
    """A database may hold what an import of today refuses: it is reported, and no number becomes none."""
    with pytest.raises(BadInput, match="initcwnd: .* is no setting"):
        grid_of([Profile("odd", (("initcwnd", value),))])


def test_knobs_without_a_logarithm_or_a_known_default() -> None:
    features, prior = configuration_features(grid_of([Profile("p", (("priority", at),)) for at in (0, 1, 6)]))
    assert np.isfinite(features).all() and len(np.unique(features, axis=0)) == 3 and (prior > 0).all()
    grid = grid_of([Profile("a", (("tls_version", "1.3"),)), Profile("b", (("tls_version", "1.2"),)), Profile("none")])
    assert [profile.settings for profile in grid.profiles] == [(("tls_version", "1.2"),), (("tls_version", "1.3"),)]
