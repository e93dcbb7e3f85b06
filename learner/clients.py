# SPDX-License-Identifier: MIT
"""Clients' weights: how much one prefix may weigh, and which prefixes contradict their features.

Question   May a class be judged by the loads of this prefix?
Method     Caps: in its class a prefix counts whole up to `loads`, or to the class's `share` where that is more; its
           k-th load beyond counts as the cap over k, so that all of them together grow with the logarithm.
           Quarantine: per prefix the mean excess of its loads over their expectation, of the latest `MEMORY` loads or
           so, each Huber-clipped. Members of a class may differ by `ALIKE_LN` and by their loads' noise; a prefix
           further off than `FAR_SIGMAS` of both is not of the network that its features show: it counts nothing until
           it is near again (by half of that, so that it does not come and go). Levels: where prefixes differ from their
           classes by more than members may, classes do not predict: then each load is taken relative to its prefix, and
           configurations are compared all the same. Facts of the kernel: no page is there before one round trip, the
           least that the kernel ever saw.
Stop when  never: sums fade.
Reads as   weights; which prefixes are out; numbers of both, by reason.
Fails as   a prefix that is not known, or has few loads: it counts.
Differs    from CT, which takes every outcome of a class as one of it.
Source     Hampel et al. 1986 (rejection beyond some deviations); the fading is an exponential moving average.

A prefix is a number, its CRC's: that needs no register and bounds memory.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.repeated import SIGMAS_PER_MAD
from configtron.learner.state import keep

# Memory is bounded by so many; of a thousand prefixes one in sixty shares its bucket with another, as one client.
BUCKETS = 2**16
# Latest loads of a prefix in its mean, and the fewest that make one.
MEMORY, LEAST_LOADS = 50.0, 8.0
# How far members of one class may differ, as in `initial_classes.ALIKE_LN`; deviations beyond which one is no member.
ALIKE_LN, FAR_SIGMAS = 0.25, 4.0
# Loads of a prefix, and so many of them, from which it is judged how much prefixes differ.
FEWEST_LOADS, LEAST_PREFIXES = 4.0, 30
# The most that one load counts for or against its prefix, ln(ms): one bad load in eight does not quarantine it.
MOST_LN = 2.0
# A prefix that is out comes back when it is nearer than this share of that.
BACK_SHARE = 0.5
# Loads of a class that others than the prefix must have for its cap: who is alone is the class.
LEAST_OTHERS = 30.0
# Why an outcome, or a prefix, does not count.
BELOW_ROUND_TRIP, UNLIKE_CLASS, OVER_CAP = "outcome:below-round-trip", "prefix:unlike-class", "prefix:over-cap"

Bools = npt.NDArray[np.bool_]


@keep
@dataclass(frozen=True, slots=True)
class Cap:
    """How much one prefix may weigh in its class: the larger of so many whole loads and this share of the class's.
    Without either bound: `loads` infinite."""

    loads: float = 100.0
    share: float = 0.25


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """Per bucket, (BUCKETS,) each: loads and the sum of their excess over expectation, fading; loads ever; whether it
    is out; whether a load of it exceeded the cap."""

    count: Floats
    total: Floats
    ever: Floats
    out: Bools
    capped: Bools

    def weights(self, client: Codes, of_class: Floats, cap: Cap) -> Floats:
        """Return (n,) the weight of each load under the cap, in order of arrival. client (n,) buckets, -1 for none;
        of_class (n,) the weight of its class so far."""
        nth = self.ever[client] + _earlier(client) + 1.0
        alone = of_class - self.ever[client] < LEAST_OTHERS
        most = np.maximum(cap.loads, cap.share * of_class)
        found: Floats = np.where((client < 0) | alone, 1.0, np.minimum(1.0, most / nth))
        return found

    def plus(self, client: Codes, rest: Floats, noise_ln: float, weight: Floats) -> Clients:
        """Return the sums with further loads: client (n,), rest (n,) ln(ms) beyond expectation, NaN without one;
        weight (n,) as `weights` gave."""
        mine = client >= 0
        ever = self.ever + np.bincount(client[mine], minlength=BUCKETS)
        capped = self.capped | (np.bincount(client[mine], weights=weight[mine] < 1.0, minlength=BUCKETS) > 0)
        expected = mine & ~np.isnan(rest)
        more = np.bincount(client[expected], minlength=BUCKETS)
        fading = np.maximum(1.0 - more / MEMORY, 0.0)
        count = self.count * fading + more
        clipped = np.clip(rest[expected], -MOST_LN, MOST_LN)
        total = self.total * fading + np.bincount(client[expected], weights=clipped, minlength=BUCKETS)
        far = np.abs(total) / np.maximum(count, 1.0) / np.sqrt(ALIKE_LN**2 + noise_ln**2 / np.maximum(count, 1.0))
        bound = np.where(self.out, BACK_SHARE, 1.0) * FAR_SIGMAS
        return Clients(count, total, ever, (count >= LEAST_LOADS) & (far > bound), capped)

    def is_out(self, client: Codes) -> Bools:
        """Return (n,) whether each is out; -1 never is."""
        found: Bools = self.out[client] & (client >= 0)
        return found

    def offset_ln(self, client: Codes, noise_ln: float) -> Floats:
        """Return (n,) the mean excess of each prefix's loads over its class's expectation, ln(ms), shrunk to 0 by the
        spread of prefixes; 0 for -1, and for all where they differ as members of a class may."""
        some = self.count >= FEWEST_LOADS
        if some.sum() < LEAST_PREFIXES:
            return np.zeros(len(client))
        far = SIGMAS_PER_MAD * float(np.median(np.abs(self.total[some] / self.count[some])))
        apart = far**2 - noise_ln**2 / float(np.median(self.count[some])) - ALIKE_LN**2
        if apart <= 0.0:
            return np.zeros(len(client))
        found: Floats = np.where(client >= 0, (self.total / (self.count + noise_ln**2 / apart))[client], 0.0)
        return found

    def reasons(self) -> dict[str, int]:
        """Prefixes that are out, or went beyond the cap, by reason."""
        return {UNLIKE_CLASS: int(self.out.sum()), OVER_CAP: int(self.capped.sum())}


CAP = Cap()


def no_clients() -> Clients:
    """Nothing seen."""
    none, no = np.zeros(BUCKETS), np.zeros(BUCKETS, dtype=np.bool_)
    return Clients(none, none, none, no, no)


def _earlier(client: Codes) -> Floats:
    """Return (n,) how many of these loads before each one are of the same client."""
    order = np.argsort(client, kind="stable")
    first = np.flatnonzero(np.diff(client[order], prepend=-2))
    lengths = np.diff(np.append(first, len(client)))
    found = np.empty(len(client))
    found[order] = np.arange(len(client)) - np.repeat(first, lengths)
    return found


def impossible(contexts: Contexts, plt_ms: Floats) -> Bools:
    """Return (n,) whether a page was there before one round trip, the least that the kernel ever saw to that client."""
    found: Bools = plt_ms < contexts.number("min_rtt_ms")
    return found


def buckets_of(contexts: Contexts) -> Codes:
    """Return (n,) the bucket of each context's prefix, by its CRC; -1 for none."""
    if not len(contexts.prefix) or not contexts.prefixes:
        return np.full(len(contexts), -1)
    used, which = np.unique(contexts.prefix, return_inverse=True)
    codes = [zlib.crc32(contexts.prefixes[at].encode()) % BUCKETS if at >= 0 else -1 for at in used.tolist()]
    found: Codes = np.array(codes, dtype=np.int64)[which.reshape(-1)]
    return found
