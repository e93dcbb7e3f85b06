# SPDX-License-Identifier: MIT
"""Draws of a posterior: the fastest configuration of each that may be served, and its excess over Default.

Arrays are ln(ms); draws are by row: (rows, draws, candidates).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.driver_support import Mask

# Rows that are judged at a time: their draws stay within a core's cache.
ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class DrawLimits:
    """What draws may choose, beside Default; masks are (rows, candidates).

    out            what no draw may choose: dropped, or never loaded
    unloaded       (candidates,) what no guarded draw may choose either
    may            what a bound on damage lets rows have; None: anything
    guard_ln, guard_sigmas, boldness   as in `thompson.ThompsonOptions`
    default        its position among the candidates
    """

    out: Mask
    unloaded: Mask
    may: Mask | None
    guard_ln: float | None
    guard_sigmas: float
    boldness: float
    default: int

    def guarded(self, drawn: Floats, mean: Floats, unguarded: int) -> Codes:
        """Return (rows, draws) the fastest of each draw after the first `unguarded` that passes the guardrail, which
        judges by all of them."""
        return np.concatenate([
            self._fastest(drawn[rows, unguarded:], mean[rows], self._barred(drawn[rows], mean[rows], rows), rows)
            for rows in blocks(len(drawn))
        ])  # fmt: skip

    def free(self, drawn: Floats, mean: Floats, near: Mask | None = None) -> Codes:
        """Return (rows, draws) the fastest of each draw without a guardrail; near (candidates,): only of those."""
        return np.concatenate([
            self._fastest(drawn[rows], mean[rows], self.out[rows], rows, near) for rows in blocks(len(drawn))
        ])  # fmt: skip

    def _barred(self, drawn: Floats, mean: Floats, rows: slice) -> Mask:
        """Return (rows, candidates) what no guarded draw may choose."""
        out = self.out[rows] | self.unloaded
        if self.guard_ln is None:
            return out
        excess = drawn - drawn[:, :, self.default, None]
        excess -= excess.mean(axis=1, keepdims=True)
        variance = np.einsum("rdc,rdc->rc", excess, excess) / drawn.shape[1]
        deviation = np.sqrt(variance) / max(self.boldness, 1e-9)
        over = mean - mean[:, self.default, None] + self.guard_sigmas * deviation
        risky = ~(over <= self.guard_ln)
        risky[:, self.default] = False
        found: Mask = out | risky
        return found

    def _fastest(self, drawn: Floats, mean: Floats, out: Mask, rows: slice, near: Mask | None = None) -> Codes:
        # Faster than a choice by mask: infinity is what no draw takes.
        served = drawn + np.where(out, np.inf, 0.0)[:, None]
        if self.may is not None:
            served = within_bound(served, mean, self.may[rows])
        if near is not None:
            served[:, :, ~near] = np.inf
        best = served.argmin(axis=2)
        lowest = served.reshape(-1, served.shape[2])[np.arange(best.size), best.ravel()].reshape(best.shape)
        return np.where(np.isinf(lowest), self.default, best)


def within_bound(drawn: Floats, mean: Floats, may: Mask) -> Floats:
    """Return draws in which configurations that may not be served are at infinity, in place.

    Where that leaves nothing of a draw, since a guardrail passes nothing else, the draw is replaced by the posterior
    mean (rows, candidates) of the allowed ones.
    """
    np.copyto(drawn, np.inf, where=~may[:, None])
    stuck = np.isinf(drawn).all(axis=2)
    drawn[stuck] = np.broadcast_to(np.where(may, mean, np.inf)[:, None], drawn.shape)[stuck]
    return drawn


def excess_at_full_width(drawn: Floats, mean: Floats, boldness: float, default: int, row: Codes, pick: Codes) -> Floats:
    """Return (draws, m) the excess over Default, in each draw, of m pairs of row and pick, (m,) each.

    The posterior's own deviations count, in place of those times `boldness`; mean (rows, candidates).
    """
    usual = mean[row, pick] - mean[row, default]
    over = drawn[row, :, pick] - drawn[row, :, default] - usual[:, None]
    found: Floats = (over / max(boldness, 1e-9) + usual[:, None]).T
    return found


def blocks(rows: int) -> Iterator[slice]:
    """Return slices of so many rows, a few rows each; one slice of none where there is none."""
    return (slice(at, at + ROWS_AT_ONCE) for at in range(0, max(rows, 1), ROWS_AT_ONCE))
