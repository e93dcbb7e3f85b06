# SPDX-License-Identifier: MIT
"""How much each connection teaches classifiers: one over the chance that it had to be what it was.

Question   What may a model learn of connections whose initial windows it chose itself, or did not?
Method     Classifiers of bins learn what `EndStates.teaches`: the untouched, Null's and the holdback's among them, and
           validated jumps. A model that lowers Null's share where it is sure of itself would hear less of just those
           clients, and the answer for clients never seen would follow its own choices: so each counts one over the
           chance that its strategy had, at most `MOST_WEIGHT`. Clients for whom no strategy was drawn count once,
           held-back clients among them: Null's already stand for all clients for whom one was drawn.
           A prefix has at most `MOST_OF_PREFIX` in all, however many connections it opens (`prefix_shares`).
           `censored_windows.limits_of` is the other way: there chosen windows teach as bounds, and what is left of the
           choice is no news.
Reads as   (n,) weights
Differs    from Horvitz and Thompson: held-back clients count beside Null's, so classes with strategies weigh more
           than others, by the share of the holdback and by validated jumps.
Source     Horvitz and Thompson, A generalization of sampling without replacement (1952)
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.initial.end_states import EndStates

# A chance of a twentieth and less counts as that: one connection never counts as more than twenty.
MOST_WEIGHT = 20.0
# Sum of a prefix's weights at most: some fifty connections, where Null has half.
MOST_OF_PREFIX = 100.0


def weights_of(states: EndStates) -> Floats:
    """Return (n,) one over each propensity; 1 where no strategy was drawn, none is known, or where it is no chance."""
    with np.errstate(invalid="ignore", divide="ignore"):
        is_chance = (states.propensity > 0) & (states.propensity <= 1) & (states.strategy != "")
        found: Floats = np.where(is_chance, np.minimum(1.0 / states.propensity, MOST_WEIGHT), 1.0)
    return found


def prefix_shares(states: EndStates, weights: Floats) -> Floats:
    """Return (n,) weights cut down alike within each prefix whose sum is above `MOST_OF_PREFIX`."""
    _, place = np.unique(states.prefix, return_inverse=True)
    total = np.bincount(place, weights=weights, minlength=1)
    found: Floats = weights * np.minimum(MOST_OF_PREFIX / np.maximum(total, MOST_OF_PREFIX), 1.0)[place]
    return found
