# SPDX-License-Identifier: MIT
"""How good predictions of end states are: exact hits and error variance, beside a constant and silence.

Question   How often is the predicted bin the one that the connection came to, and how far off is it otherwise?
Method     Connections are parted by time: models learn the earlier ones and predict the later. The constant is the
           commonest bin of those learned ("fixed" in the paper); silence is Linux's own default where it has one
           (10 segments of MaxCwnd) and predicts nothing else. The error is predicted less true bin.
Reads as   `HitRatio` by target and model: share of exact hits with Wilson's 95 % interval, error's mean and variance
Fails as   `BadInput` where there is nothing to learn from, or nothing to judge on
Differs    the paper does not state how its data was parted. Only connections that left the default's first flight
           count, as there.
Source     Applied Learning Networks (ALN), exact-hit ratios and error variance; Wilson (1927)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.diversity import wilson
from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.back_propagation import BackPropagation
from configtron.learner.initial.end_states import DEFAULT_WINDOW, EndStates
from configtron.learner.initial.naive_bayes import inputs_of, learned_from
from configtron.learner.initial.quantisation import MAX_CWND, TARGETS, UNKNOWN, target_bins
from configtron.learner.initial.rounded_mean import LIKELIEST, ROUNDINGS, bin_of
from configtron.model.errors import BadInput

SILENCE, CONSTANT, BAYES, NETWORK = MODELS = ("silence", "fixed", "bayes", "network")


class HitRatio(NamedTuple):
    """One model's predictions of one target.

    rounding     of the distribution's mean, or the likeliest bin; "" where there is no distribution
    hits         share of exact bins among `judged`, `low` and `high` its 95 % interval
    mean_error, variance   of predicted less true bin; NaN where nothing is predicted
    """

    target: str
    model: str
    rounding: str
    judged: int
    hits: float
    low: float
    high: float
    mean_error: float
    variance: float


def parted(states: EndStates, share: float = 0.5) -> tuple[EndStates, EndStates]:
    """Return the earlier `share` of the long connections, and the later ones. Errors: `BadInput`."""
    some = states[states.is_long]
    ordered = some[np.argsort(some.at_s, kind="stable")]
    cut = int(len(ordered) * share)
    if not 0 < cut < len(ordered):
        raise BadInput(
            f"{len(ordered)} connections sent more than {DEFAULT_WINDOW} packets: too few to learn from some of them "
            "and to judge by the others"
        )
    return ordered[:cut], ordered[cut:]


def distributions(earlier: EndStates, later: EndStates, target: str, seed: int) -> dict[str, Floats]:
    """Return what each model that learned the earlier connections predicts of the later: (n, bins). `BadInput`."""
    count, bins = len(TARGETS[target].values), target_bins(earlier, target)
    bayes = learned_from(earlier, bins, count).predict(inputs_of(later))
    return {BAYES: bayes, NETWORK: BackPropagation(earlier, bins, count, seed).predict(later)}


def hit_ratios(earlier: EndStates, later: EndStates, target: str, seed: int) -> list[HitRatio]:
    """Return the rows of one target. Errors: `BadInput` where it is known of no connection."""
    learned, true = target_bins(earlier, target), target_bins(later, target)
    known = true != UNKNOWN
    if not known.any() or not (learned != UNKNOWN).any():
        raise BadInput(f"{target} is known of no connection to learn from, or of none to judge by")
    true = true[known]
    commonest = int(np.bincount(learned[learned != UNKNOWN]).argmax())
    default = int(MAX_CWND.bins(np.array([float(DEFAULT_WINDOW)]))[0]) if target == MAX_CWND.name else UNKNOWN
    found = [
        judged(target, SILENCE, "", np.full(len(true), default), true),
        judged(target, CONSTANT, "", np.full(len(true), commonest), true),
    ]
    for model, shares in distributions(earlier, later[known], target, seed).items():
        found += [judged(target, model, rounding, bin_of(shares, rounding), true) for rounding in ROUNDINGS]
    return found


def judged(target: str, model: str, rounding: str, predicted: Codes, true: Codes) -> HitRatio:
    """Return the row of predicted against true bins, (n,) each; `UNKNOWN` predicts nothing, and is no hit."""
    hits, count = int((predicted == true).sum()), len(true)
    low, high = wilson(hits, count)
    errors = (predicted - true)[predicted != UNKNOWN]
    spread = (float(errors.mean()), float(errors.var())) if len(errors) else (float("nan"), float("nan"))
    return HitRatio(target, model, rounding, count, hits / count, low, high, *spread)


def ratio_of(rows: Sequence[HitRatio], target: str, model: str, rounding: str = LIKELIEST) -> HitRatio:
    """Return one row; the constant and silence have no rounding."""
    wanted = (target, model, rounding if model in (BAYES, NETWORK) else "")
    return next(row for row in rows if (row.target, row.model, row.rounding) == wanted)
