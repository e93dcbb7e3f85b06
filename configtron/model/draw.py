# SPDX-License-Identifier: MIT
"""Which profile of its class a client gets in an epoch: the twin of `kmod/draw.h`, number for number.

Question   Which arm has a client in an epoch, and how likely was it?
Method     SipHash-2-4 of (epoch, unit) under the plan's key; its low 16 bits are the client's slice of 65536, and the
           mix's cumulative weights divide those among up to eight profiles. The same hash of epoch 2^64 - 1 draws
           the holdback: below the plan's share, in every epoch and on every server that has the key.
Unit       an IPv4 address as 0x0000ffff << 32 | address (v4-mapped IPv6 the same), of IPv6 the /64
Reads as   the arm, and the product of its weight and of the share that is not held back: the exact propensity, since
           the class is known before the arm is drawn
Fails as   BadInput: a mix of no profile or of more than eight, weights that do not add up, a share out of range
Differs    from a hash of the client's address alone: the next epoch draws anew, so that no client keeps an arm for ever
Source     Aumasson and Bernstein, SipHash: a fast short-input PRF (2012); Linux, lib/siphash.c, siphash_2u64()

A page over IPv4 and IPv6 (Happy Eyeballs, RFC 8305) is two units and may have two arms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from configtron.model.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from configtron.model.siphash import Words

# The numbers of kmod/draw.h.
ARMS, BANDS, PARTS = 8, 4, 1 << 16
HELD_EPOCH = (1 << 64) - 1
# The arm of a client that is held back, in `draws`.
HELD = -1
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Key:
    """A key of 128 bits as two words. Secret while its epochs last; never printed."""

    first: int = field(repr=False)
    second: int = field(repr=False)

    def __post_init__(self) -> None:
        if not (0 <= self.first <= _WORD and 0 <= self.second <= _WORD):
            raise BadInput("a key of the draw has two words of 64 bits")

    @classmethod
    def of(cls, octets: bytes) -> Key:
        """Return the key of 16 bytes, read as SipHash reads them. Errors: `BadInput`."""
        if len(octets) != 16:
            raise BadInput(f"a key of the draw has 16 bytes, not {len(octets)}")
        return cls(int.from_bytes(octets[:8], "little"), int.from_bytes(octets[8:], "little"))


@dataclass(frozen=True, slots=True)
class Mix:
    """The profiles of a class, by name, and how many parts of 65536 each has. An arm is a place in `profiles`."""

    profiles: tuple[str, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.profiles) <= ARMS or len(self.profiles) != len(self.weights):
            raise BadInput(f"a mix has 1 to {ARMS} profiles with a weight each, not {len(self.profiles)}")
        if min(self.weights) < 1 or sum(self.weights) != PARTS:
            raise BadInput(f"the weights {self.weights} of a mix: each is 1 at least, their sum is {PARTS}")

    @classmethod
    def of(cls, shares: Sequence[tuple[str, float]]) -> Mix:
        """Return the mix of profiles with shares in any unit, by largest remainders; none for less than half a part.

        Errors: `BadInput`.
        """
        if not shares or not all(0.0 <= share < float("inf") for _, share in shares):
            raise BadInput("the shares of a mix are finite, and 0 at least")
        weights = _rounded([share for _, share in shares])
        kept = [(name, weight) for (name, _), weight in zip(shares, weights, strict=True) if weight]
        return cls(tuple(name for name, _ in kept), tuple(weight for _, weight in kept))

    @property
    def upto(self) -> tuple[int, ...]:
        """Return the last slice of each arm, as `struct mix` has them, the unused arms too."""
        ends = [end - 1 for end in accumulate(self.weights)]
        return (*ends, *[PARTS - 1] * (ARMS - len(ends)))


@dataclass(frozen=True, slots=True)
class Plan:
    """What all classes share in an epoch.

    not_after      end of the lease: ns of CLOCK_BOOTTIME of the host that it is loaded on
    holdback       parts of 65536 that are held back; they get `held_profile`, "" for the untouched stack
    bands          (round trip in us up to which, class), rising: for clients that no prefix holds
    """

    key: Key
    epoch: int
    not_after: int
    holdback: int = 0
    held_profile: str = ""
    bands: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.epoch < HELD_EPOCH:
            raise BadInput(f"epoch {self.epoch} of a plan: it lies between 0 and 2^64 - 2")
        if not 0 <= self.holdback <= PARTS:
            raise BadInput(f"holdback {self.holdback} of a plan: it counts parts of {PARTS}")
        ends = [rtt_us for rtt_us, _ in self.bands]
        if len(ends) > BANDS or ends != sorted(set(ends)) or (ends and not 0 < ends[0] <= ends[-1] < 1 << 32):
            raise BadInput(f"the bands {ends} of a plan: {BANDS} at most, round trips in us, rising")

    def band(self, rtt_us: int) -> int:
        """Return the band of a handshake's round trip, from 1; 0 for none, as for an unknown round trip (0 us)."""
        at = bisect_left([end for end, _ in self.bands], rtt_us)
        return at + 1 if rtt_us > 0 and at < len(self.bands) else 0


