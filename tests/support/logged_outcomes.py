# SPDX-License-Identifier: MIT
"""A log's columns as `Outcome` objects, for comparison with what was written."""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import ARMS
from configtron.learner.logged import Logged
from configtron.model.nouns import Decision, Outcome


def outcomes_of(logged: Logged, source: str) -> list[Outcome]:
    """Return the same as `Outcome` objects, one by one; a value that a column lacks is None."""
    return [_outcome(logged, at, source) for at in range(len(logged))]


def _outcome(logged: Logged, at: int, source: str) -> Outcome:
    d = logged.decisions
    expected, propensity = float(d.expected_ms[at]), float(d.propensity[at])
    decision = Decision(
        logged.contexts.row(at),
        logged.class_ids[d.network[at]] if d.network[at] >= 0 else "",
        logged.profiles[d.configuration[at]],
        ARMS[d.arm[at]],
        None if np.isnan(expected) else expected,
        None if np.isnan(propensity) else propensity,
    )
    return Outcome(decision, float(logged.plt_ms[at]), int(logged.measured_at[at]), source)
