# SPDX-License-Identifier: MIT
"""Features enter classes where they decide page load times, and not by chance; unknown features keep no client out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.classes import axes_of, fit, points_of
from configtron.learner.columns import Decisions, conditions_of
from configtron.learner.export import export
from configtron.learner.initial_classes import beginning, tally_of
from configtron.learner.logged import Logged
from configtron.learner.outcome_columns import joined, no_outcomes
from configtron.learner.relevance import relevance
from configtron.model.nearest import nearest, point
from configtron.model.tensor import Tensor
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import best_ms
from configtron.studies.sim.sessions import drawn
from configtron.studies.sim.world import seeing, world
from tests.support.worlds import small_tensor

PLAIN = small_tensor()
H2 = np.array([dict(one.settings)["http_version"] == "h2" for one in PLAIN.grid.profiles])


def twins() -> Tensor:
    """Each condition twice, equal in bandwidth, round trip and loss: where losses come one by one HTTP/2 is slower,
    where they come in runs HTTP/1.1 is. `ack_gap_ms` says nothing."""
    ms = np.concatenate((PLAIN.median_ms, PLAIN.median_ms))
    n = len(PLAIN.names)
    ms[:n, H2] *= 1.4
    ms[n:, ~H2] *= 1.4
    columns = (np.tile(column, 2) for column in (PLAIN.bandwidth_kbps, PLAIN.rtt_ms, PLAIN.loss))
    known = {"loss_run": np.repeat([1.0, 8.0], n), "ack_gap_ms": np.full(2 * n, 5.0)}
    names = tuple(f"{name} {run}" for run in (1, 8) for name in PLAIN.names)
    return Tensor(PLAIN.grid, PLAIN.sites, names, *columns, ms, "analytic", characteristics=known)


def log(seed: int, n: int = 4000, effect: float = 0.0, of: str = "level") -> Logged:
    """Loads of 400 clients under eight configurations; every client has an asn, a region, a queue of no meaning, and a
    window that, with an effect, costs that much in ln(ms), on all configurations or on some."""
    rng = np.random.default_rng(seed)
    sessions = drawn(PLAIN, n, rng)
    client = sessions.seen.prefix % 400
    configuration = rng.integers(8, size=n)
    window = np.exp(rng.normal(13.0, 1.0, 400))[client]
    high = np.where(window > np.exp(13.0), 1.0, -1.0)
    high *= 1.0 if of == "level" else np.where(configuration % 2, 1.0, -1.0)
    ms = PLAIN.lookup(sessions.condition, configuration, sessions.seen.site)
    ms = ms * np.exp(rng.normal(0.0, 0.25, n) + 0.5 * effect * high)
    asn, region = rng.integers(30, size=400)[client], rng.integers(5, size=400)[client]
    names = {
        "asn": (asn, tuple(str(64500 + at) for at in range(30))), "region": (region, ("NL", "SE", "KE", "IN", "BR")),
    }  # fmt: skip
    numbers = {"window_bytes": window, "queue_ms": np.exp(rng.normal(4.0, 1.0, 400))[client]}
    seen = replace(sessions.seen, prefix=client, numbers=numbers, names=names)
    none = np.zeros(n, dtype=np.int64)
    made = Decisions(none - 1, none - 1, configuration, none, np.full(n, 0.125), np.full(n, np.nan))
    return Logged(none, seen, made, ms, none, PLAIN.grid.profiles, ())


def asked(one: Logged) -> dict[str, bool]:
    found = relevance(
        one.contexts, one.decisions.configuration, np.log(one.plt_ms), PLAIN.grid, np.random.default_rng(5)
    )
    return {row.name: row.entered for row in found.asked}


@pytest.mark.slow
def test_what_decides_nothing_does_not_enter() -> None:
    """Of twenty logs in which four features mean nothing, one has a feature enter at 5 %; four would be 1 in 60."""
    assert sum(any(asked(log(seed)).values()) for seed in range(20)) <= 3


@pytest.mark.parametrize("of", ["level", "wants"])
def test_what_decides_enters_alone(of: str) -> None:
    assert asked(log(3, effect=0.4, of=of)) == {
        "window_bytes": True, "queue_ms": False, "asn": False, "region": False,
    }  # fmt: skip


def test_a_category_that_decides_is_a_coordinate_and_an_agent_finds_the_same_class() -> None:
    one = log(4)
    codes, words = one.contexts.named("region")
    ms = one.plt_ms * np.exp(np.where(codes == words.index("KE"), 0.8, 0.0))
    start = beginning(replace(one, plt_ms=ms), 8, np.random.default_rng(1), grid=PLAIN.grid)
    ((name, values), *_) = start.classes.axes
    assert name == "region" and max(values, key=lambda value: value[1])[0] == "KE"
    network = start.classes.of(one.contexts)
    for at in range(0, 400, 7):
        found = nearest(start.classes.nouns(), one.contexts.row(at))
        assert found is not None and found.id == start.classes.ids[network[at]]
    stranger = replace(one.contexts.row(0), region="ZZ")
    assert np.isnan(point(stranger, start.classes.axes)[3])  # type: ignore[index]
    assert nearest(start.classes.nouns(), stranger) is not None


@pytest.mark.slow
def test_a_log_without_features_begins_as_ever() -> None:
    one = log(2)
    bare = replace(one, contexts=replace(one.contexts, numbers={}, names={}))
    with_grid, without = (beginning(bare, 8, np.random.default_rng(3), grid=grid) for grid in (PLAIN.grid, None))
    assert with_grid.classes.axes == () and (with_grid.classes.centroid == without.classes.centroid).all()
    few = beginning(log(3, effect=0.4), 8, np.random.default_rng(3), grid=PLAIN.grid, features="few")
    assert few.classes.axes == () and few.classes.centroid.shape == (8, 3)


def test_an_unknown_feature_counts_for_no_class_and_against_none() -> None:
    tensor = twins()
    axes = axes_of(tensor)
    assert axes == (("loss_run", ()),)  # the other is the same for all
    classes = fit(points_of(conditions_of(tensor), axes), 12, np.random.default_rng(1), axes)
    contexts = conditions_of(tensor)
    bare = replace(contexts, numbers={})
    assert (classes.of(bare) >= 0).all()
    few, many = classes.of(contexts[:40]), classes.of(contexts[np.tile(np.arange(len(contexts)), 3)])[:40]
    assert (few == many).all()  # by both ways of counting
    some = np.where(np.arange(len(contexts)) % 2, np.nan, contexts.number("loss_run"))
    half = replace(contexts, numbers={"loss_run": some})
    mended = fit(points_of(half, axes), 12, np.random.default_rng(1), axes)
    assert not np.isnan(mended.centroid).any()
    assert (classes.of(replace(contexts, loss=np.full(len(contexts), np.nan))) == -1).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thompson", "mab_nc"])
def test_a_feature_that_half_of_the_conditions_lack_keeps_no_policy_from_learning(name: str) -> None:
    """As runs of losses where nothing is lost: outcomes of such clients count, and every rule can be written."""
    tensor = twins()
    some = np.where(np.arange(len(tensor.names)) % 2, np.nan, tensor.characteristics["loss_run"])
    here = world(replace(tensor, characteristics={"loss_run": some}), 2000, 1)
    policy = here.policy(name)
    Replay(here.sessions, tensor, [policy], here.noise(), interval_s=50.0).run()
    tally = policy.cells.tally_  # type: ignore[attr-defined]
    assert not np.isnan(tally.total).any() and tally.count.sum() > 1000
    assert len(export(policy, here.sessions.seen).rules) and (policy.where(here.sessions.seen)[0] >= 0).all()


def test_sessions_carry_features_a_little_off_and_their_tensor_alone_changes_nothing_else() -> None:
    tensor = twins()
    few = drawn(seeing(tensor, ()), 500, np.random.default_rng(3))
    many = drawn(tensor, 500, np.random.default_rng(3))
    assert (few.seen.rtt_ms == many.seen.rtt_ms).all() and (few.condition == many.condition).all()
    off = np.log(many.seen.number("loss_run") / tensor.characteristics["loss_run"][many.condition])
    assert 0.15 < off.std() < 0.25
    true = many.truth(tensor, slice(0, 9)).number("loss_run")
    assert (true == tensor.characteristics["loss_run"][many.condition[:9]]).all()


def test_optimal_knows_twins_apart() -> None:
    tensor = twins()
    here = world(tensor, 300, 1)
    replay = Replay(here.sessions, tensor, [here.policy("optimal")], here.noise(), interval_s=50.0)
    replay.run()
    still = np.isinf(here.sessions.change_s)
    assert np.allclose(replay.median_ms_[still], best_ms(replay, slice(0, 300))[still])


def test_sums_start_from_nothing_whatever_the_coordinates() -> None:
    one = log(1, 100, effect=2.0)
    axes = (("window_bytes", ()),)
    classes = fit(points_of(one.contexts, axes), 3, np.random.default_rng(1), axes)
    assert tally_of(one, classes, PLAIN.grid).count.sum() == 100
    assert len(joined([no_outcomes(), no_outcomes()])) == 0
