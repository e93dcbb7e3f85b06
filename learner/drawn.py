# SPDX-License-Identifier: MIT
"""Draws of a posterior: the fastest configuration of each, and their excess over Default. Arrays are ln(ms)."""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats


def fastest_of(drawn: Floats, default: int) -> Codes:
    """Return (rows, draws) the fastest of each draw (draws, rows, candidates); Default where nothing is left."""
    best = drawn.argmin(axis=2)
    nothing = np.isinf(np.take_along_axis(drawn, best[:, :, None], axis=2)[:, :, 0])
    found: Codes = np.where(nothing, default, best).T
    return found


def excess_at_full_width(drawn: Floats, mean: Floats, boldness: float, default: int, picks: Codes) -> Floats:
    """Return (draws, rows) the excess of picks (rows,) over Default in each draw (draws, rows, candidates).

    The posterior's own deviations count, in place of those times `boldness`; mean (rows, candidates).
    """
    rows = np.arange(len(picks))
    usual = mean[rows, picks] - mean[:, default]
    found: Floats = (drawn[:, rows, picks] - drawn[:, :, default] - usual) / max(boldness, 1e-9) + usual
    return found
