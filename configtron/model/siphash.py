# SPDX-License-Identifier: MIT
"""SipHash-2-4 of two words of 64 bits, for many second words at once.

Source     Aumasson and Bernstein, SipHash: a fast short-input PRF (2012); Linux, lib/siphash.c, siphash_2u64()
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

# SipHash's initial state: "somepseudorandomlygeneratedbytes".
_STATE = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
# The last word that is hashed: the message's length in bytes, two words, in the highest byte.
_LENGTH = 16 << 56


def hashes(key: tuple[int, int], first: int, seconds: Words) -> Words:
    """Return SipHash-2-4 of (first, second) for each second, (n,); uint64 wraps as in C."""
    states = zip(_STATE, key * 2, strict=True)
    v0, v1, v2, v3 = (np.full(len(seconds), of ^ word, dtype=np.uint64) for of, word in states)
    for word in (np.uint64(first), seconds, np.uint64(_LENGTH)):
        v3 ^= word
        v0, v1, v2, v3 = _round(*_round(v0, v1, v2, v3))
        v0 ^= word
    v2 ^= np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _round(v0: Words, v1: Words, v2: Words, v3: Words) -> tuple[Words, Words, Words, Words]:
    """Return the state after one SipRound."""
    v0 = v0 + v1
    v1 = _turned(v1, 13) ^ v0
    v0 = _turned(v0, 32)
    v2 = v2 + v3
    v3 = _turned(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _turned(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _turned(v1, 17) ^ v2
    v2 = _turned(v2, 32)
    return v0, v1, v2, v3


def _turned(words: Words, bits: int) -> Words:
    """Return the words rotated left."""
    return words << np.uint64(bits) | words >> np.uint64(64 - bits)
