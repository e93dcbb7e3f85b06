# SPDX-License-Identifier: MIT
"""Outcomes as the columns that a policy learns from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.state import keep_as


@keep_as("Seen")
@dataclass(frozen=True, slots=True, eq=False)
class OutcomeColumns:
    """Outcomes as columns, (n,) each: table row, class, configuration, site, point (n, 3 + axes), ln(ms), how much it
    counts (1: whole, 0: it cannot be), and whose it is (`clients.buckets_of`, -1: of no client)."""

    row: Codes
    network: Codes
    configuration: Codes
    site: Codes
    point: Floats
    log_ms: Floats
    weight: Floats
    client: Codes

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, rows: slice | Codes) -> OutcomeColumns:
        return OutcomeColumns(*(getattr(self, name)[rows] for name in OutcomeColumns.__dataclass_fields__))


def no_outcomes() -> OutcomeColumns:
    """No outcomes."""
    none = np.zeros(0, dtype=np.int64)
    return OutcomeColumns(none, none, none, none, np.zeros((0, 3)), np.zeros(0), np.zeros(0), none)


def joined(parts: list[OutcomeColumns]) -> OutcomeColumns:
    """Return outcomes concatenated; empty ones do not fix the number of their points' coordinates."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    names = OutcomeColumns.__dataclass_fields__
    return OutcomeColumns(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
