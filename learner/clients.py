# SPDX-License-Identifier: MIT
"""Whose outcomes these are: prefixes as numbers that need no register."""

from __future__ import annotations

import zlib

import numpy as np

from configtron.learner.columns import Codes, Contexts

# Memory is bounded by so many; of a thousand prefixes one in sixty shares its bucket with another, as one client.
BUCKETS = 2**16


def buckets_of(contexts: Contexts) -> Codes:
    """(n,) the bucket of each context's prefix, by its CRC; -1 for none."""
    if not len(contexts.prefix) or not contexts.prefixes:
        return np.full(len(contexts), -1)
    used, which = np.unique(contexts.prefix, return_inverse=True)
    codes = [zlib.crc32(contexts.prefixes[at].encode()) % BUCKETS if at >= 0 else -1 for at in used.tolist()]
    found: Codes = np.array(codes, dtype=np.int64)[which.reshape(-1)]
    return found
