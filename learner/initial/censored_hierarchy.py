# SPDX-License-Identifier: MIT
"""What a path's window is, by prefix within network within all, from windows of which many are lower bounds.

Question   Which window would a client's path carry, and how sure is that, where most connections ended before they
           met its limit?
Method     ln(window) = level + hour + network + prefix + noise, all normal; the effects of hours, networks and prefixes
           are drawn towards 0 by how much they vary (partial pooling). A lower bound counts as a value that lies
           somewhere above it: the mean and variance of the normal distribution cut off there (Tobit). Levels,
           variances and effects are fitted by expectation and maximisation, one effect after the other.
Stop when  `ROUNDS` rounds have passed
Reads as   (n, quantiles) windows. A prefix never seen has its network's effect and a prefix's whole variance besides; a
           network never seen likewise.
Fails as   `BadInput` for no known window, or for lower bounds alone: these have no upper end
Differs    from ALN, which takes a window that a short transfer reached for what the path carries. Spreads are fitted by
           their means, not drawn, so intervals of few networks are a little narrow.
Source     Tobin, Estimation of relationships for limited dependent variables (1958); Dempster, Laird, Rubin (1977);
           Efron and Morris, Stein's estimation rule and its competitors (1973)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.end_states import EndStates, Flags
from configtron.learner.initial.naive_bayes import INPUTS, inputs_of
from configtron.model.errors import BadInput

# Groups of a connection, from the widest; each has a place in `naive_bayes.INPUTS`.
LEVELS = ("hour", "network", "prefix")
ROUNDS = 60
# Variance of ln(window): at first, of each level and of the noise; never less, so that a division stays one.
FIRST_VARIANCE, LEAST_VARIANCE = 0.25, 1e-6
# Beyond so many standard deviations a cut normal distribution is that of its tail (Mills' ratio).
FAR = 8.0
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True, eq=False)
class _Effects:
    """One level: names, effect and its variance for each; the level's variance between them."""

    names: dict[str, int]
    effect: Floats
    unsure: Floats
    spread: float

    def of(self, names: Sequence[str]) -> tuple[Floats, Floats]:
        """Return (n,) effects and (n,) their variances; 0 and the whole spread for names never seen."""
        codes = np.array([self.names.get(name, -1) for name in names], dtype=np.int64)
        known = codes >= 0
        effect, unsure = np.zeros(len(codes)), np.full(len(codes), self.spread)
        effect[known], unsure[known] = self.effect[codes[known]], self.unsure[codes[known]]
        return effect, unsure


class WindowModel:
    """A model that has learned. Errors: `BadInput`.

    censored   whether lower bounds count as such, or, as in ALN, as the windows themselves
    """

    def __init__(self, states: EndStates, *, censored: bool = True) -> None:
        some = states[~np.isnan(states.max_cwnd)]
        bound = some.bound if censored else np.zeros(len(some), dtype=bool)
        if not len(some) or bound.all():
            raise BadInput("no connection met its path's limit: windows are lower bounds alone")
        self.learned = len(some)
        groups = [inputs_of(some)[INPUTS.index(level)] for level in LEVELS]
        names = [{name: at for at, name in enumerate(dict.fromkeys(group))} for group in groups]
        codes = [np.array([table[name] for name in group]) for table, group in zip(names, groups, strict=True)]
        self._effects = [_Effects(table, np.zeros(len(table)), np.zeros(len(table)), FIRST_VARIANCE) for table in names]
        seen = np.log(some.max_cwnd)
        self._level, self._noise = float(seen.mean()), FIRST_VARIANCE
        for _ in range(ROUNDS):
            self._improve(seen, bound, codes)

    def _improve(self, seen: Floats, bound: Flags, codes: list[Codes]) -> None:
        parts = [one.effect[code] for one, code in zip(self._effects, codes, strict=True)]
        mean: Floats = self._level + np.sum(parts, axis=0)
        values, spare = _completed(seen, bound, mean, self._noise)
        rest = values - mean
        self._level += float(rest.mean())
        rest = rest - float(rest.mean())
        for at, code in enumerate(codes):
            with_own = rest + parts[at]
            self._effects[at] = _pooled(self._effects[at], with_own, code, self._noise)
            parts[at] = self._effects[at].effect[code]
            rest = with_own - parts[at]
        unsure = sum(one.unsure[code] for one, code in zip(self._effects, codes, strict=True))
        self._noise = max(float((rest**2 + spare + unsure).mean()), LEAST_VARIANCE)

    def quantiles(self, states: EndStates, shares: Sequence[float] = QUANTILES) -> Floats:
        """Return (n, shares) windows, segments, of the clients of these rows: their prefixes and times alone count."""
        groups = inputs_of(states)
        mean, variance = np.full(len(states), self._level), np.full(len(states), self._noise)
        for level, one in zip(LEVELS, self._effects, strict=True):
            effect, unsure = one.of(groups[INPUTS.index(level)])
            mean, variance = mean + effect, variance + unsure
        steps = np.array([NormalDist().inv_cdf(share) for share in shares])
        found: Floats = np.exp(mean[:, None] + np.sqrt(variance)[:, None] * steps)
        return found


def _completed(seen: Floats, bound: Flags, mean: Floats, variance: float) -> tuple[Floats, Floats]:
    """Return (n,) expected values and (n,) their variances: of a bound, those of the normal distribution above it."""
    from scipy.special import log_ndtr

    values, spare = seen.copy(), np.zeros(len(seen))
    sd = np.sqrt(variance)
    cut = (seen[bound] - mean[bound]) / sd
    ratio = np.exp(-0.5 * cut**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(-cut))
    ratio = np.where(cut > FAR, cut + 1.0 / np.maximum(cut, 1.0), ratio)
    values[bound] = mean[bound] + sd * ratio
    spare[bound] = variance * np.clip(1.0 - ratio * (ratio - cut), 0.0, 1.0)
    return values, spare


def _pooled(former: _Effects, values: Floats, code: Codes, noise: float) -> _Effects:
    """Return a level's effects anew: means of its members, drawn towards 0 by the noise over the level's spread."""
    count = np.bincount(code, minlength=len(former.names))
    total = np.bincount(code, weights=values, minlength=len(former.names))
    weight = count + noise / former.spread
    effect: Floats = (total / weight).astype(np.float64)
    unsure: Floats = (noise / weight).astype(np.float64)
    spread = max(float((effect**2 + unsure).mean()), LEAST_VARIANCE)
    return _Effects(former.names, effect, unsure, spread)


def pinball(quantiles: Floats, true: Floats, shares: Sequence[float] = QUANTILES) -> float:
    """Return the mean pinball loss of (n, shares) quantiles against (n,) true values, in whatever unit both have."""
    over = true[:, None] - quantiles
    levels = np.array(shares)
    return float(np.maximum(levels * over, (levels - 1.0) * over).mean())


def coverage(quantiles: Floats, true: Floats) -> float:
    """Return the share of true values between the first and the last quantile."""
    return float(((quantiles[:, 0] <= true) & (true <= quantiles[:, -1])).mean())
