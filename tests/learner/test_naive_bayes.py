# SPDX-License-Identifier: MIT
"""Naive Bayes: against Bayes' rule written out, in any batches, on places that were never seen."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from configtron.learner.columns import Codes
from configtron.learner.initial.end_states import EndStates, of_rows
from configtron.learner.initial.naive_bayes import INPUTS, NaiveBayes, inputs_of, learned_from, network_around
from configtron.learner.initial.quantisation import UNKNOWN
from configtron.learner.state import decode, encode

BINS = 4
# Prefixes of two networks, whose connections mostly end in bins 0 and 3.
PLACES = ("10.1.1.0/24", "10.1.2.0/24", "10.2.1.0/24", "10.2.2.0/24")


def world(count: int, seed: int) -> tuple[EndStates, Codes]:
    rng = np.random.default_rng(seed)
    which = rng.integers(len(PLACES), size=count)
    rows = [{"prefix": PLACES[at], "at_s": 1.7e9 + 1800.0 * n} for n, at in enumerate(which)]
    bins = np.where(rng.random(count) < 0.8, np.where(which < 2, 0, 3), rng.integers(BINS, size=count))
    return of_rows(rows), bins


def written_out(inputs: list[list[str]], bins: list[int], asked: list[str]) -> list[float]:
    """Bayes' rule over counted pairs, one factor after another, in logarithms."""
    weights = []
    for one in range(BINS):
        weight = math.log(bins.count(one) + 1 / BINS)
        for values, value in zip(inputs, asked, strict=True):
            different = {each for each in values if each}
            if value not in different:
                continue
            pairs = Counter(zip(values, bins, strict=True))
            whole = sum(number for (each, of), number in pairs.items() if each and of == one)
            weight += math.log((pairs[(value, one)] + 1 / len(different)) / (whole + 1))
        weights.append(weight)
    total = sum(math.exp(weight) for weight in weights)
    return [math.exp(weight) / total for weight in weights]


def test_probabilities_are_those_of_the_rule() -> None:
    states, bins = world(60, 1)
    inputs, asked = inputs_of(states), inputs_of(world(12, 2)[0])
    found = learned_from(states, bins, BINS).predict(asked)
    assert np.allclose(found.sum(axis=1), 1.0)
    for at in range(12):
        expected = written_out(inputs, bins.tolist(), [values[at] for values in asked])
        assert np.allclose(found[at], expected, atol=1e-12)


def test_connections_are_learned_in_any_batches() -> None:
    states, bins = world(90, 3)
    whole = learned_from(states, bins, BINS)
    parts = NaiveBayes(BINS)
    for rows in (slice(60, 90), slice(0, 1), slice(1, 60)):
        parts.observe(inputs_of(states[rows]), bins[rows])
    asked = inputs_of(states)
    assert np.allclose(whole.predict(asked), parts.predict(asked)) and whole.learned == parts.learned == 90


def test_planted_places_are_found() -> None:
    model = learned_from(*world(400, 4), BINS)
    asked, true = world(400, 5)
    hits = float((model.predict(inputs_of(asked)).argmax(axis=1) == true).mean())
    # 85 % is what knowing the world would hit, 42 % the better constant
    assert 0.78 < hits < 0.92


def test_a_prefix_never_seen_gets_its_networks_answer() -> None:
    model = learned_from(*world(400, 6), BINS)
    asked = of_rows([{"prefix": one, "at_s": 1.7e9} for one in ("10.1.9.0/24", "10.2.9.0/24")])
    assert model.predict(inputs_of(asked)).argmax(axis=1).tolist() == [0, 3]


def test_nothing_learned_is_all_alike() -> None:
    states, bins = world(5, 7)
    model = NaiveBayes(BINS)
    assert np.allclose(model.predict(inputs_of(states)), 1 / BINS)
    model.observe(inputs_of(states), np.full(5, UNKNOWN))
    assert model.learned == 0 and np.allclose(model.predict(inputs_of(states)), 1 / BINS)
    assert bins.shape == (5,)


def test_a_state_is_restored_bit_for_bit() -> None:
    states, bins = world(80, 8)
    model = learned_from(states, bins, BINS)
    again = NaiveBayes.of_state(decode(encode(model.state())))
    assert np.array_equal(model.predict(inputs_of(states)), again.predict(inputs_of(states)))
    again.observe(inputs_of(states), bins)
    assert again.learned == 160


def test_inputs_are_of_place_and_utc_time() -> None:
    """Monday, January 1, 2024, 13:30 UTC."""
    row = {"prefix": "2001:db8:77::/48", "at_s": 1_704_115_800.0, "latitude": -12.0, "longitude": 179.0}
    found = dict(zip(INPUTS, inputs_of(of_rows([row])), strict=True))
    assert found == {
        "prefix": ["2001:db8:77::/48"], "network": ["2001:db8::/32"], "latitude": ["-2"], "longitude": ["17"],
        "hour": ["13"], "day": ["0"], "month": ["0"],
    }  # fmt: skip
    assert network_around("10.1.2.0/24") == "10.1.0.0/16" and network_around("") == ""
