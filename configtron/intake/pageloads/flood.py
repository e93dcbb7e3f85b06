# SPDX-License-Identifier: MIT
"""How many beacons an address, a prefix and all together may send: token buckets in bounded memory.

Question   Does this sender, or do all senders together, send more than page loads explain?
Method     A bucket fills by `rate` a second up to `burst`; each beacon takes one. A flood from one address empties its
           own bucket and no other: the address is asked first, so that its beacons cost its prefix nothing.
Stop when  `MOST` buckets: the one unused for longest gives way, which forgives that sender its past.
Reads as   "" or a reason of `reasons.FLOODS`.
Source     RFC 2697 (token buckets)
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

# Buckets that are remembered.
MOST = 50_000


@dataclass(frozen=True, slots=True)
class SendLimit:
    """Beacons per second in the long run, and at once. A page sends two; a browser restores a dozen tabs at a time."""

    per_s: float
    burst: float


ADDRESS, PREFIX, TOTAL = SendLimit(5.0, 60.0), SendLimit(200.0, 1_000.0), SendLimit(20_000.0, 40_000.0)


class Buckets:
    """Buckets by key, all with one limit."""

    def __init__(self, limit: SendLimit, most: int = MOST) -> None:
        self._per_ns, self._burst, self._most = limit.per_s / 1e9, limit.burst, most
        self._left: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def take(self, key: bytes, now_ns: int) -> bool:
        """Return whether this key has one left, and take it; `now_ns` of a clock that is never set back."""
        found = self._left.get(key)
        if found is None:
            if len(self._left) >= self._most:
                self._left.popitem(last=False)
            left = self._burst
        else:
            self._left.move_to_end(key)
            left = min(self._burst, found[0] + (now_ns - found[1]) * self._per_ns)
        taken = left >= 1.0
        self._left[key] = (left - 1.0 if taken else left, now_ns)
        return taken


class FloodLimits:
    """The three limits together."""

    def __init__(self, address: SendLimit = ADDRESS, prefix: SendLimit = PREFIX, total: SendLimit = TOTAL) -> None:
        self._address, self._prefix, self._total = Buckets(address), Buckets(prefix), Buckets(total, 1)

    def fault(self, address: bytes, now_ns: int) -> str:
        """Return why this beacon is one too many; "" if it is not. `address` packed, 4 or 16 bytes."""
        own, prefix = (address, address[:3]) if len(address) == 4 else (address[:8], address[:6])
        if not self._address.take(own, now_ns):
            return "flood-address"
        if not self._prefix.take(prefix, now_ns):
            return "flood-prefix"
        return "" if self._total.take(b"", now_ns) else "flood-total"
