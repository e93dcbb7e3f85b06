# SPDX-License-Identifier: MIT
"""Predicted windows of paths against the world's own: pinball loss and coverage of 80 % intervals.

Question   Does it help to know which windows are lower bounds, and to pool prefixes by network, class and hour?
Method     Models learn Null's transfers; asked for is the window that the path of each later transfer holds, rate times
           round trip and buffer, which only the world knows. Losses are of ln(window), at quantiles 0.1, 0.5, 0.9.
Reads as   `QuantileRow` by model; a constant (quantiles of all windows learned) and silence (10) are beside them
Fails as   no rows of a model that cannot learn, as where no transfer met its path's limit
Differs    slow start passes a path's window by up to twice before it hears of the loss, so a window that met the limit
           is one to two times the path's: the hierarchy counts it as that, no other model does
Source     Koenker and Bassett, Regression quantiles (1978)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.initial.censored_hierarchy import OVERSHOOT, QUANTILES, WindowModel
from configtron.learner.initial.end_states import DEFAULT_WINDOW, EndStates, Flags
from configtron.learner.initial.naive_bayes import inputs_of, learned_from
from configtron.learner.initial.quantisation import MAX_CWND, target_bins
from configtron.model.errors import BadInput

SILENT, CONSTANT_QUANTILES, BAYES_BINS, AS_SEEN, CENSORED = (
    "silence", "constant", "naive Bayes", "hierarchy, bounds as windows", "hierarchy",
)  # fmt: skip


class QuantileRow(NamedTuple):
    """One model; the last two are of prefixes that were never seen, NaN where there is none."""

    model: str
    transfers: int
    loss: float
    covered: float
    unseen_loss: float
    unseen_covered: float


def quantile_rows(states: EndStates, asked: EndStates, true: Floats, unseen: Flags) -> list[QuantileRow]:
    """Return a row a model. states: learned from; asked: (n,) places and times; true: (n,) windows of their paths."""
    long = states[states.is_long]
    found = {
        SILENT: np.full((len(asked), len(QUANTILES)), float(DEFAULT_WINDOW)),
        CONSTANT_QUANTILES: np.tile(np.quantile(long.max_cwnd, QUANTILES), (len(asked), 1)),
        BAYES_BINS: _of_bins(long, asked),
    }
    for name, censored in ((AS_SEEN, False), (CENSORED, True)):
        try:
            found[name] = WindowModel(long, censored=censored, overshoot=OVERSHOOT if censored else 1.0).quantiles(
                asked
            )
        except BadInput:
            continue
    return [_row(name, quantiles, true, unseen) for name, quantiles in found.items()]


def pinball(quantiles: Floats, true: Floats, shares: Sequence[float] = QUANTILES) -> float:
    """Return the mean pinball loss of (n, shares) quantiles against (n,) true values, in whatever unit both have."""
    over = true[:, None] - quantiles
    levels = np.array(shares)
    return float(np.maximum(levels * over, (levels - 1.0) * over).mean())


def coverage(quantiles: Floats, true: Floats) -> float:
    """Return the share of true values between the first and the last quantile."""
    return float(((quantiles[:, 0] <= true) & (true <= quantiles[:, -1])).mean())


def _of_bins(long: EndStates, asked: EndStates) -> Floats:
    """Return the values of the bins in which a predicted distribution reaches each quantile."""
    model = learned_from(long, target_bins(long, MAX_CWND.name), len(MAX_CWND.values))
    reached = np.cumsum(model.predict(inputs_of(asked)), axis=1)
    return np.column_stack([MAX_CWND.of_bins((reached >= share - 1e-9).argmax(axis=1)) for share in QUANTILES])


def _row(name: str, quantiles: Floats, true: Floats, unseen: Flags) -> QuantileRow:
    logs, logs_true, of_unseen = np.log(quantiles), np.log(true), (float("nan"), float("nan"))
    if unseen.any():
        of_unseen = pinball(logs[unseen], logs_true[unseen]), coverage(quantiles[unseen], true[unseen])
    return QuantileRow(name, len(true), pinball(logs, logs_true), coverage(quantiles, true), *of_unseen)
