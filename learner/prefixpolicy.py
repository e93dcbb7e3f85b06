# SPDX-License-Identifier: MIT
"""Policies that tell clients apart by address prefix alone: the baselines without network classes.

A prefix falls into one of `buckets` by its CRC, so that memory is bounded and a row needs no register; two prefixes in
one bucket are one client, rare while buckets outnumber them. Sites differ several-fold in page load time, so each load
is taken relative to its site's mean so far.
"""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

import numpy as np

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.policy import Seen, TablePolicy


class PrefixPolicy(TablePolicy):
    """A table policy over prefixes. buckets: rows of the table."""

    STATE: ClassVar[tuple[str, ...]] = ("site_count_", "site_total_")

    def __init__(self, *given: Any, buckets: int = 1024, **more: Any):
        super().__init__(*given, **more)
        self.buckets = buckets
        self.site_count_ = np.zeros(len(self.sites) + 1)
        self.site_total_ = np.zeros(len(self.sites) + 1)

    @property
    def rows(self) -> int:
        """Buckets."""
        return self.buckets

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        nobody = np.full(len(contexts), -1)
        if not len(contexts.prefix):
            return nobody, nobody
        codes = [zlib.crc32(prefix.encode()) % self.buckets for prefix in contexts.prefixes]
        return np.array([*codes, -1], dtype=np.int64)[contexts.prefix], nobody

    def relative(self, seen: Seen) -> Floats:
        """(n,) ln(ms) less the site's mean so far, these loads included."""
        width = len(self.site_count_)
        self.site_count_ = self.site_count_ + np.bincount(seen.site, minlength=width)
        self.site_total_ = self.site_total_ + np.bincount(seen.site, weights=seen.log_ms, minlength=width)
        found: Floats = seen.log_ms - (self.site_total_ / np.maximum(self.site_count_, 1.0))[seen.site]
        return found
