# SPDX-License-Identifier: MIT
"""Between which limits the window of a path lies, by how its connection ended; and its mean between them.

Question   What does an ended connection show of its path's window, if its own initial window shows nothing?
Method     WindowLimits by who chose the initial window, and by how the connection ended:

               untouched, met the path's limit    window: known, but for the path's own factor (`path_posteriors.py`)
               ... in its first flights           [initial window - lost, window x overshoot]: under twice the initial
                                                  window, which may itself be more than the path holds
               untouched, ended before            [window / overshoot, no end]
               chosen, validated, then the limit  as untouched: it grew past its jump (`EndStates.resumed`)
               chosen, nothing lost               [min(window, segments sent), no end]: what was sent has been validated
               chosen, segments lost              [0, window]: the choice was made, the path was met somewhere below
               chosen, a bound with losses        nothing: left out

           Slow start lets a window grow to twice the segments that were under way (Linux, tcp_is_cwnd_limited), so that
           a window without a loss shows that the path holds half of it: overshoot 2. It is 1 where a window is what was
           under way. Both ends of a chosen window teach; otherwise only windows that went well would count. A value
           between limits has the mean and variance of the normal distribution cut off there.
Reads as   `WindowLimits` of ln(window); -inf and inf where there is none
Differs    from ALN, which learns from all alike. Untouched are the stack's own connections: Null's and the holdback's.
Source     Tobin (1958); Rosett and Nelson, Estimation of the two-limit probit regression model (1975)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.initial.end_states import DEFAULT_WINDOW, UNTOUCHED, EndStates, Flags
from configtron.model.close_records import VALIDATED

# A cut normal distribution further out than so many standard deviations is its nearer end.
FAR_SDS = 30.0


class WindowLimits(NamedTuple):
    """(n,) ends between which ln(window) lies; equal where it is known. rows: (n,) of the end states, by number."""

    low: Floats
    high: Floats
    rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]

    @property
    def meets(self) -> Flags:
        """Return which have an upper end."""
        return np.isfinite(self.high)


def limits_of(states: EndStates, *, censored: bool = True, overshoot: float = 1.0) -> WindowLimits:
    """Return the limits of all that teach. censored: False counts every untouched window as the path's, as ALN does."""
    window, lossy = states.max_cwnd, states.loss > 0
    untouched = np.isin(states.strategy, ("", UNTOUCHED))
    own, bound = untouched | ((states.resumed == VALIDATED) & lossy), states.bound & censored
    sent, lost = np.fmin(window, states.packets_out), states.loss * states.packets_out
    first = untouched & censored & lossy & ~bound & (window < 2 * DEFAULT_WINDOW) & (overshoot > 1.0)
    least = np.fmin(np.maximum(DEFAULT_WINDOW - lost, 1.0), window)
    low = np.where(own, np.where(bound, window / overshoot, np.where(first, least, window)), np.where(lossy, 0.0, sent))
    high = np.where(own & ~bound, np.where(first, window * overshoot, window), np.where(own | ~lossy, np.inf, window))
    teaches = (window >= 1) & np.where(untouched, True, censored & ~(lossy & bound) & (sent >= 1))
    with np.errstate(divide="ignore"):
        return WindowLimits(np.log(low[teaches]), np.log(high[teaches]), np.flatnonzero(teaches))


def completed(limits: WindowLimits, mean: Floats, variance: float) -> tuple[Floats, Floats]:
    """Return (n,) expected values and (n,) their variances of a normal distribution cut off at the limits."""
    from scipy.special import log_ndtr

    known = limits.low == limits.high
    values, variances = limits.low.copy(), np.zeros(len(mean))
    middle, sd = mean[~known], np.sqrt(variance)
    low, high = (limits.low[~known] - middle) / sd, (limits.high[~known] - middle) / sd
    # the right tail is computed as its mirror image on the left
    mirrored = low > -high
    left, right = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    logs = log_ndtr(right) + np.log1p(-np.exp(np.minimum(log_ndtr(left) - log_ndtr(right), -1e-12)))
    at_left, at_right = (np.exp(-0.5 * cut**2 - 0.5 * np.log(2.0 * np.pi) - logs) for cut in (left, right))
    inner = np.where(right < -FAR_SDS, right, at_left - at_right)
    inner = np.clip(inner, left, right)
    ends = np.where(np.isfinite(left), left, 0.0) * at_left - np.where(np.isfinite(right), right, 0.0) * at_right
    values[~known] = middle + sd * np.where(mirrored, -inner, inner)
    variances[~known] = variance * np.where(right < -FAR_SDS, 0.0, np.clip(1.0 + ends - inner**2, 0.0, 1.0))
    return values, variances
