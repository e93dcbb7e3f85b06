# SPDX-License-Identifier: MIT
"""DAgger: the learner drives, the expert labels, and the network learns all that was ever driven.

Question   How does a policy learn to act well in the states that its own mistakes lead to?
Method     The first round's flows are driven by the expert, all later ones by the network. What the expert would have
           done in each state is known from the window and the link's best one. After each round the network takes
           `UPDATES` steps of Adam; each on a batch of sequences, half of them of the newest round and half of all.
Reads as   `Driven`: a flow's states, the link, its best window; how often its actions were the expert's, and how far
           its window is from the best one.
Fails as   a flow without a step, which teaches nothing: it is left out.
Differs    from Indigo: as many updates each round, instead of passes over all until the loss no longer falls.
Source     Ross and others, AISTATS 2011; Yan and others, USENIX ATC 2018, section 4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from configtron.lab.schemes.indigo_network import Floats, IndigoWeights, network_inputs
from configtron.studies.indigo.adam import AdamState, adam_step
from configtron.studies.indigo.lstm_gradient import SequenceBatch, gradient
from configtron.studies.indigo.window_expert import expert_actions

# Columns of a step.
WINDOW, LAST_ACTION = 3, 4
# Of a round: how often the weights change, and from how many sequences each time.
UPDATES, SEQUENCES = 40, 32
# Indigo's rate at the beginning; it falls, so that the last rounds refine.
FIRST_RATE, LAST_RATE = 0.01, 0.001


class Driven(NamedTuple):
    """A flow on a link: its steps, a row a `StepState`."""

    link: str
    best: float
    steps: NDArray[np.float32]

    @property
    def agreement(self) -> float:
        """Share of the flow's actions that are the expert's; the last one's is not known."""
        wanted = expert_actions(self.steps[:-1, WINDOW], self.best)
        return float((wanted == self.steps[1:, LAST_ACTION]).mean())

    @property
    def distance(self) -> float:
        """How far the window is from the best one in the flow's second half: mean of |log2(window / best)|."""
        later = self.steps[len(self.steps) // 2 :, WINDOW]
        return float(np.abs(np.log2(later / self.best)).mean())


class Learned(NamedTuple):
    """What training has come to."""

    weights: IndigoWeights
    adam: AdamState
    loss: float = float("nan")


def rate_of(round_number: int, rounds: int) -> float:
    """Return Adam's rate in a round: a geometric fall over all rounds."""
    return float(FIRST_RATE * (LAST_RATE / FIRST_RATE) ** (round_number / max(1, rounds - 1)))


def batch_of(flows: Sequence[Driven]) -> SequenceBatch:
    """Return flows as one batch, with the expert's actions; shorter ones end in steps that do not count."""
    longest = max(len(flow.steps) for flow in flows)
    steps = np.ones((longest, len(flows), flows[0].steps.shape[1]), np.float32)
    actions, counts = np.zeros(steps.shape[:2], np.int64), np.zeros(steps.shape[:2], bool)
    for at, flow in enumerate(flows):
        there = len(flow.steps)
        steps[:there, at], counts[:there, at] = flow.steps, True
        actions[:there, at] = expert_actions(flow.steps[:, WINDOW], flow.best)
    return SequenceBatch(network_inputs(steps), actions, counts)


def taught(
    learned: Learned, newest: Sequence[Driven], earlier: Sequence[Driven], rate: float, rng: np.random.Generator
) -> Learned:
    """Return what a round's updates make of the weights."""
    weights, adam, losses = learned.weights, learned.adam, []
    newest, earlier = ([flow for flow in flows if len(flow.steps) > 1] for flows in (newest, earlier))
    for _ in range(UPDATES):
        found = gradient(weights, batch_of([*_drawn(newest, rng), *_drawn(earlier, rng)]))
        weights, adam = adam_step(weights, found.parts, adam, rate)
        losses.append(found.loss)
    return Learned(weights, adam, float(np.mean(losses)))


def _drawn(flows: Sequence[Driven], rng: np.random.Generator) -> list[Driven]:
    """Return half a batch of these flows, each at most once."""
    return [flows[at] for at in rng.permutation(len(flows))[: SEQUENCES // 2]]


def mean_of(values: Floats | Sequence[float]) -> float:
    """Return the mean; NaN of nothing."""
    return float(np.mean(values)) if len(values) else float("nan")
