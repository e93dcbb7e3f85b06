# SPDX-License-Identifier: MIT
"""Naive Bayes over a connection's place and time, learned a batch at a time: distributions over bins.

Question   How likely is each bin of MaxCwnd (MinRTT, PktIn) for a client of this place at this time?
Method     P(bin | inputs) is proportional to P(bin) times P(input | bin) of each input. Counts alone are kept, so that
           learning one connection is adding one to a few of them, in any order with the same result. An input's
           probability is (count + 1 / V) / (bin's count + 1) over its V values, so that a value with few connections
           moves little; a value that no connection had is left out, and so is one that is unknown. A connection
           counts `weights` times (`teaching.weights_of`), else once.
Reads as   (n, bins) probabilities, rows that sum to 1; with nothing learned, all bins alike
Differs    the paper's network of Bayes is used with independent inputs, as its name for the classifier states; the
           place is the prefix and the /16 (/32) around it, or latitude and longitude by ten degrees where known.
Source     Applied Learning Networks (ALN); Perks, Some observations on inverse probability (1947), for the constant
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.end_states import EndStates
from configtron.learner.initial.quantisation import UNKNOWN

INPUTS = ("prefix", "network", "latitude", "longitude", "hour", "day", "month")
# Degrees a bin; seconds of an hour and of a day. 1970 began on a Thursday, day 3 from Monday.
DEGREES, HOUR_S, DAY_S, FIRST_DAY = 10.0, 3600, 86_400, 3
# Connections at a time: a distribution of 30 bins for each stays within some megabytes.
BATCH = 20_000


def inputs_of(states: EndStates) -> list[list[str]]:
    """Return the values of `INPUTS` of each connection, a list an input, "" for unknown. Time is UTC."""
    prefixes = states.prefix.tolist()
    around = {prefix: network_around(prefix) for prefix in set(prefixes)}
    months = np.array(states.at_s, dtype="datetime64[s]").astype("datetime64[M]").astype(int) % 12
    seconds = np.nan_to_num(states.at_s).astype(np.int64)
    return [
        prefixes,
        [around[prefix] for prefix in prefixes],
        _degrees(states.latitude),
        _degrees(states.longitude),
        [str(hour) for hour in (seconds // HOUR_S % 24).tolist()],
        [str(day) for day in ((seconds // DAY_S + FIRST_DAY) % 7).tolist()],
        [str(month) for month in months.tolist()],
    ]


def _degrees(values: Floats) -> list[str]:
    return [str(int(value // DEGREES)) if np.isfinite(value) else "" for value in values.tolist()]


def network_around(prefix: str) -> str:
    """Return the /16 of a /24, the /32 of a /48; "" for no prefix."""
    if not prefix:
        return ""
    network = ip_network(prefix)
    length = 16 if network.version == 4 else 32
    return str(network.supernet(new_prefix=length) if network.prefixlen > length else network)


class NaiveBayes:
    """Counts of bins, and of each input's values by bin."""

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.learned = 0
        self._of_bin = np.zeros(bins)
        self._codes: list[dict[str, int]] = [{} for _ in INPUTS]
        self._counts = [np.zeros((0, bins)) for _ in INPUTS]

    def observe(self, inputs: Sequence[Sequence[str]], bins: Codes, weights: Floats | None = None) -> None:
        """Learn connections: their inputs as `inputs_of`, and their bins; unknown bins teach nothing."""
        known = bins != UNKNOWN
        counted = np.ones(len(bins)) if weights is None else weights
        self._of_bin += np.bincount(bins[known], weights=counted[known], minlength=self.bins)
        self.learned += int(known.sum())
        for at, values in enumerate(inputs):
            codes = self._learn_codes(at, values)
            some = known & (codes != UNKNOWN)
            np.add.at(self._counts[at], (codes[some], bins[some]), counted[some])

    def _learn_codes(self, at: int, values: Sequence[str]) -> Codes:
        table = self._codes[at]
        codes = np.array([table.setdefault(value, len(table)) if value else UNKNOWN for value in values], np.int64)
        grown = len(table) - len(self._counts[at])
        if grown:
            self._counts[at] = np.concatenate([self._counts[at], np.zeros((grown, self.bins))])
        return codes

    def predict(self, inputs: Sequence[Sequence[str]]) -> Floats:
        """Return (n, bins) the probability of each bin."""
        count = len(inputs[0])
        logs = np.tile(np.log(self._of_bin + 1.0 / self.bins), (count, 1))
        for at, values in enumerate(inputs):
            table = self._codes[at]
            codes = np.array([table.get(value, UNKNOWN) if value else UNKNOWN for value in values], dtype=np.int64)
            known = codes != UNKNOWN
            if not known.any():
                continue
            counts = self._counts[at]
            likely = np.log(counts + 1.0 / len(table)) - np.log(counts.sum(axis=0) + 1.0)
            logs[known] += likely[codes[known]]
        shares: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def known_values(self) -> dict[str, list[str]]:
        """Return the values of each of `INPUTS` that connections had."""
        return {name: list(codes) for name, codes in zip(INPUTS, self._codes, strict=True)}

    def state(self) -> dict[str, object]:
        """Return what was learned, for `learner.state.encode`."""
        return {"bins": self.bins, "learned": self.learned, "of_bin": self._of_bin,
                "codes": [list(codes) for codes in self._codes], "counts": list(self._counts)}  # fmt: skip

    @classmethod
    def of_state(cls, state: dict[str, object]) -> NaiveBayes:
        """Return the model of a `state`."""
        found = cls(int(str(state["bins"])))
        found.learned = int(str(state["learned"]))
        found._of_bin = np.asarray(state["of_bin"], dtype=np.float64)
        codes, counts = state["codes"], state["counts"]
        assert isinstance(codes, list) and isinstance(counts, list), "a state of `NaiveBayes.state`"
        found._codes = [{value: at for at, value in enumerate(values)} for values in codes]
        found._counts = [np.asarray(one, dtype=np.float64).reshape(-1, found.bins) for one in counts]
        return found


def learned_from(states: EndStates, bins: Codes, count: int, weights: Floats | None = None) -> NaiveBayes:
    """Return a model of `count` bins that has learned these connections, batch by batch; weights: (n,), else 1."""
    model = NaiveBayes(count)
    for first in range(0, len(states), BATCH):
        some = slice(first, first + BATCH)
        model.observe(inputs_of(states[some]), bins[some], None if weights is None else weights[some])
    return model
