# SPDX-License-Identifier: MIT
"""A small network learned by back-propagation, over the same places and times: distributions over bins.

Question   What does the paper's second model predict, a network with one hidden layer?
Method     scikit-learn's classifier: `HIDDEN` units, softmax over the bins. Inputs are numbers: the bits of the prefix
           (24 of a /24, 48 of a /48, each -1 or 1, 0 where the family has none), hour, weekday and month as points of a
           circle, latitude and longitude over 90 and 180 degrees, 0 where unknown.
Stop when  `EPOCHS` passes, or ten without improvement
Reads as   (n, bins) probabilities, rows that sum to 1; bins that it never saw have 0
Fails as   `BadInput` for no connection with a known bin
Differs    the paper gives neither size nor learning rate of its network; it is not incremental: train it anew.
Source     Applied Learning Networks (ALN); Rumelhart, Hinton, Williams (1986); scikit-learn, MLPClassifier
"""

from __future__ import annotations

import warnings
from ipaddress import ip_network

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.end_states import EndStates
from configtron.learner.initial.naive_bayes import DAY_S
from configtron.learner.initial.quantisation import UNKNOWN
from configtron.model.errors import BadInput

HIDDEN, EPOCHS, BATCH_ROWS = (24,), 60, 200
BITS = {4: 24, 6: 48}
YEAR_S, WEEK_S = 31_557_600.0, 7.0 * DAY_S


def numbers_of(states: EndStates) -> Floats:
    """Return (n, inputs) what the network sees of each connection."""
    prefixes = states.prefix.tolist()
    bits = {prefix: _bits(prefix) for prefix in set(prefixes)}
    seconds = np.nan_to_num(states.at_s)
    circles = [turn(2.0 * np.pi * seconds / period) for period in (DAY_S, WEEK_S, YEAR_S) for turn in (np.sin, np.cos)]
    place = [np.nan_to_num(states.latitude) / 90.0, np.nan_to_num(states.longitude) / 180.0]
    found = np.array([bits[prefix] for prefix in prefixes]).reshape(len(prefixes), sum(BITS.values()))
    return np.column_stack([found, *circles, *place])


def _bits(prefix: str) -> list[float]:
    found = dict.fromkeys(BITS, [0.0]) | {family: [0.0] * length for family, length in BITS.items()}
    if prefix:
        network = ip_network(prefix)
        length = BITS[network.version]
        number = int(network.network_address) >> (network.max_prefixlen - length)
        found[network.version] = [1.0 if number >> at & 1 else -1.0 for at in range(length - 1, -1, -1)]
    return [bit for family in sorted(BITS) for bit in found[family]]


class BackPropagation:
    """A network that has learned. Errors: `BadInput`."""

    def __init__(self, states: EndStates, bins: Codes, count: int, seed: int) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier

        known = bins != UNKNOWN
        if not known.any():
            raise BadInput("no connection has a known value to learn from")
        self.bins, self.learned = count, int(known.sum())
        self._network = MLPClassifier(HIDDEN, max_iter=EPOCHS, batch_size=min(BATCH_ROWS, self.learned),
                                      random_state=seed)  # fmt: skip
        with warnings.catch_warnings():
            # the number of passes is chosen, not a failure
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._network.fit(numbers_of(states[known]), bins[known])

    def predict(self, states: EndStates) -> Floats:
        """Return (n, bins) the probability of each bin."""
        found = np.zeros((len(states), self.bins))
        classes = self._network.classes_
        if len(classes) == 1:
            # scikit-learn gives two columns for one class
            found[:, classes] = 1.0
        elif len(states):
            found[:, classes] = self._network.predict_proba(numbers_of(states))
        return found
