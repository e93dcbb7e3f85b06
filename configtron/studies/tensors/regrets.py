# SPDX-License-Identifier: MIT
"""What there is to learn on a measured tensor, and what of it a learner can know: no policy, no sessions.

Question   How much slower than the best of each condition is the best that may be had with one configuration for all,
           with one for what the features show, with one for each condition; and is that real or the winner's curse?
Method     A configuration's score in a condition is the geometric mean over sites of the median page load time.
           `perfect`: a learner who knows the whole tensor, but of a client only features that are a little off (ln
           deviations as sessions have them). For conditions drawn by their weights it is shown such features, weighs
           every condition by how likely it shows the same (Bayes), and takes what is least slow in the mean: no learner
           is shown the same can do better. `held_out`: chosen on half of the loads, judged on the others.
Stop when  `SHOWN` features were drawn for each condition; every (or `SPLITS`) splits into halves were made.
Reads as   regret, a share: score over the best score that may be served there, less 1.
Fails as   NaN where loads were not kept, or nothing was measured.
Differs    from CT, which gives Optimal the true network and no other bound.
Source     Bayes; Stone 1974 (choice and assessment on separate data).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.driver_support import Mask
from configtron.model.characteristics import BY_NAME
from configtron.model.nearest import LOSS_FLOOR
from configtron.model.tensor import Tensor

# Features drawn for each condition: a mean regret is then known to a tenth of itself.
SHOWN = 200
# Splits of the loads into halves, at most: all 20 of six loads, or that many drawn.
SPLITS = 40
# A condition that is this likely, or less, given what is shown, need not be kept within the bound on damage.
LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Regrets:
    """Regret by condition, (conditions,); share: how often each occurs; picks: what the static choice is, or -1."""

    by_condition: Floats
    share: Floats
    pick: int = -1

    @property
    def mean(self) -> float:
        """Over conditions, as often as they occur."""
        return float((self.by_condition * self.share).sum())

    def quantile(self, q: float) -> float:
        """The regret that a share q of what occurs does not exceed."""
        order = np.argsort(self.by_condition)
        reached = np.cumsum(self.share[order]) >= q - 1e-12
        return float(self.by_condition[order][int(reached.argmax())])

    def within(self, most: float) -> float:
        """Share of what occurs that is no slower than that."""
        return float(self.share[self.by_condition <= most].sum())


def scores(ms: Floats) -> Floats:
    """(conditions, configurations) geometric mean over sites; inf where one was not measured. ms (..., sites)."""
    found = np.exp(np.log(ms.astype(np.float64)).mean(axis=2))
    return np.where(np.isnan(found), np.inf, found)


def excess(score: Floats, allowed: Mask) -> Floats:
    """(conditions, configurations) over the best of what may be served there, a share; inf for what may not."""
    mine = np.where(allowed, score, np.inf)
    found: Floats = mine / mine.min(axis=1, keepdims=True) - 1.0
    return found


def static(regret: Floats, share: Floats) -> Regrets:
    """One configuration for all: the least mean over conditions of those that may be served in each (Method)."""
    known = np.where(np.isinf(regret), 0.0, regret)
    mean = np.where(np.isinf(regret).any(axis=0), np.inf, (known * share[:, None]).sum(axis=0))
    pick = int(mean.argmin())
    return Regrets(regret[:, pick], share, pick)


def perfect(
    tensor: Tensor,
    regret: Floats,
    known: Collection[str],
    rng: np.random.Generator,
    *,
    off_ln: float,
    path_off_ln: float,
) -> Regrets:
    """Return the regret of the best learner that sees bandwidth, round trip, loss and those characteristics."""
    columns, off = _columns(tensor, known, off_ln, path_off_ln)
    usual = np.where(np.isinf(regret), 0.0, regret)
    found = np.zeros(len(columns))
    for at in range(len(columns)):
        shown = columns[at] + off * rng.standard_normal((SHOWN, columns.shape[1]))
        away = np.zeros((SHOWN, len(columns)))
        for axis in range(columns.shape[1]):
            gap = (shown[:, axis, None] - columns[None, :, axis]) / off[axis]
            away += np.nan_to_num(gap) ** 2
        weight = tensor.share * np.exp(-0.5 * (away - away.min(axis=1, keepdims=True)))
        weight /= weight.sum(axis=1, keepdims=True)
        expected = weight @ usual
        expected[((weight > LEAST_SHARE).astype(float) @ np.isinf(regret)) > 0] = np.inf
        # Where nothing is within the bound under all that is likely: what is so under most of it.
        none = np.isinf(expected).all(axis=1)
        expected[none] = (weight @ np.isinf(regret))[none]
        found[at] = usual[at, expected.argmin(axis=1)].mean()
    return Regrets(found, tensor.share)


def _columns(tensor: Tensor, known: Collection[str], off_ln: float, path_off_ln: float) -> tuple[Floats, Floats]:
    """(conditions, features) ln, and (features,) by how much each is off; loss is known as well as classes see it."""
    base = [np.log(tensor.bandwidth_kbps), np.log(tensor.rtt_ms), np.log(tensor.loss + LOSS_FLOOR)]
    path = [np.log(column + BY_NAME[name].floor) for name, column in tensor.characteristics.items() if name in known]
    off = [off_ln] * len(base) + [path_off_ln] * len(path)
    return np.stack((*base, *path), axis=1), np.array(off)


def held_out(tensor: Tensor, allowed: Mask, group: Codes, rng: np.random.Generator) -> Floats:
    """(splits,) mean gain over the static configuration of one configuration for each group of conditions, both chosen
    on half of the loads and judged on the others; empty where no cell has two loads. group (conditions,)."""
    if tensor.repeats_ms is None or tensor.repeats_ms.shape[3] < 2:
        return np.zeros(0)
    loads = tensor.repeats_ms.shape[3]
    halves = [np.array(one) for one in combinations(range(loads), loads // 2)] if loads <= 8 else []
    while loads > 8 and len(halves) < SPLITS:
        halves.append(rng.permutation(loads)[: loads // 2])
    gains = []
    for half in halves[:SPLITS]:
        chosen, judged = (_median(tensor, part) for part in (half, np.setdiff1d(np.arange(loads), half)))
        gains.append(_gain(chosen, judged, allowed, group, tensor.share))
    return np.array([gain for gain in gains if not np.isnan(gain)])


def _median(tensor: Tensor, part: Codes) -> Floats:
    assert tensor.repeats_ms is not None, "a tensor with its loads"
    loads = tensor.repeats_ms[..., part].astype(np.float64)
    failed = np.isnan(loads).mean(axis=3) >= 0.5
    filled = np.where(np.isnan(loads), np.inf, loads)
    return scores(np.where(failed, np.nan, np.median(filled, axis=3)))


def _gain(chosen: Floats, judged: Floats, allowed: Mask, group: Codes, share: Floats) -> float:
    """Mean over conditions of what the groups' choices are faster than the static one, on the other loads."""
    usable = allowed & np.isfinite(chosen) & np.isfinite(judged)
    here = np.flatnonzero(usable.any(axis=1))
    regret = excess(np.where(usable, chosen, np.inf)[here], usable[here])
    weight = share[here] / share[here].sum()
    one = static(regret, weight).pick
    picks = np.full(len(here), one)
    for name in np.unique(group[here]):
        mine = group[here] == name
        picks[mine] = static(regret[mine], weight[mine] / max(weight[mine].sum(), 1e-12)).pick
    both = usable[here, one] & usable[here, picks]
    gain = 1.0 - judged[here, picks][both] / judged[here, one][both]
    return float((gain * weight[both]).sum() / weight[both].sum()) if both.any() else float("nan")
