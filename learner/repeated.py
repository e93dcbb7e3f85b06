# SPDX-License-Identifier: MIT
"""The noise of single page loads, from a log's repeats.

Question   By how much does ln(ms) spread when one client loads one page under one profile again?
Method     Loads of one prefix, site and profile, in order of arrival: each less the one before, over the root of two.
           Neighbours, so that a network that changes counts once; far differences are clipped to `FAR_SIGMAS`
           deviations, so that the tail of loads counts and that change hardly does. Root of their mean square.
Stop when  computed, once.
Reads as   `Repeats`: sigma_ln, and from how many.
Fails as   sigma_ln None, and `why` in words: no prefixes, fewer than `LEAST_REPEATS`, or half of them equal.
Differs    CT has "one standard deviation" of no stated quantity.
Source     von Neumann 1941 (mean square successive difference); Huber 1964 (clipping); Rousseeuw and Croux 1993 (MAD).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats

# A deviation from fewer repeats than this is off by more than a tenth, either way.
LEAST_REPEATS = 50
# The tail of page load times reaches about so far; a client that meets another network, further.
FAR_SIGMAS = 4.0
# Standard deviation of a normal distribution, in median absolute deviations.
SIGMAS_PER_MAD = 1.4826


@dataclass(frozen=True, slots=True)
class Repeats:
    """The noise that repeats show. sigma_ln: standard deviation of one load's ln(ms), None: not known; count: of
    repeats."""

    sigma_ln: float | None
    count: int
    why: str = ""

    @property
    def variance(self) -> float:
        """Return the variance of one load's ln(ms); 0 where it is not known: then nothing is put down to noise."""
        return 0.0 if self.sigma_ln is None else self.sigma_ln**2


def repeats(prefix: Codes, site: Codes, configuration: Codes, log_ms: Floats) -> Repeats:
    """Return the noise of single loads, (n,) each in order of arrival. prefix: -1 or empty where it is not known."""
    known = prefix >= 0 if len(prefix) else np.zeros(len(log_ms), dtype=np.bool_)
    if not known.any():
        return Repeats(None, 0, "no outcome has a prefix, so none is known to repeat another")
    keys = np.stack((prefix[known], site[known], configuration[known]))
    _, group = np.unique(keys, axis=1, return_inverse=True)
    group, y = group.reshape(-1), log_ms[known]
    order = np.argsort(group, kind="stable")
    again = group[order][1:] == group[order][:-1]
    apart = (np.diff(y[order])[again]) / np.sqrt(2.0)
    if len(apart) < LEAST_REPEATS:
        few = f"{len(apart)} loads repeat another of the same prefix, site and profile, {LEAST_REPEATS} are needed"
        return Repeats(None, len(apart), few)
    equal = int((apart == 0.0).sum())
    if 2 * equal >= len(apart):
        copied = f"{equal} of {len(apart)} repeats took exactly as long as the one before: imported twice?"
        return Repeats(None, len(apart), copied)
    far = FAR_SIGMAS * SIGMAS_PER_MAD * float(np.median(np.abs(apart)))
    return Repeats(float(np.sqrt((np.clip(apart, -far, far) ** 2).mean())), len(apart))
