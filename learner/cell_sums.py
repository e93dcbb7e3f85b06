# SPDX-License-Identifier: MIT
"""What the loads of each cell say of its effects, other cells apart: the sums that the linear model is made of.

The terms are those of `linear.py`. A cell's level and its own effects are integrated out: what remains is a precision
of the effects that it shares with its class and with all cells, and a regression by which its own come back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.posterior_draws import blocks

# Precision of a cell's level: e-folds of freedom, so that a cell with one load is not taken to know its level.
LEVEL_PRECISION = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """Sums of each cell alone, (cells, ...), in which no other cell's loads matter.

    weight, mean_ln (., configurations): the loads that they are of; of_cell (f, f): covariance of cells' own effects;
    precision (., f, f), shift (., f): of T g(cell) + u(class), the cell's level and own effects integrated out;
    centre (., f), carry (., f, f): its own effects and those above it are centre + (those above) carry, on average;
    factor (., f, f): lower Cholesky factor of their covariance;
    total, weighted_ln (.): precision of the level, weighted sum of its loads; of_features (., f): weighted features.
    """

    weight: Floats
    mean_ln: Floats
    of_cell: Floats
    precision: Floats
    shift: Floats
    centre: Floats
    carry: Floats
    factor: Floats
    total: Floats
    weighted_ln: Floats
    of_features: Floats


def cell_sums(weight: Floats, mean_ln: Floats, features: Floats, of_cell: Floats) -> CellSums:
    """Return the sums of each cell. weight, mean_ln (cells, configurations); features (configurations, f); of_cell
    (f, f): covariance of cells' own effects."""
    cells, f = len(weight), features.shape[1]
    sums = CellSums(
        weight,
        mean_ln,
        of_cell,
        precision=np.zeros((cells, f, f)),
        shift=np.zeros((cells, f)),
        centre=np.zeros((cells, f)),
        carry=np.zeros((cells, f, f)),
        factor=np.zeros((cells, f, f)),
        total=np.zeros(cells),
        weighted_ln=np.zeros(cells),
        of_features=np.zeros((cells, f)),
    )
    _fill(sums, np.arange(cells), features)
    return sums


def renewed(before: CellSums, weight: Floats, mean_ln: Floats, features: Floats) -> CellSums:
    """Return the sums of these loads, bit for bit as `cell_sums` does; only those of cells whose loads are others than
    before are computed. The arrays of `before` are changed in place: it is of no use afterwards."""
    changed = ((weight != before.weight) | (mean_ln != before.mean_ln)).any(axis=1)
    sums = replace(before, weight=weight, mean_ln=mean_ln)
    _fill(sums, np.flatnonzero(changed), features)
    return sums


def _fill(sums: CellSums, cells: Codes, features: Floats) -> None:
    """Compute the sums of these cells from their loads, in place. features (configurations, f).

    Each cell by products of its own, whatever others are computed with it: one product of several cells may round
    otherwise for each number of them, and a policy that was restored computes all.
    """
    by_feature, inverse = np.ascontiguousarray(features.T), np.asarray(np.linalg.inv(sums.of_cell), dtype=np.float64)
    for part in blocks(len(cells)):
        _fill_block(sums, cells[part], by_feature, inverse)


def _fill_block(sums: CellSums, rows: Codes, features: Floats, inverse: Floats) -> None:
    """Compute the sums of these cells from their loads, in place. features (f, configurations); inverse (f, f): of the
    covariance of cells' own effects."""
    weight, mean_ln = sums.weight[rows], sums.mean_ln[rows]
    weighted = features * weight[:, None]
    s, weighted_ln, total = weighted.sum(axis=2), (weight * mean_ln).sum(axis=1), weight.sum(axis=1) + LEVEL_PRECISION
    precision = weighted @ features.T - s[:, :, None] * (s / total[:, None])[:, None]
    shift = (weighted @ mean_ln[:, :, None])[:, :, 0] - (weighted_ln / total)[:, None] * s
    root = inverse_factors(precision + inverse)
    own = root.transpose(0, 2, 1) @ root
    back = own @ inverse
    # Of the precision P and the inverse I of own effects' covariance: P - P (P + I)^-1 P = P (P + I)^-1 I.
    sums.precision[rows] = precision @ back
    sums.carry[rows] = back.transpose(0, 2, 1)
    sums.shift[rows] = (shift[:, None] @ back)[:, 0]
    sums.centre[rows], sums.factor[rows] = (own @ shift[:, :, None])[:, :, 0], np.linalg.cholesky(own)
    sums.total[rows], sums.weighted_ln[rows], sums.of_features[rows] = total, weighted_ln, s


def inverse_factors(matrices: Floats) -> Floats:
    """Return (n, f, f) the inverse X of each symmetric matrix's lower Cholesky factor: X'X is the matrix's inverse."""
    from scipy.linalg.lapack import dtrtri

    found: Floats = np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)
    for one in found:
        one[...] = dtrtri(one.T, lower=0)[0].T
    return found
