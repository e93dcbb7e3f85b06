# SPDX-License-Identifier: MIT
"""Who may probe how fast: attempts at parts of a campaign, each with a share of its rates.

Question   Which attempts may probe now, and with which share, so that all together never exceed the campaign's rate?
Method     A share is a fraction of 1, and all shares sum to 1 at most. An attempt that is silent for `LEASE_S` is
           taken off the list that workers read every `BEAT_S`; a worker that reads no new list for `LEASE_S` stops by
           itself. So its share, and its part, are free `GRACE_S` after it was taken off, whatever became of it: killed,
           hung, or cut off from us and alive.
Limits     A share is fixed when a part begins: where workers come or go, the rates follow as parts end. Clocks of
           machines are never compared.

Rules for this file: pure; time is an argument, in seconds of the coordinator's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from configtron.probe.spacing import WINDOW_S

# How often workers read the list and report that they live. A shorter time loads the scheduler, which answers each.
BEAT_S = 1.0
# Five beats: a busy scheduler or a network's hiccup takes some seconds, and an attempt lost for that is begun again.
LEASE_S = 5.0
# s after which an attempt that left the list has surely stopped. It stops by itself LEASE_S after it asked for the last
# list that it read. It may have asked a beat after that list was made. A second beat is for the answer's way, a third
# for a start under way.
GRACE_S = LEASE_S + 3 * BEAT_S
# An attempt does not begin with a share smaller than this part of an even one: it waits until another ends.
LEAST_SHARE = 0.5


@dataclass(slots=True)
class Attempt:
    """An attempt at a part.

    share    of the rates; 0 while it waits for one
    free_at  when another attempt can have its share and part; None until it has ended or was revoked
    number   of its next message
    """

    part: int
    heard_at: float
    share: float = 0.0
    free_at: float | None = None
    number: int = 1


class RateShares:
    """The attempts that wait, that may probe, and that may still be probing, by name."""

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}

    def begin(self, name: str, part: int, now: float) -> None:
        """Note an attempt that waits for a share."""
        self._attempts.setdefault(name, Attempt(part, now))

    def waiting(self) -> list[tuple[str, int]]:
        """Return the attempts that wait, and their parts."""
        return [(name, one.part) for name, one in self._attempts.items() if not one.share]

    def grant(self, name: str, slots: int) -> float:
        """Return the share of a waiting attempt, or 0.0 if it must go on waiting: its part is being probed, or no share
        is free."""
        waiting, taken = self._attempts[name], [one for one in self._attempts.values() if one.share]
        even = 1.0 / max(slots, 1)
        share = min(even, 1.0 - sum(one.share for one in taken))
        if share < LEAST_SHARE * even or any(one.part == waiting.part for one in taken):
            return 0.0
        waiting.share = share
        return share

    def active(self, name: str) -> Attempt | None:
        """Return an attempt that may probe; None for all others."""
        one = self._attempts.get(name)
        return one if one and one.share and one.free_at is None else None

    def listed(self) -> list[str]:
        """Return the attempts that may probe."""
        return [name for name in self._attempts if self.active(name)]

    def hear(self, name: str, now: float) -> None:
        """Note that an attempt lives."""
        if name in self._attempts:
            self._attempts[name].heard_at = now

    def drop(self, name: str) -> None:
        """Forget an attempt that waits."""
        del self._attempts[name]

    def revoke(self, name: str, now: float) -> None:
        """Take an attempt off the list; its share and part stay taken until it has surely stopped."""
        if one := self.active(name):
            one.free_at = now + GRACE_S

    def end(self, name: str, now: float) -> None:
        """Note that an attempt reports its end. Its share is free once no window counts its last starts."""
        if name in self._attempts:
            one = self._attempts[name]
            one.free_at = min(now + WINDOW_S, one.free_at or inf)

    def expire(self, now: float) -> list[int]:
        """Revoke silent attempts, and forget those that have surely stopped; return the parts of those revoked."""
        silent = [name for name, one in self._attempts.items() if one.free_at is None and now - one.heard_at > LEASE_S]
        revoked = [self._attempts[name].part for name in silent if self.active(name)]
        for name in silent:
            self.revoke(name, now)
        self._attempts = {
            name: one
            for name, one in self._attempts.items()
            if (one.share or name not in silent) and (one.free_at is None or now < one.free_at)
        }
        return revoked
