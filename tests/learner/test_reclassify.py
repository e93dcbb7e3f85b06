# SPDX-License-Identifier: MIT
"""A client that changes network comes to its new class within a few samples, and that is counted."""

from __future__ import annotations

import numpy as np

from configtron.learner.reclassify import Watch
from configtron.model.nearest import LOSS_FLOOR
from configtron.model.nouns import Context, NetworkClass

SLOW = NetworkClass("nc0", tuple(np.log([500.0, 300.0, 0.01 + LOSS_FLOOR])), (1.0, 1.0, 1.0))
FAST = NetworkClass("nc1", tuple(np.log([50000.0, 20.0, LOSS_FLOOR])), (1.0, 1.0, 1.0))


def sample(rng: np.random.Generator, fast: bool) -> Context:
    kbps, rtt, loss = (50000.0, 20.0, 0.0) if fast else (500.0, 300.0, 0.01)
    noise = np.exp(0.08 * rng.standard_normal(2))
    return Context(bandwidth_kbps=kbps * noise[0], rtt_ms=rtt * noise[1], loss=loss, prefix="192.0.2.0/24")


def test_a_new_network_is_noticed_and_its_latency_reported() -> None:
    rng, watch = np.random.default_rng(2), Watch((SLOW, FAST))
    noticed = []
    for at in range(120):
        context, moved = watch.sample(sample(rng, fast=at >= 60))
        noticed += [(at, moved)] if moved else []
        assert context.prefix == "192.0.2.0/24"
    ((at, moved),) = noticed
    assert (moved.before, moved.now) == ("nc0", "nc1") and 60 < at < 70 and abs(moved.latency - (at - 60)) <= 2


def test_it_goes_on_where_it_was_saved() -> None:
    rng, watch, other = np.random.default_rng(2), Watch((SLOW, FAST)), Watch((SLOW, FAST))
    for _ in range(30):
        watch.sample(sample(rng, fast=False))
    other.restore(watch.save())
    assert other.save() == watch.save()
    later = [sample(rng, fast=True) for _ in range(12)]
    assert [watch.sample(c) for c in later] == [other.sample(c) for c in later]


def test_incomplete_samples_pass() -> None:
    watch = Watch((SLOW, FAST))
    assert watch.sample(Context(rtt_ms=5.0, prefix="192.0.2.0/24")) == (
        Context(rtt_ms=5.0, prefix="192.0.2.0/24"),
        None,
    )
    assert not watch.clients_


def test_a_round_trip_of_nothing_is_the_least_there_is() -> None:
    watch = Watch((SLOW, FAST))
    for _ in range(5):
        settled, _ = watch.sample(Context(bandwidth_kbps=50000.0, rtt_ms=0.0, loss=0.0, prefix="192.0.2.0/24"))
    assert settled.rtt_ms == 0.0
