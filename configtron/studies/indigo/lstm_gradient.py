# SPDX-License-Identifier: MIT
"""The gradient of Indigo's network over whole sequences of steps, by back-propagation through time.

Question   How must each of the 5 541 parameters change for the network to choose as the expert does?
Method     Forward over all sequences of a batch at once, step by step; the loss is the mean cross-entropy over the
           steps that count, and half of `DECAY` times the squares of the parameters that are no bias. Backward from the
           last step to the first. Products that do not depend on the step before are made for all steps in one.
Reads as   `Gradient`: the loss without the squares, the derivatives, the share of steps with the expert's action.
Source     Hochreiter and Schmidhuber 1997; Gers and others 2000 (forget gate); Werbos 1990
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from configtron.lab.schemes.indigo_network import INPUTS, UNITS, Floats, IndigoWeights, gates, sigmoid

# As in Indigo's published training.
DECAY = 1e-4
ACTION_COUNT = 5


class SequenceBatch(NamedTuple):
    """inputs: steps x sequences x `INPUTS`; actions: the expert's, steps x sequences; counts: which steps there are."""

    inputs: Floats
    actions: NDArray[np.int64]
    counts: NDArray[np.bool_]


class Gradient(NamedTuple):
    """loss: mean cross-entropy, nats; agreement: share of steps; parts: as the weights."""

    loss: float
    agreement: float
    parts: IndigoWeights


class _Passed(NamedTuple):
    """What a forward pass leaves behind: by step, sequence and unit; memories and outputs begin with those before."""

    sums: Floats
    memories: Floats
    outputs: Floats


def drawn_weights(rng: np.random.Generator, dtype: type = np.float32) -> IndigoWeights:
    """Return weights to begin with: Glorot's uniform ones, and no bias."""

    def matrix(rows: int, columns: int) -> Floats:
        most = np.sqrt(6 / (rows + columns))
        return rng.uniform(-most, most, (rows, columns)).astype(dtype)

    layer = matrix(INPUTS + UNITS, 4 * UNITS)
    return IndigoWeights(
        layer[:INPUTS], layer[INPUTS:], np.zeros(4 * UNITS, dtype), matrix(UNITS, ACTION_COUNT),
        np.zeros(ACTION_COUNT, dtype),
    )  # fmt: skip


def scores(weights: IndigoWeights, inputs: Floats) -> Floats:
    """Return the linear layer's answers: steps x sequences x actions."""
    return _readout(weights, _forward(weights, inputs))


def objective(weights: IndigoWeights, batch: SequenceBatch) -> float:
    """Return what the gradient is of."""
    squares = sum(float((part**2).sum()) for part in _decayed(weights))
    chances = _softmax(scores(weights, batch.inputs))
    return _cross_entropy(chances, batch) + DECAY / 2 * squares


def gradient(weights: IndigoWeights, batch: SequenceBatch) -> Gradient:
    """Return loss and derivatives."""
    passed = _forward(weights, batch.inputs)
    chances = _softmax(_readout(weights, passed))
    agreement = float((chances.argmax(-1) == batch.actions)[batch.counts].mean())
    loss = _cross_entropy(chances, batch)
    errors = chances
    np.put_along_axis(errors, batch.actions[..., None], _chosen(errors, batch) - 1, -1)
    errors *= (batch.counts / batch.counts.sum())[..., None].astype(errors.dtype)
    sums = _backward(weights, passed, errors)
    flat = sums.reshape(-1, 4 * UNITS)
    found = IndigoWeights(
        batch.inputs.reshape(-1, INPUTS).T @ flat,
        passed.outputs[:-1].reshape(-1, UNITS).T @ flat,
        flat.sum(0),
        passed.outputs[1:].reshape(-1, UNITS).T @ errors.reshape(-1, ACTION_COUNT),
        errors.sum((0, 1)),
    )
    for part, own in zip(_decayed(found), _decayed(weights), strict=True):
        part += DECAY * own
    return Gradient(loss, agreement, found)


def _decayed(weights: IndigoWeights) -> tuple[Floats, ...]:
    return weights.inputs, weights.hidden, weights.readout


def _forward(weights: IndigoWeights, inputs: Floats) -> _Passed:
    steps, count, _ = inputs.shape
    sums = (inputs.reshape(-1, INPUTS) @ weights.inputs + weights.bias).reshape(steps, count, -1)
    memories = np.zeros((steps + 1, count, UNITS), inputs.dtype)
    outputs = np.zeros_like(memories)
    for at in range(steps):
        sums[at] += outputs[at] @ weights.hidden
        memories[at + 1], outputs[at + 1] = gates(sums[at], memories[at])
    return _Passed(sums, memories, outputs)


def _readout(weights: IndigoWeights, passed: _Passed) -> Floats:
    return passed.outputs[1:] @ weights.readout + weights.readout_bias


def _softmax(answers: Floats) -> Floats:
    raised = np.exp(answers - answers.max(-1, keepdims=True))
    found: Floats = raised / raised.sum(-1, keepdims=True)
    return found


def _chosen(chances: Floats, batch: SequenceBatch) -> Floats:
    return np.take_along_axis(chances, batch.actions[..., None], -1)


def _cross_entropy(chances: Floats, batch: SequenceBatch) -> float:
    least = np.finfo(chances.dtype).tiny
    return float(-np.log(np.maximum(_chosen(chances, batch)[..., 0], least))[batch.counts].mean(dtype=np.float64))


def _backward(weights: IndigoWeights, passed: _Passed, errors: Floats) -> Floats:
    """Return the derivatives by the gates' sums. What no later step changes is made for all steps before the loop."""
    of_input, candidate, forget, output = np.split(passed.sums, 4, -1)
    of_input, candidate, forget, output = sigmoid(of_input), np.tanh(candidate), sigmoid(forget + 1), sigmoid(output)
    shown = np.tanh(passed.memories[1:])
    to_memory, to_output = output * (1 - shown * shown), shown * output * (1 - output)
    to_gates = np.concatenate([
        candidate * of_input * (1 - of_input), of_input * (1 - candidate * candidate),
        passed.memories[:-1] * forget * (1 - forget),
    ], -1).reshape(*of_input.shape[:2], 3, UNITS)  # fmt: skip
    given, back = errors @ weights.readout.T, np.ascontiguousarray(weights.hidden.T)
    found = np.empty_like(passed.sums).reshape(*of_input.shape[:2], 4, UNITS)
    by_output, by_memory = np.zeros_like(given[0]), np.zeros_like(given[0])
    for at in reversed(range(len(found))):
        by_output = by_output + given[at]
        by_memory = by_memory + by_output * to_memory[at]
        np.multiply(by_memory[:, None], to_gates[at], out=found[at, :, :3])
        np.multiply(by_output, to_output[at], out=found[at, :, 3])
        by_memory = by_memory * forget[at]
        by_output = found[at].reshape(len(by_memory), -1) @ back
    return found.reshape(passed.sums.shape)
