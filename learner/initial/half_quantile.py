# SPDX-License-Identifier: MIT
"""The rule of use: half of the window that three of four connections of a client's place would pass, paced.

Question   With which window may a connection begin that has only a prediction behind it?
Method     Half of the 25 % quantile of the path's window (`censored_hierarchy.py`), sent over one round trip instead of
           at once, and only where that is more than the stack's own; else the stack is left alone. Careful Resume
           (RFC 9959) jumps to half of a saved window at most, paces it, validates it, and retreats on a loss; the
           quantile stands for what is saved. Where the handshake took longer than the prefix's round trip, a queue
           stands: other flows fill the path; what is right then is tried in configtron/studies (`trial_guest.py`).
Reads as   (n,) segments; 0: the untouched stack.
Fails as   nothing: without a model there is no window
Differs    from RFC 9959: what is saved is a prediction of a prefix, not a measurement of the same endpoint. The driver
           that puts windows in force paces and retreats; route metrics can do neither. The RFC resumes unchanged up to
           ten times the saved round trip.
Source     RFC 9959, Careful Resume; the quantile and the half were found on three worlds of the study `aln`
           (seeds 1, 101, 102), which its judged seeds do not hold
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.censored_hierarchy import WindowModel
from configtron.learner.initial.end_states import DEFAULT_WINDOW, EndStates

QUANTILE, PART, MOST_WINDOW = 0.25, 0.5, 100


def windows_of_clients(model: WindowModel, clients: EndStates) -> Codes:
    """Return (n,) initial windows of clients (`one_client`, or rows of prefix, time and handshake's round trip)."""
    return windows_of_quantiles(model.quantiles(clients, (QUANTILE,))[:, 0])


def windows_of_quantiles(quantiles: Floats) -> Codes:
    """Return (n,) initial windows of 25 % quantiles, segments; 0 where the stack's own is no less."""
    half = np.floor(np.minimum(PART * quantiles, MOST_WINDOW)).astype(np.int64)
    return np.where(half > DEFAULT_WINDOW, half, 0)
