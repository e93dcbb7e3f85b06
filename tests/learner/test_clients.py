# SPDX-License-Identifier: MIT
"""Whose outcomes count: caps per prefix, prefixes unlike their class, what no network can do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.clients import (
    BELOW_ROUND_TRIP,
    CAP,
    OVER_CAP,
    UNLIKE_CLASS,
    Cap,
    Clients,
    buckets_of,
    impossible,
    no_clients,
)
from configtron.learner.columns import Contexts
from configtron.learner.policies.thompson import Thompson
from configtron.learner.saved import set_aside_in
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor

TENSOR = small_tensor(bent=0.03)
CLASSES = small_classes(TENSOR)


def made(**more: object) -> Thompson:
    setting = Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(3), 500)
    found = policy("thompson", replace(setting, **more))  # type: ignore[arg-type]
    assert isinstance(found, Thompson)
    return found


def after(rests: dict[int, list[float]], known: Clients | None = None) -> Clients:
    client = np.concatenate([np.full(len(some), at) for at, some in rests.items()])
    rest = np.concatenate([np.array(some) for some in rests.values()])
    return (known or no_clients()).plus(client, rest, 0.2, np.ones(len(client)))


def test_a_prefix_weighs_by_the_logarithm_beyond_its_cap() -> None:
    client = np.concatenate([np.zeros(5000, dtype=np.int64), np.ones(50, dtype=np.int64), [-1]])
    weight = no_clients().weights(client, np.full(len(client), 300.0), CAP)
    assert (weight[:100] == 1).all() and (weight[5000:] == 1).all() and (np.diff(weight[:5000]) <= 0).all()
    assert weight[:5000].sum() == pytest.approx(100 * (1 + np.log(50)), rel=0.01)
    large = no_clients().weights(client, np.full(len(client), 8000.0), CAP)
    assert (large[:2000] == 1).all() and large[2500] < 1, "a quarter of a large class"
    assert (no_clients().weights(client, np.full(len(client), 300.0), Cap(np.inf)) == 1).all()


def test_who_is_alone_in_a_class_is_the_class() -> None:
    known = after({0: [0.0] * 900})
    assert (known.weights(np.zeros(10, dtype=np.int64), np.full(10, 920.0), CAP) == 1).all()
    assert (known.weights(np.zeros(10, dtype=np.int64), np.full(10, 1200.0), CAP) < 1).all()


def test_order_of_arrival_counts_and_batches_do_not() -> None:
    client, of_class = np.arange(600) % 2, np.full(600, 400.0)
    whole = no_clients().weights(client, of_class, CAP)
    first = no_clients().plus(client[:123], np.zeros(123), 0.2, np.ones(123))
    assert (np.concatenate((whole[:123], first.weights(client[123:], of_class[123:], CAP))) == whole).all()


def test_a_prefix_unlike_its_class_is_out_until_its_features_agree() -> None:
    known = after({1: [1.8] * 12, 2: [0.3] * 12, 3: [1.8] * 4, 4: [6.9] + [0.0] * 11})
    assert known.is_out(np.array([1, 2, 3, 4, -1])).tolist() == [True, False, False, False, False]
    assert known.reasons() == {UNLIKE_CLASS: 1, OVER_CAP: 0}
    for _ in range(3):
        known = after({1: [0.0] * 30}, known)
    assert not known.is_out(np.array([1])).any()


def test_levels_are_taken_off_only_where_prefixes_differ_beyond_what_a_class_allows() -> None:
    rng, prefixes = np.random.default_rng(1), range(60)
    alike = after({at: list(rng.normal(rng.normal(0, 0.2), 0.2, 10)) for at in prefixes})
    unlike = after({at: list(rng.normal(1.0 if at % 2 else -1.0, 0.2, 10)) for at in prefixes})
    some = np.array([0, 1, -1])
    assert (alike.offset_ln(some, 0.2) == 0).all()
    assert unlike.offset_ln(some, 0.2) == pytest.approx([-1.0, 1.0, 0.0], abs=0.2)


def test_a_page_before_one_round_trip_is_no_page() -> None:
    contexts, condition = clients(TENSOR, 600)
    contexts = replace(contexts, numbers={"min_rtt_ms": np.where(np.arange(600) % 2, 50.0, np.nan)})
    one = made()
    chosen = one.choose_many(contexts)
    took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
    took[:20] = 3.0
    assert impossible(contexts, took).sum() == 10
    one.observe_many(contexts, chosen, took)
    assert one.model.refused_ == 10 and 480 < one.cells.tally_.count.sum() <= 490
    assert set_aside_in(one.save()) == {BELOW_ROUND_TRIP: 10}
    assert set_aside_in(policy("mab_nc", Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(1))).save()) == {}


def with_crawler(contexts: Contexts) -> tuple[Contexts, np.ndarray]:
    """A fifth of sessions is one prefix's, of one network."""
    its = np.arange(len(contexts)) % 5 == 0
    columns = {name: np.where(its, getattr(contexts, name)[0], getattr(contexts, name))
               for name in ("bandwidth_kbps", "rtt_ms", "loss")}  # fmt: skip
    prefix = np.where(its, len(contexts.prefixes), contexts.prefix)
    return replace(contexts, prefix=prefix, prefixes=(*contexts.prefixes, "crawler"), **columns), its


@pytest.mark.slow
def test_a_crawlers_loads_leave_the_class_and_it_gets_default() -> None:
    one = made()
    contexts, condition = clients(TENSOR, 4000)
    contexts, its = with_crawler(contexts)
    for at in range(0, 4000, 500):
        rows = slice(at, at + 500)
        chosen = one.choose_many(contexts[rows])
        took = TENSOR.lookup(condition[rows], chosen.configuration, contexts.site[rows])
        one.observe_many(contexts[rows], chosen, np.where(its[rows], 20.0, took))
    out = one.model.clients_.is_out(buckets_of(contexts))
    assert out[its].all() and out[~its].mean() < 0.05
    last = one.choose_many(contexts[3500:])
    assert (last.row[its[3500:]] == -1).all() and (last.configuration[its[3500:]] == TENSOR.grid.default).all()
    assert (last.network[its[3500:]] >= 0).all(), "whose class it would be stays known"
    assert set_aside_in(one.save())[UNLIKE_CLASS] >= 1
    other = made()
    other.restore(one.save())
    assert other.save() == one.save()


@pytest.mark.slow
def test_honest_prefixes_stay() -> None:
    one = made()
    lived(one, TENSOR, 6000)
    assert one.model.clients_.out.sum() <= 2 and (one.model.clients_.count > 0).sum() == 40
