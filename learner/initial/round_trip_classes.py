# SPDX-License-Identifier: MIT
"""Classes of paths by their round trip: what is known of a client at ESTABLISHED, before its first byte is sent.

Question   Which class has a prefix, and a client whose prefix was never seen?
Method     A prefix has the class of its connections' median round trip; a prefix never seen that of its handshake's
           round trip, where this is known, else that of its network's median prefix.
Reads as   the number of a band of `CLASS_EDGES_MS`, as text; "" where nothing is known
Source     the bands of published live results (ALN), 10 to 600 ms
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.initial.end_states import EndStates
from configtron.learner.initial.naive_bayes import network_around

CLASS_EDGES_MS = (10.0, 25.0, 50.0, 100.0, 200.0, 400.0)


def class_of(rtt_ms: float) -> str:
    """Return the class of a round trip; "" for none."""
    return str(int(np.searchsorted(CLASS_EDGES_MS, rtt_ms, side="right"))) if rtt_ms == rtt_ms else ""


def medians_of(states: EndStates) -> dict[str, float]:
    """Return the median round trip of each prefix and of each network (of its prefixes' medians), ms."""
    known = states[~np.isnan(states.min_rtt_ms)]
    found = _medians(known.prefix.tolist(), known.min_rtt_ms.tolist())
    return found | _medians([network_around(prefix) for prefix in found], list(found.values()))


def _medians(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    grouped: dict[str, list[float]] = {}
    for name, value in zip(names, values, strict=True):
        grouped.setdefault(name, []).append(value)
    return {name: median(some) for name, some in grouped.items()}


def round_trips_of(states: EndStates, medians: Mapping[str, float]) -> Floats:
    """Return (n,) round trips of each row's client, ms: the median of its prefix, else the row's own, else its
    network's; NaN where nothing is known."""
    unknown = float("nan")
    rows = zip(states.prefix.tolist(), states.min_rtt_ms.tolist(), strict=True)
    return np.array([
        medians[prefix] if prefix in medians else
        rtt if rtt == rtt else medians.get(network_around(prefix), unknown)
        for prefix, rtt in rows
    ])  # fmt: skip


def classes_of_clients(states: EndStates, medians: Mapping[str, float]) -> list[str]:
    """Return the class of each row's client."""
    return [class_of(rtt) for rtt in round_trips_of(states, medians).tolist()]