@dataclass(frozen=True, slots=True)
class PlanState:
    """The plan in force, as a driver reads it back.

    not_after   end of the lease: ns of CLOCK_BOOTTIME
    holdback    parts of 65536
    classes     how many profiles have a mix
    loaded      whether another plan waits for its turn
    """

    epoch: int
    not_after: int
    holdback: int
    classes: int
    loaded: bool


class Drawn(NamedTuple):
    """A client's arm in an epoch, None where it is held back; the probability of this; whether it is held back."""

    arm: int | None
    propensity: float
    held: bool


def unit_of(address: str | IPv4Address | IPv6Address) -> int:
    """Return the unit of a client's address, 64 bits. Errors: `BadInput`."""
    try:
        parsed = ip_address(address)
    except ValueError as error:
        raise BadInput(f"{address!r} is no IP address") from error
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return int(parsed) >> 64
    return 0xFFFF << 32 | int(parsed) & 0xFFFF_FFFF


def propensity(plan: Plan, mix: Mix, arm: int | None) -> float:
    """Return how likely an arm of a mix is, None for a client that is held back."""
    share = plan.holdback / PARTS
    return share if arm is None else mix.weights[arm] / PARTS * (1.0 - share)


def draw(plan: Plan, mix: Mix, unit: int) -> Drawn:
    """Draw for one unit."""
    import numpy as np

    arms, propensities = draws(plan, mix, np.array([unit], dtype=np.uint64))
    held = int(arms[0]) == HELD
    return Drawn(None if held else int(arms[0]), float(propensities[0]), held)


def draws(plan: Plan, mix: Mix, units: Words) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float64]]:
    """Draw for many units, (n,): the arm of each, `HELD` where it is held back, and its propensity."""
    import numpy as np

    slices = _slices(plan.key, plan.epoch, units)
    arms = np.searchsorted(np.array(mix.upto[: ARMS - 1]), slices.astype(np.int64)).astype(np.int8)
    chosen = np.array([propensity(plan, mix, arm) for arm in range(len(mix.weights))])
    held = is_held(plan, units)
    propensities = np.where(held, propensity(plan, mix, None), chosen[arms])
    return np.where(held, np.int8(HELD), arms), propensities


def is_held(plan: Plan, units: Words) -> npt.NDArray[np.bool_]:
    """Return which of the units, (n,), are held back: the same in all epochs of a key."""
    import numpy as np

    return _slices(plan.key, HELD_EPOCH, units) < np.uint64(plan.holdback)


def _slices(key: Key, epoch: int, units: Words) -> Words:
    """Return the slices of units in an epoch, (n,)."""
    import numpy as np

    from configtron.model.siphash import hashes

    return hashes((key.first, key.second), epoch, units) & np.uint64(PARTS - 1)


def _rounded(shares: Sequence[float]) -> list[int]:
    """Return parts of 65536 that add up, by largest remainders; of equal ones the first."""
    total = sum(shares)
    if total <= 0.0:
        raise BadInput("the shares of a mix add up to 0")
    exact = [share / total * PARTS for share in shares]
    weights = [int(part) for part in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: weights[i] - exact[i])
    for i in by_remainder[: PARTS - sum(weights)]:
        weights[i] += 1
    return weights
