# SPDX-License-Identifier: MIT
"""How much each connection teaches classifiers: one over the chance that it had to be what it was.

Question   What may a model learn of connections whose initial windows it chose itself, or did not?
Method     Classifiers of bins learn what `EndStates.teaches`: the untouched, Null's and the holdback's among them, and
           validated jumps. A model that lowers Null's share where it is sure of itself would hear less of just those
           clients, and the answer for clients never seen would follow its own choices: so each counts one over the
           chance that its strategy had, at most `MOST_WEIGHT`. `censored_windows.limits_of` is the other way:
           there chosen windows teach as bounds, and what is left of the choice is no news.
Reads as   (n,) weights
Source     Horvitz and Thompson, A generalization of sampling without replacement (1952)
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.initial.end_states import EndStates

# A chance of a twentieth and less counts as that: one connection never counts as more than twenty.
MOST_WEIGHT = 20.0


def weights_of(states: EndStates) -> Floats:
    """Return (n,) one over each propensity; 1 where none is known, or where it is no chance."""
    with np.errstate(invalid="ignore", divide="ignore"):
        is_chance = (states.propensity > 0) & (states.propensity <= 1)
        found: Floats = np.where(is_chance, np.minimum(1.0 / states.propensity, MOST_WEIGHT), 1.0)
    return found
