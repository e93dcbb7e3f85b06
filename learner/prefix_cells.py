# SPDX-License-Identifier: MIT
"""Cells of an address prefix: how the baselines without network classes divide clients.

A prefix falls into one of `buckets` by its CRC, so that memory is bounded and a row needs no register; two prefixes in
one bucket are one client, rare while buckets outnumber them. Sites differ several-fold in page load time, so each load
counts relative to its site's mean so far.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.parts import OneCell
from configtron.learner.setting import Setting
from configtron.learner.state import check_shapes, read
from configtron.learner.tally import Tally, no_tally

# Rows of the table unless another number is given.
BUCKETS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class PrefixCellsState:
    """Saved: loads and sum of ln(ms) of each site, sums per cell of ln(ms) relative to the site."""

    site_count_: Floats
    site_total_: Floats
    tally_: Tally


class PrefixCells(OneCell):
    """Cells by prefix, and the loads in each. buckets: rows of the table."""

    def __init__(self, sites: int, configurations: int, *, buckets: int = BUCKETS):
        self.rows = buckets
        self.site_count_ = np.zeros(sites + 1)
        self.site_total_ = np.zeros(sites + 1)
        self.tally_ = no_tally(buckets, configurations)

    @classmethod
    def of(cls, setting: Setting) -> PrefixCells:
        """Return the cells of a setting."""
        return cls(len(setting.sites), len(setting.grid))

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        """Return (cell, -1), (n,) each; -1 for a client without a prefix."""
        none = np.full(len(contexts), -1)
        if not len(contexts.prefix):
            return none, none
        codes = [zlib.crc32(prefix.encode()) % self.rows for prefix in contexts.prefixes]
        return np.array([*codes, -1], dtype=np.int64)[contexts.prefix], none

    def take(self, seen: OutcomeColumns, updates: int) -> OutcomeColumns:
        """Count outcomes, each relative to its site's mean so far; return them as they are."""
        self.tally_ = self.tally_.plus(seen.row, seen.configuration, self._relative(seen))
        return seen

    def _relative(self, seen: OutcomeColumns) -> Floats:
        """Return (n,) ln(ms) less the site's mean so far, these loads included."""
        width = len(self.site_count_)
        self.site_count_ = self.site_count_ + np.bincount(seen.site, minlength=width)
        self.site_total_ = self.site_total_ + np.bincount(seen.site, weights=seen.log_ms, minlength=width)
        found: Floats = seen.log_ms - (self.site_total_ / np.maximum(self.site_count_, 1.0))[seen.site]
        return found

    def state(self) -> PrefixCellsState:
        """Return the state to save."""
        return PrefixCellsState(self.site_count_, self.site_total_, self.tally_)

    def load(self, saved: dict[str, Any]) -> None:
        """Take over a saved state. Errors: `BadInput` where it does not fit."""
        state = read(PrefixCellsState, saved)
        check_shapes("tally_", self.tally_.count.shape, state.tally_.count, state.tally_.total, state.tally_.square)
        check_shapes("site_count_", self.site_count_.shape, state.site_count_, state.site_total_)
        self.site_count_, self.site_total_, self.tally_ = state.site_count_, state.site_total_, state.tally_
