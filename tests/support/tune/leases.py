# SPDX-License-Identifier: MIT
"""The lease of the transaction in force, as its journal has it: when it ends, and one whose time has passed at once."""

from __future__ import annotations

from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime

from configtron.db.tuning import Tuning
from configtron.tune.journal import LEASED


def lease_left_s(database: Path) -> float:
    """Return how long the lease lasts yet, s."""
    with Tuning(database) as journal:
        (act,) = journal.acts(LEASED)
    return act.expires_s - clock_gettime(CLOCK_BOOTTIME)


def shorten_lease(database: Path, left_s: float) -> None:
    """Let the lease end in so many s, as if the time before had passed; where none is in force, do nothing."""
    with Tuning(database) as journal:
        for act in journal.acts(LEASED):
            journal.renew(act.id, clock_gettime(CLOCK_BOOTTIME) + left_s)
