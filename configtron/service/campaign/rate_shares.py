# SPDX-License-Identifier: MIT
"""Who may probe how fast: leases on parts of a campaign, each with a fraction of its rates.

Question   Which attempts may probe now, and with which share, so that all together never exceed the campaign's rate?
Method     A lease is a fraction of 1, and the fractions of all leases sum to 1 at most. An attempt that is silent for
           `LEASE_S` is taken off the list that workers read every `BEAT_S`; a worker that reads no new list for
           `LEASE_S` stops by itself. So its fraction, and its part, are free `GRACE_S` after it was taken off, whatever
           became of it: killed, hung, or cut off from us and alive.
Limits     A share is fixed when a part begins: where workers come or go, the rates follow as parts end. Clocks of
           machines are never compared.

Rules for this file: pure; time is an argument, in seconds of the coordinator's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

# How often workers read the list and say that they live. Shorter costs the scheduler, which answers each of them.
BEAT_S = 1.0
# Five beats: a busy scheduler or a network's hiccup takes some seconds, and an attempt lost for that is begun again.
LEASE_S = 5.0
# After an attempt left the list: it stops by itself LEASE_S after the last list that it read, which it may have asked
# for a beat after it was made; one more for the answer's way, and one for what was just starting.
GRACE_S = LEASE_S + 3 * BEAT_S
# The window over which rates are promised (`probe/spacing.py`).
SECOND_S = 1.0
# A share smaller than this part of an even one is not worth to begin with: wait until another ends.
LEAST_SHARE = 0.5


@dataclass(slots=True)
class PartLease:
    """One attempt at a part; `free_at`: when its share and part can be given on, None while it is on the list."""

    part: int
    share: float
    heard_at: float
    free_at: float | None = None


@dataclass(slots=True)
class LeaseTable:
    """All leases that hold, and those that may still be in use."""

    _held: dict[str, PartLease] = field(default_factory=dict)

    def grant(self, attempt: str, part: int, slots: int, now: float) -> float:
        """Return the share of a new lease, or 0.0 if it must wait: the part is leased, or no share is free."""
        free = 1.0 - sum(lease.share for lease in self._held.values())
        even = 1.0 / max(slots, 1)
        share = min(even, free)
        if share < LEAST_SHARE * even or any(lease.part == part for lease in self._held.values()):
            return 0.0
        self._held[attempt] = PartLease(part, share, now)
        return share

    def hear(self, attempt: str, now: float) -> None:
        """Note that an attempt lives."""
        if attempt in self._held:
            self._held[attempt].heard_at = now

    def active(self, attempt: str) -> bool:
        """Return whether a lease is on the list."""
        return attempt in self._held and self._held[attempt].free_at is None

    def listed(self) -> list[str]:
        """Return the attempts that may probe."""
        return [attempt for attempt in self._held if self.active(attempt)]

    def revoke(self, attempt: str, now: float) -> None:
        """Take an attempt off the list; its share and part stay taken until it has surely stopped."""
        if self.active(attempt):
            self._held[attempt].free_at = now + GRACE_S

    def end(self, attempt: str, now: float) -> None:
        """An attempt reported that it has stopped: in the second after its last start its share starts nothing else."""
        if attempt in self._held:
            lease = self._held[attempt]
            lease.free_at = min(now + SECOND_S, lease.free_at or inf)

    def expire(self, now: float) -> list[str]:
        """Revoke silent attempts, drop those that have surely stopped; return the attempts that were revoked."""
        silent = [a for a, lease in self._held.items() if lease.free_at is None and now - lease.heard_at > LEASE_S]
        for attempt in silent:
            self.revoke(attempt, now)
        self._held = {a: lease for a, lease in self._held.items() if lease.free_at is None or now < lease.free_at}
        return silent

    def __len__(self) -> int:
        return len(self._held)
