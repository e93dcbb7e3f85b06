# SPDX-License-Identifier: MIT
"""Outcomes as the columns that a policy learns from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.state import keep


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Seen:
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

    def __getitem__(self, rows: slice | Codes) -> Seen:
        return Seen(*(getattr(self, name)[rows] for name in Seen.__dataclass_fields__))


def nothing_seen() -> Seen:
    """No outcomes."""
    none = np.zeros(0, dtype=np.int64)
    return Seen(none, none, none, none, np.zeros((0, 3)), np.zeros(0), np.zeros(0), none)


def joined(parts: list[Seen]) -> Seen:
    """Return outcomes concatenated; empty ones do not fix the number of their points' coordinates."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    names = Seen.__dataclass_fields__
    return Seen(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
