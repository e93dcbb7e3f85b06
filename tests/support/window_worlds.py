# SPDX-License-Identifier: MIT
"""Connections whose paths' windows are known: log-normal by network and prefix, seen up to where their sizes end."""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.initial.end_states import EndStates, of_rows

# Standard deviations of ln(window): networks, prefixes, connections.
NETWORK, PREFIX, NOISE, LEVEL = 0.8, 0.4, 0.2, 4.0


def world(count: int, seed: int, networks: int = 12, prefixes: int = 8) -> tuple[EndStates, Floats]:
    """Connections that see their path's window, or less where they end before: rows, and the true windows."""
    rng = np.random.default_rng(seed)
    paths = (
        LEVEL + NETWORK * rng.standard_normal(networks)[:, None] + PREFIX * rng.standard_normal((networks, prefixes))
    )
    which = rng.integers(networks, size=count), rng.integers(prefixes, size=count)
    true = np.exp(paths[which] + NOISE * rng.standard_normal(count))
    # what the transfer's size lets a window grow to
    most = np.exp(3.6 + 0.8 * rng.standard_normal(count))
    rows = [
        {"prefix": f"10.{a}.{b}.0/24", "at_s": 1.7e9 + 777.0 * at, "max_cwnd": float(min(true[at], most[at])),
         "bound": bool(most[at] < true[at])}
        for at, (a, b) in enumerate(zip(*which, strict=True))
    ]  # fmt: skip
    return of_rows(rows), true
