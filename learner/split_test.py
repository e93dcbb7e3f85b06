# SPDX-License-Identifier: MIT
"""Whether two halves of a network class want different configurations, by the outcomes of their loads.

Question   Members of one class load alike fast on the whole; would some of them be better off with another
           configuration than the rest?
Method     Members are parted in two along each feature, and along all (Lloyd's 2-means from a cut at the mean: no
           chance in it). In ln(ms), each row's mean in each half is subtracted, so that being slower is no difference;
           then the effects of knobs' values, the same for both halves, and of where in its half a member is, by least
           squares: a logger that chose configurations by the network would confound the two. The residuals are tested
           for effects of the halves' own: a score test with the loads' own squares in place of one variance, since
           loads of rare configurations miss a sum of knobs by more than those of the usual one.
Stop when  the four partings were looked at.
Reads as   the likeliest parting, the chance of as large a difference where there is none (times the partings tried),
           and the halves' gain at their own best configurations over the best for both, ln(ms).
Fails as   None: no parting with members enough on both sides, or none that would gain anything. A log whose
           configurations were chosen by far finer networks than a half still invents some differences: place is
           corrected for by a slope and a bend, and propensities are not used.
Differs    from CT, which has no test for members that diverge. Effects are sums over knobs: two halves that differ in a
           pair of knobs only are not distinguished.
Source     White 1980 (the variance); Zeileis, Hothorn and Hornik 2008 (parting where parameters differ).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.repeated import SIGMAS_PER_MAD
from configtron.model.grid import Grid

# Lloyd's steps: two crowds are found in a handful, a cloud without any need not be parted to the last member.
STEPS = 20
# Loads further off than this, in deviations by their median, count as so far: a bad moment is no effect of a knob.
FAR_SIGMAS = 2.5
# Nothing is so quiet that a tenth in page load time is far off.
LEAST_SIGMA_LN = 0.1
# A direction that holds less than this share of the largest was not tried in both halves.
LEAST_SHARE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class ClassDifference:
    """half: (n,) 0 or 1; chance: of a difference so large between halves that do not differ; gain_ln: mean over members
    of the gain of their half's own best over the best for both."""

    half: Codes
    chance: float
    gain_ln: float


def values_of(grid: Grid) -> Floats:
    """Return (configurations, values) which of the knobs' values other than Default's each configuration has."""
    columns = [
        grid.column(knob.name) == value
        for knob in grid.knobs
        for value in np.unique(grid.column(knob.name))
        if value != grid.column(knob.name)[grid.default]
    ]
    return np.array(columns, dtype=np.float64).reshape(-1, len(grid)).T


def likeliest(
    scaled: Floats, row: Codes, configuration: Codes, log_ms: Floats, values: Floats, *, least: int, gain_ln: float
) -> ClassDifference | None:
    """Of all partings into halves of `least` members that gain `gain_ln`, the one least likely to be chance.

    scaled (n, 3) points of one class's members; row, configuration, log_ms (n,); values from `values_of`.
    """
    partings = list(_partings(scaled))
    best: ClassDifference | None = None
    for half in partings:
        if np.bincount(half, minlength=2).min() < least:
            continue
        chance, gain = difference(row, configuration, half, log_ms, values, scaled)
        if gain >= gain_ln and (best is None or chance < best.chance):
            best = ClassDifference(half, chance, gain)
    return best and ClassDifference(best.half, min(best.chance * len(partings), 1.0), best.gain_ln)


def difference(
    row: Codes, configuration: Codes, half: Codes, log_ms: Floats, values: Floats, scaled: Floats
) -> tuple[float, float]:
    """Return (chance of so large a difference if there were none, ln(ms) that own best configurations gain)."""
    from scipy.special import chdtrc

    _, group = np.unique(2 * row + half, return_inverse=True)
    shared = _apart(group.reshape(-1), np.concatenate((values[configuration], _place(scaled, half)), axis=1))
    own = _apart(group.reshape(-1), values[configuration] * half[:, None])
    y = _drawn_in(_apart(group.reshape(-1), log_ms[:, None])[:, 0], shared)
    left = y - shared @ _solved(shared, y)
    score = (own - shared @ _solved(shared, own)) * left[:, None]
    size, direction = np.linalg.eigh(score.T @ score)
    some = size > LEAST_SHARE * max(float(size.max(initial=0.0)), 1e-300)
    if not some.any():
        return 1.0, 0.0
    statistic = float(((direction[:, some].T @ score.sum(axis=0)) ** 2 / size[some]).sum())
    return float(chdtrc(int(some.sum()), statistic)), _gain(shared, own, y, values[np.unique(configuration)], half)


def _gain(shared: Floats, own: Floats, y: Floats, tried: Floats, half: Codes) -> float:
    """Return the mean gain, over members, of each half's own best tried configuration over the best one for both."""
    both, each, width = _solved(shared, y), _solved(np.concatenate((shared, own), axis=1), y), tried.shape[1]
    common = int((tried @ both[:width]).argmin())
    expected = tried @ each[:width], tried @ (each[:width] + each[-width:])
    share = float(half.mean())
    gains = [float(one[common] - one.min()) for one in expected]
    return (1.0 - share) * gains[0] + share * gains[1]


def _place(scaled: Floats, half: Codes) -> Floats:
    """Return (n, 4 x features) where members are in their half: a slope and a bend along each feature, for either
    half."""
    bent = np.concatenate((scaled, scaled**2), axis=1)
    return np.concatenate([bent * (half == side)[:, None] for side in (0, 1)], axis=1)


def _partings(scaled: Floats) -> Iterator[Codes]:
    """Yield (n,) 0 or 1 each: along every feature that differs, and along all from a cut across the widest."""
    for axis in range(scaled.shape[1]):
        yield from _lloyd(scaled[:, [axis]], scaled[:, axis])
    yield from _lloyd(scaled, scaled[:, int(scaled.var(axis=0).argmax())])


def _lloyd(points: Floats, cut: Floats) -> Iterator[Codes]:
    """Yield 2-means from a cut at the mean; nothing where all are the same."""
    half = cut > cut.mean()
    for _ in range(STEPS):
        if half.all() or not half.any():
            return
        near, far = points[~half].mean(axis=0), points[half].mean(axis=0)
        now = ((points - far) ** 2).sum(axis=1) < ((points - near) ** 2).sum(axis=1)
        if (now == half).all():
            break
        half = now
    if half.any() and not half.all():
        yield half.astype(np.int64)


def _apart(group: Codes, columns: Floats) -> Floats:
    """Return (n, m) columns less their groups' means."""
    count = np.bincount(group)
    return np.stack([x - (np.bincount(group, weights=x) / count)[group] for x in columns.T], axis=1)


def _drawn_in(y: Floats, shared: Floats) -> Floats:
    """Return y, (n,), Huber-clipped around the knobs' effects; the limit is a multiple of the residuals' MAD."""
    fitted = shared @ _solved(shared, y)
    left = y - fitted
    far = FAR_SIGMAS * max(SIGMAS_PER_MAD * float(np.median(np.abs(left))), LEAST_SIGMA_LN)
    drawn: Floats = fitted + np.clip(left, -far, far)
    return drawn


def _solved(columns: Floats, y: Floats) -> Floats:
    """Return the least squares, the shortest where several are best."""
    found: Floats = np.linalg.pinv(columns.T @ columns, rcond=1e-9, hermitian=True) @ (columns.T @ y)
    return found
