# SPDX-License-Identifier: MIT
"""Connections whose paths' windows are known, seen up to where their sizes end."""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.initial.end_states import EndStates, of_rows


def world(count: int, seed: int) -> tuple[EndStates, Floats]:
    """Connections of 12 networks with 8 prefixes each that see their path's window, or less where they end before:
    rows, and the true windows, log-normal by network (0.8), prefix (0.4) and connection (0.2)."""
    rng = np.random.default_rng(seed)
    paths = 4.0 + 0.8 * rng.standard_normal(12)[:, None] + 0.4 * rng.standard_normal((12, 8))
    which = rng.integers(12, size=count), rng.integers(8, size=count)
    true = np.exp(paths[which] + 0.2 * rng.standard_normal(count))
    # what the transfer's size lets a window grow to
    most = np.exp(3.6 + 0.8 * rng.standard_normal(count))
    return of_rows([
        {"prefix": f"10.{a}.{b}.0/24", "at_s": 1.7e9 + 777.0 * at, "max_cwnd": float(min(true[at], most[at])),
         "bound": bool(most[at] < true[at])}
        for at, (a, b) in enumerate(zip(*which, strict=True))
    ]), true  # fmt: skip
