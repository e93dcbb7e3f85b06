# SPDX-License-Identifier: MIT
"""The judge's own draw: SipHash-2-4 and cumulative weights, written apart from the product's."""

from __future__ import annotations

from functools import lru_cache

MASK = 2**64 - 1


def slice_of(mix: tuple[tuple[str, int], ...], at: int) -> int:
    """Return the place of the profile whose cumulative weight exceeds `at`."""
    for place, (_, weight) in enumerate(mix):
        if at < weight:
            return place
        at -= weight
    raise AssertionError("the weights of a mix do not sum to 65536")


@lru_cache(100_000)
def siphash(key: bytes, first: int, second: int) -> int:
    """Return SipHash-2-4 of two words (Aumasson and Bernstein 2012), written apart from the product's."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    for word in (first, second, 16 << 56):
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[int], number: int) -> None:
    for _ in range(number):
        for a, b, turn, other in ((0, 1, 13, 32), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 32)):
            v[a] = v[a] + v[b] & MASK
            v[b] = (v[b] << turn | v[b] >> (64 - turn)) & MASK ^ v[a]
            v[a] = (v[a] << other | v[a] >> (64 - other)) & MASK if other else v[a]
