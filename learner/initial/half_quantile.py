# SPDX-License-Identifier: MIT
"""The rule of use: half of the window that three of four connections of a client's place would pass, paced.

Question   With which window may a connection begin that has only a prediction behind it?
Method     Half of the 25 % quantile of the path's window (`censored_hierarchy.py`), sent over one round trip instead of
           at once, and only where that is more than the stack's own; else the stack is left alone. Careful Resume
           (RFC 9959) jumps to half of a saved window at most, paces it, validates it, and retreats on a loss; the
           quantile stands for what is saved. Where the handshake took longer than the prefix's round trip, a queue
           stands: other flows fill the path, the window shrinks as the round trip grew (`under_queue`), and its rate is
           kept for a round trip more, until all of it is acknowledged (`paced_round_trips`).
Reads as   (n,) segments; 0: the untouched stack. `pacing_bytes_s` is the rate of the first round trip.
Fails as   nothing: without a model there is no window
Differs    from RFC 9959: what is saved is a prediction of a prefix, not a measurement of the same endpoint. The driver
           that puts windows in force paces and retreats; route metrics can do neither. The RFC resumes unchanged up to
           ten times the saved round trip.
Source     RFC 9959, Careful Resume; the quantile and the half were found on three worlds of the study `aln`
           (seeds 1, 101, 102), which its judged seeds do not hold
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.censored_hierarchy import WindowModel
from configtron.learner.initial.end_states import DEFAULT_WINDOW, SEGMENT_BYTES, EndStates
from configtron.learner.initial.naive_bayes import network_around

QUANTILE, PART, MOST_WINDOW = 0.25, 0.5, 100
# Exponent by which a longer handshake shrinks the window, and over how many saved round trips a handshake says that a
# queue stands: found beside a cubic flow on the seeds 301 and 304.
SHRINKING, QUEUED = 1.5, 1.15


def windows_of_clients(model: WindowModel, clients: EndStates) -> Codes:
    """Return (n,) initial windows of clients (`one_client`, or rows of prefix, time and handshake's round trip)."""
    return windows_of_quantiles(model.quantiles(clients, (QUANTILE,))[:, 0])


def windows_of_quantiles(quantiles: Floats) -> Codes:
    """Return (n,) initial windows of 25 % quantiles, segments; 0 where the stack's own is no less."""
    half = np.floor(np.minimum(PART * quantiles, MOST_WINDOW)).astype(np.int64)
    return np.where(half > DEFAULT_WINDOW, half, 0)


def saved_round_trips(medians: Mapping[str, float], prefixes: Sequence[str]) -> Floats:
    """Return (n,) median round trips, ms, of each prefix, else of its network; NaN where neither is known.

    medians   of prefixes and networks (`round_trip_classes.medians_of`)
    """
    unknown = float("nan")
    return np.array([medians.get(prefix, medians.get(network_around(prefix), unknown)) for prefix in prefixes])


def under_queue(window: int, saved_ms: float, handshake_ms: float) -> int:
    """Return a window shrunk by the round trip of the handshake over the saved one; 0 where the stack's own is no less.

    A shorter handshake, or no saved round trip (0 or NaN), leaves the window as it is.
    """
    if not handshake_ms > saved_ms > 0:
        return window
    left = int(window * (saved_ms / handshake_ms) ** SHRINKING)
    return left if left > DEFAULT_WINDOW else 0


def paced_round_trips(saved_ms: float, handshake_ms: float) -> float:
    """Return for how many of its handshake's round trips a connection keeps the first one's rate: 1 over an empty
    queue, or where no round trip is saved (0 or NaN)."""
    return 2.0 if saved_ms > 0 and handshake_ms > QUEUED * saved_ms else 1.0


def pacing_bytes_s(window: int, rtt_ms: float) -> int:
    """Return the rate at which a window takes one round trip, bytes/s."""
    return max(1, int(window * SEGMENT_BYTES * 1e3 / rtt_ms))
