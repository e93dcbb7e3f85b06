# SPDX-License-Identifier: MIT
"""Indigo's network: what it reads of a flow each step, one LSTM layer, and the action that it chooses.

    weights = shipped()                       those that are part of this package (`configtron learn indigo show`)
    choose = LearnedAction(weights)           one a flow: the layer's memory begins at zero with the flow
    ACTIONS[choose(state)](window)

Units of the inputs are logarithms, so that half a window too few looks alike at 5 and at 100 Mbit/s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
# In packets.
ACTIONS: tuple[Callable[[float], float], ...] = (
    lambda window: window / 2,
    lambda window: window - 10,
    lambda window: window,
    lambda window: window + 10,
    lambda window: window * 2,
)
# The action before the first step: no change.
NO_CHANGE = 2
# Beyond one packet nothing can be sent; the other is the largest window that Indigo's inputs were scaled to.
LEAST_WINDOW, MOST_WINDOW = 2.0, 5000.0
UNITS = 32
# By gate: a sigmoid is half a tanh of half the sum; the forget gate's sum has one more (Jozefowicz and others 2015).
HALVED = np.repeat(np.array([0.5, 1.0, 0.5, 0.5], np.float32), UNITS)
FORGET_BIAS = np.repeat(np.array([0.0, 0.0, 0.5, 0.0], np.float32), UNITS)
# One of each number of a step, and the last action's place among the actions.
INPUTS = 4 + len(ACTIONS)
# Of the arrays of `IndigoWeights`, in their order.
SHAPES = ((INPUTS, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,), (UNITS, len(ACTIONS)), (len(ACTIONS),))
WEIGHTS_FILE = "indigo.npz"


class StepState(NamedTuple):
    """What a flow measured in a step: means of its acknowledgements, the window in packets, the last action."""

    queueing_ms: float
    delivery_mbit: float
    sending_mbit: float
    window: float
    last_action: int


class IndigoWeights(NamedTuple):
    """Parameters: 5 541. The layer's columns are four gates of `UNITS` each: input, candidate, forget, output."""

    inputs: Floats
    hidden: Floats
    bias: Floats
    readout: Floats
    readout_bias: Floats


def network_inputs(steps: Floats) -> Floats:
    """Return the inputs of steps: along the last axis, a `StepState` becomes `INPUTS` numbers."""
    queueing, delivery, sending, window = np.moveaxis(steps[..., :4], -1, 0)
    scaled = [np.log2(1 + queueing) / 4, _level(delivery), _level(sending), np.log2(window) / 4 - 1]
    last = steps[..., 4:5] == np.arange(len(ACTIONS))
    return np.concatenate([np.stack(scaled, -1), last], -1).astype(steps.dtype)


def _level(mbit: Floats) -> Floats:
    """Logarithm of a rate, zero at 8 Mbit/s; nothing is as a tenth of a megabit."""
    found: Floats = np.log2(np.maximum(mbit, 0.1)) / 3 - 1
    return found


def gates(sums: Floats, memory: Floats) -> tuple[Floats, Floats]:
    """Return the layer's new memory and its output, by the gates' sums."""
    opened = np.tanh(sums * HALVED + FORGET_BIAS)
    of_input, candidate, forget, output = (opened[..., at : at + UNITS] for at in range(0, 4 * UNITS, UNITS))
    memory = 0.5 * (memory * (1 + forget) + (1 + of_input) * candidate)
    return memory, 0.5 * np.tanh(memory) * (1 + output)


def sigmoid(values: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), without overflow."""
    found: Floats = 0.5 + 0.5 * np.tanh(0.5 * values)
    return found


class LearnedAction:
    """The network as one flow's chooser of actions; a call a step."""

    def __init__(self, weights: IndigoWeights) -> None:
        self._weights = weights
        self._memory = self._output = np.zeros(UNITS, weights.bias.dtype)

    def __call__(self, state: StepState) -> int:
        weights = self._weights
        inputs = network_inputs(np.array(state, weights.bias.dtype))
        sums = inputs @ weights.inputs + self._output @ weights.hidden + weights.bias
        self._memory, self._output = gates(sums, self._memory)
        return int(np.argmax(self._output @ weights.readout + weights.readout_bias))


@cache
def shipped() -> IndigoWeights:
    """Return the weights that are part of this package: how they were trained is in docs/studies.md."""
    with files("configtron.lab.schemes").joinpath(WEIGHTS_FILE).open("rb") as file, np.load(file) as stored:
        return IndigoWeights(*(stored[name].astype(np.float64) for name in IndigoWeights._fields))
