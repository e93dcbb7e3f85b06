# SPDX-License-Identifier: MIT
"""Rate limits that hold: when may the next connection start?

Question   May a connection to this address start now, and if not, when?
Method     Strict spacing, no bursts, in three circles at once: all together, per host, per network (/24 or /48).
           A start takes its turn in every circle; the next one there waits out the circle's whole interval. A SYN that
           is repeated, since no answer came, is a start like any other: it books the next turn.
Promise    No window of one second holds more starts than the rate (or one, where the rate is below one a second).
           A rate that is no whole number is rounded down for that: 2.5 a second, evenly spaced, would put three
           starts into some seconds. All together that is kept to the packet: it counts when each had surely left,
           so that a start that was held up here cannot meet the next ones at the target.
Differs    from a token bucket, which lets a full bucket go at once: twice the rate in the second around it; from ZMap,
           whose sender threads each keep their own pace (zmap#903).

Rules for this file: pure; time is an argument, in seconds of any one clock.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from math import floor, inf

# Times since the epoch have steps of 0.24 us as binary fractions; four of them keep an interval from falling short.
CLOCK_GRAIN_S = 1e-6
# The window over which rates are promised, and the most by which a packet's time from our system call to the wire's
# other end may exceed its neighbours' on a busy host.
WINDOW_S, WINDOW_SLACK_S = 1.0, 0.002
# A start that comes late by less than this leaves the timetable as it is, so that a loop that looks up once a
# millisecond still reaches its rate.
CATCH_UP_S = 0.01
# Length of the networks that share a limit: the usual size of one operator's network, and the longest prefix that the
# Internet routes.
NETWORK_BITS = {4: 24, 6: 48}
# Forget idle hosts and networks when so many are known, and twice as many as were left the last time: memory stays in
# step with the calls under way, and sweeps are rare.
SWEEP_ABOVE = 4096


def interval_s(rate_per_s: float) -> float:
    """Return seconds between two starts; 0 for no limit."""
    if rate_per_s <= 0:
        return 0.0
    return 1 / (floor(rate_per_s) if rate_per_s >= 1 else rate_per_s) + CLOCK_GRAIN_S


@lru_cache(SWEEP_ABOVE)
def network_of(address: str) -> str:
    """Return the /24 or /48 that address is in."""
    parsed = ip_address(address)
    return str(ip_network((parsed, NETWORK_BITS[parsed.version]), strict=False))


@dataclass(slots=True)
class Circle:
    """One limit, kept separately for each key."""

    interval_s: float
    sweep_above: int = SWEEP_ABOVE
    _free_at: dict[str, float] = field(default_factory=dict)
    _sweep_above: int = 0

    def free_at(self, key: str) -> float:
        """Return when the next start is allowed."""
        return self._free_at.get(key, 0.0)

    def take(self, key: str, at: float) -> None:
        """Count a start."""
        if self.interval_s:
            self._free_at[key] = at + self.interval_s
            if len(self._free_at) > max(self._sweep_above, self.sweep_above):
                self._free_at = {k: free for k, free in self._free_at.items() if free > at}
                self._sweep_above = 2 * len(self._free_at)


class Pace:
    """The limit of all together: a timetable, and the times at which the last starts had surely left."""

    def __init__(self, rate_per_s: float) -> None:
        self._interval_s = interval_s(rate_per_s)
        self._most = max(floor(rate_per_s), 1)
        self._free_at = 0.0
        self._left: list[float] = []
        self._promised = 0

    def free_at(self) -> float:
        """Return when the next start is allowed; infinity while promised ones have to go first."""
        return inf if self._interval_s and self._promised >= self._most else self.next_turn()

    def next_turn(self) -> float:
        """Return the next time that is free, in s."""
        if not self._interval_s:
            return 0.0
        room = self._most - self._promised
        full = self._left[-room] + WINDOW_S + WINDOW_SLACK_S if 0 < room <= len(self._left) else 0.0
        return max(self._free_at, full)

    def take(self, at: float) -> None:
        """A start takes the turn at that time; `left` or `settled` say when it had gone."""
        if self._interval_s:
            late = self._free_at if at - self._free_at < CATCH_UP_S else at
            self._free_at = late + self._interval_s

    def promise(self, at: float) -> None:
        """Reserve a turn that lies ahead."""
        self._promised += 1
        if self._interval_s:
            self._free_at = at + self._interval_s

    def left(self, at: float) -> None:
        """Note that a start had gone by then."""
        if self._interval_s:
            insort(self._left, at)
            del self._left[: -self._most]

    def settled(self, at: float | None) -> None:
        """Note that a promised start had gone by then, or was not needed after all."""
        self._promised -= 1
        if at is not None:
            self.left(at)


class Spacing:
    """The three limits of a campaign, in starts per second; 0 is no limit."""

    def __init__(self, rate_per_s: float = 0, host_rate_per_s: float = 0, network_rate_per_s: float = 0) -> None:
        self._all = Pace(rate_per_s)
        self._hosts = Circle(interval_s(host_rate_per_s))
        self._networks = Circle(interval_s(network_rate_per_s))

    def open_at(self) -> float:
        """Return the earliest time at which any connection may start."""
        return self._all.free_at()

    def free_at(self, address: str) -> float:
        """Return the earliest time at which a connection to that address may start; 0.0 if it may at once."""
        return max(self._all.free_at(), self._local(address))

    def _local(self, address: str) -> float:
        return max(self._hosts.free_at(address), self._networks.free_at(self._network(address)))

    def admit(self, address: str, now: float) -> float:
        """Take the turn in every circle and return 0.0 (call `left` once it has gone), or return when to ask again."""
        free_at = self.free_at(address)
        if now < free_at:
            return free_at
        self._all.take(now)
        self._take_local(address, now)
        return 0.0

    def left(self, at: float) -> None:
        """Note that the admitted start had gone by then."""
        self._all.left(at)

    def book(self, address: str, now: float) -> float:
        """Take the next turn, now or later, and return its time (call `settled` once it has gone, or is not needed)."""
        at = max(self._all.next_turn(), self._local(address), now)
        self._all.promise(at)
        self._take_local(address, at)
        return at

    def settled(self, at: float | None) -> None:
        """The start that was booked had gone by then; None: it was not needed."""
        self._all.settled(at)

    def _take_local(self, address: str, at: float) -> None:
        self._hosts.take(address, at)
        self._networks.take(self._network(address), at)

    def _network(self, address: str) -> str:
        return network_of(address) if self._networks.interval_s else ""
