# SPDX-License-Identifier: MIT
"""The gradient of Indigo's network against finite differences, and the network of a flow against that of a batch."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from configtron.lab.schemes.indigo_network import (
    ACTIONS,
    INPUTS,
    IndigoWeights,
    LearnedAction,
    StepState,
    network_inputs,
)
from configtron.studies.indigo.adam import AdamState, adam_step
from configtron.studies.indigo.lstm_gradient import SequenceBatch, drawn_weights, gradient, objective, scores

# Of a central difference; its error is of the order of the step's square.
STEP = 1e-5


def weights_of(seed: int) -> IndigoWeights:
    """Weights of which none is zero."""
    rng = np.random.default_rng(seed)
    drawn = drawn_weights(rng, np.float64)
    return IndigoWeights(*(part + rng.normal(0, 0.2, part.shape) for part in drawn))


def batch_of(seed: int, steps: int = 5, count: int = 3) -> SequenceBatch:
    rng = np.random.default_rng(seed)
    counts = np.ones((steps, count), bool)
    counts[steps - 2 :, 0] = False
    return SequenceBatch(rng.normal(size=(steps, count, INPUTS)), rng.integers(0, len(ACTIONS), (steps, count)), counts)


def difference(weights: IndigoWeights, batch: SequenceBatch, part: int, at: tuple[int, ...]) -> float:
    values = []
    for sign in (1, -1):
        moved = [one.copy() for one in weights]
        moved[part][at] += sign * STEP
        values.append(objective(IndigoWeights(*moved), batch))
    return (values[0] - values[1]) / (2 * STEP)


def test_there_are_as_many_parameters_as_indigo_has() -> None:
    assert sum(part.size for part in weights_of(1)) == 5541


@pytest.mark.parametrize("part", range(len(IndigoWeights._fields)), ids=IndigoWeights._fields)
def test_slopes_are_differences(part: int) -> None:
    """Some of each part; all of them in the test below."""
    weights, batch = weights_of(2), batch_of(3)
    slopes, rng = gradient(weights, batch).parts[part], np.random.default_rng(part)
    for _ in range(12):
        at = tuple(int(rng.integers(size)) for size in slopes.shape)
        assert slopes[at] == pytest.approx(difference(weights, batch, part, at), rel=1e-5, abs=1e-9)


@pytest.mark.slow
def test_all_slopes_are_differences() -> None:
    weights, batch = weights_of(4), batch_of(5, steps=4, count=2)
    found = gradient(weights, batch).parts
    checked = 0
    for part, slopes in enumerate(found):
        for at in np.ndindex(*slopes.shape):
            assert slopes[at] == pytest.approx(difference(weights, batch, part, at), rel=1e-4, abs=1e-8), (part, at)
            checked += 1
    assert checked == 5541


def test_steps_that_are_not_there_count_for_nothing() -> None:
    weights, batch = weights_of(6), batch_of(7)
    other = batch._replace(actions=np.where(batch.counts, batch.actions, 0))
    assert (other.actions != batch.actions).any()
    both = [gradient(weights, one) for one in (batch, other)]
    assert both[0].loss == both[1].loss and both[0].agreement == both[1].agreement
    assert all((one == two).all() for one, two in zip(both[0].parts, both[1].parts, strict=True))


def test_a_flow_chooses_as_its_row_of_a_batch() -> None:
    """One step at a time with memory, beside whole sequences at once."""
    rng, weights = np.random.default_rng(8), weights_of(9)
    steps = np.column_stack([rng.uniform(0, 300, 40), rng.uniform(0, 100, (40, 2)), rng.uniform(2, 900, 40),
                             rng.integers(0, len(ACTIONS), 40)])  # fmt: skip
    whole = scores(weights, network_inputs(steps)[:, None])[:, 0].argmax(-1)
    choose = LearnedAction(weights)
    found = [choose(StepState(*row[:4].tolist(), int(row[4]))) for row in steps]
    assert found == whole.tolist() and len(set(found)) > 1
    again = LearnedAction(weights)
    without_memory = [LearnedAction(weights)(StepState(*row[:4].tolist(), int(row[4]))) for row in steps]
    assert without_memory != found and again(StepState(*steps[0, :4].tolist(), int(steps[0, 4]))) == found[0]


def test_inputs_distinguish_a_flow_by_its_window_and_its_last_action() -> None:
    one = network_inputs(np.array([10.0, 5.0, 5.0, 40.0, 1.0]))
    assert network_inputs(np.array([10.0, 5.0, 5.0, 80.0, 1.0]))[3] - one[3] == pytest.approx(1 / 4)
    assert one[4:].tolist() == [0, 1, 0, 0, 0] and np.isfinite(network_inputs(np.zeros(5) + [0, 0, 0, 2, 0])).all()


def test_adam_takes_the_steps_that_its_paper_has() -> None:
    """The first step is of the size of the rate, whatever the slope; a constant slope keeps it so."""
    weights = IndigoWeights(*(np.zeros_like(part) for part in weights_of(1)))
    slopes = IndigoWeights(*(np.full_like(part, 1e-4 * (-1) ** at) for at, part in enumerate(weights)))
    state = AdamState.begun(weights)
    for steps in (1, 2, 3):
        weights, state = adam_step(weights, slopes, state, 0.01)
        for at, part in enumerate(weights):
            assert part == pytest.approx(np.full_like(part, -0.01 * steps * (-1) ** at), rel=1e-3)


@pytest.mark.slow
def test_a_network_learns_what_needs_memory() -> None:
    """The action is the number that the first input had two steps before."""
    rng = np.random.default_rng(10)
    inputs = np.zeros((12, 30, INPUTS), np.float32)
    signs = rng.integers(0, 2, (12, 30))
    inputs[..., 0] = 2 * signs - 1
    actions = np.roll(signs, 2, axis=0)
    counts = np.ones((12, 30), bool)
    counts[:2] = False
    batch, weights = SequenceBatch(inputs, actions, counts), drawn_weights(rng)
    state, first = AdamState.begun(weights), gradient(weights, batch)
    for _ in range(120):
        weights, state = adam_step(weights, gradient(weights, batch).parts, state, 0.02)
    last = gradient(weights, batch)
    assert first.loss > log(2) > 0.2 > last.loss and last.agreement > 0.97 > first.agreement
