# SPDX-License-Identifier: MIT
"""Transfers under rivals as a guest's orders, and their results; `trial_guest.py` runs them.

    found = performed_trials(arguments, "alone", trials)     parts of `EACH` trials, a boot each

Rules for this file: values and their text; nothing of sockets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from configtron.model.errors import BadInput
from configtron.model.records import canonical
from configtron.studies.initial_states.clients_world import Transfer
from configtron.studies.initial_states.guest_orders import GuestOrders
from configtron.studies.initial_states.transfer_orders import Transferred
from configtron.studies.registry.kinds import Arguments

GUEST = "configtron.studies.initial_states.trial_guest"
# Trials of a boot; beside a competing flow each takes as long as some ten alone.
EACH_ALONE, EACH_COMPETING = 600, 90
# A step of the phase: seconds, and round trips besides, no whole number of them.
PHASE_S, PHASE_TRIPS = 0.2, 1.37


class RivalTrial(NamedTuple):
    """One transfer under one rival.

    paced        its first window is sent over one round trip
    warm_bytes   of a transfer over the same path before it, which Linux's tcp_metrics remembers; 0: they are off
    competing    a cubic flow sends through the same queue
    saved_ms     saved round trip: a longer handshake shrinks the window (`trial_guest.under_queue`); 0: none does
    phase        how much later than the competing flow it begins, steps of `PHASE_S` and `PHASE_TRIPS`
    """

    transfer: Transfer
    arm: str
    paced: bool = False
    warm_bytes: int = 0
    competing: bool = False
    saved_ms: float = 0.0
    phase: float = 0.0

    @property
    def delay_s(self) -> float:
        """Return for how long it waits beside the competing flow, which has filled the queue."""
        return self.phase * (PHASE_S + PHASE_TRIPS * self.transfer.rtt_ms / 1e3)

    @property
    def horizon_s(self) -> float:
        """Return for how long the competing flow's bytes count: the same for every rival."""
        rtt_s, sending_s = self.transfer.rtt_ms / 1e3, self.transfer.size * 8e-3 / self.transfer.rate_kbit
        return min(20.0, max(0.5, 10.0 * rtt_s + 4.0 * sending_s))


class TrialResult(NamedTuple):
    """Result of a trial. competing_bytes: received from the competing flow within the horizon."""

    found: Transferred
    competing_bytes: int = 0


def trials_text(trials: Sequence[RivalTrial]) -> str:
    """Return a line, the same for equal trials."""
    return canonical([[list(one.transfer), *one[1:]] for one in trials])


def trials_of_text(text: str) -> list[RivalTrial]:
    """Return the inverse of `trials_text`. Errors: `BadInput`."""
    try:
        return [RivalTrial(Transfer(*first), *rest) for first, *rest in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise BadInput(f"no trials: {error}") from error


def trial_results_text(results: Sequence[TrialResult]) -> str:
    """Return a line of JSON a trial."""
    return "".join(canonical([list(one.found), one.competing_bytes]) + "\n" for one in results)


def trial_results_of(text: str) -> list[TrialResult]:
    """Return the inverse of `trial_results_text`. Errors: `BadInput`."""
    try:
        return [TrialResult(Transferred(*found), count) for found, count in map(json.loads, text.splitlines())]
    except (ValueError, TypeError) as error:
        raise BadInput(f"no results of trials: {error}") from error


def performed_trials(
    arguments: Arguments, name: str, trials: Sequence[RivalTrial]
) -> tuple[list[tuple[RivalTrial, TrialResult]], str]:
    """Return each trial with its result, failed ones left out, and which parts failed. Errors: `Missing`."""
    each = EACH_COMPETING if any(one.competing for one in trials) else EACH_ALONE
    orders = GuestOrders(GUEST, "trials", trials_text, trial_results_of, lambda one: one.found.reason)
    return orders.performed(arguments, name, trials, each)
