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
Processes  The state is numbers in cells. Several processes may map the same cells (`probe/wire/shared_spacing.py`).
Differs    from a token bucket, which lets a full bucket go at once: twice the rate in the second around it; from ZMap,
           whose sender threads each keep their own pace (zmap#903).

Rules for this file: pure; time is an argument, in seconds of any one clock.
"""

from __future__ import annotations

from array import array
from contextlib import AbstractContextManager, nullcontext
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
# Where one call at a time is made: vantage, address, whether the call holds a handshake.
Place = tuple[str, str, bool]


def interval_s(rate_per_s: float) -> float:
    """Return seconds between two starts; 0 for no limit."""
    if rate_per_s <= 0:
        return 0.0
    return 1 / (floor(rate_per_s) if rate_per_s >= 1 else rate_per_s) + CLOCK_GRAIN_S


def most_starts(rate_per_s: float) -> int:
    """Return the most starts in any second; `CLOCK_GRAIN_S` allows no more than a million."""
    return min(max(floor(rate_per_s), 1), floor(1 / CLOCK_GRAIN_S))


@lru_cache(SWEEP_ABOVE)
def network_of(address: str) -> str:
    """Return the /24 or /48 that address is in."""
    parsed = ip_address(address)
    return str(ip_network((parsed, NETWORK_BITS[parsed.version]), strict=False))


class Circle:
    """One limit, kept separately for each key."""

    def __init__(self, rate_per_s: float, sweep_above: int = SWEEP_ABOVE) -> None:
        self.interval_s = interval_s(rate_per_s)
        self._free_at: dict[str, float] = {}
        self._least = self._sweep_above = sweep_above

    def free_at(self, key: str) -> float:
        """Return when the next start is allowed."""
        return self._free_at.get(key, 0.0)

    def take(self, key: str, at: float) -> None:
        """Count a start."""
        if self.interval_s:
            self._free_at[key] = at + self.interval_s
            if len(self._free_at) > self._sweep_above:
                self._free_at = {k: free for k, free in self._free_at.items() if free > at}
                self._sweep_above = max(2 * len(self._free_at), self._least)


class Pace:
    """The limit of all together: a timetable, and the times at which the last starts had surely left.

    promised  by process: starts that were admitted or booked, and have not left
    head      the time of the next allowed start; how many starts have left
    left      `most_starts` times at which the last starts had left, a ring in the order of time
    process   the number of this process, from 0
    """

    def __init__(
        self,
        rate_per_s: float,
        promised: array[float] | memoryview[float],
        head: array[float] | memoryview[float],
        left: array[float] | memoryview[float],
        process: int = 0,
    ) -> None:
        self._interval_s, self._most, self._process = interval_s(rate_per_s), most_starts(rate_per_s), process
        self._promised, self._head, self._left = promised, head, left

    def free_at(self) -> float:
        """Return when the next start is allowed; infinity while promised ones have to go first."""
        return inf if self._interval_s and sum(self._promised) >= self._most else self.next_turn()

    def next_turn(self) -> float:
        """Return the next time that is free, in s."""
        if not self._interval_s:
            return 0.0
        room, end = self._most - int(sum(self._promised)), int(self._head[1])
        full = self._left[(end - room) % self._most] + WINDOW_S + WINDOW_SLACK_S if 0 < room <= end else 0.0
        return max(self._head[0], full)

    def take(self, at: float) -> None:
        """Take a turn now."""
        if self._interval_s:
            self._promised[self._process] += 1
            late = self._head[0] if at - self._head[0] < CATCH_UP_S else at
            self._head[0] = late + self._interval_s

    def promise(self, at: float) -> None:
        """Reserve a turn that lies ahead."""
        if self._interval_s:
            self._promised[self._process] += 1
            self._head[0] = at + self._interval_s

    def settled(self, at: float | None) -> None:
        """Note that a start had gone by then, or was not needed after all."""
        if self._interval_s:
            if at is not None:
                self._note(at)
            self._promised[self._process] -= 1

    def bury(self, process: int, now: float) -> None:
        """Count all that a process had promised as gone."""
        while self._promised[process] > 0:
            self._note(now)
            self._promised[process] -= 1

    def _note(self, at: float) -> None:
        left, most, end = self._left, self._most, int(self._head[1])
        if at <= left[end % most]:
            # Older than all that are kept.
            return
        place = end
        while end - place < most - 1 and left[(place - 1) % most] > at:
            left[place % most] = left[(place - 1) % most]
            place -= 1
        left[place % most] = at
        self._head[1] = end + 1


class Spacing:
    """The three limits of a campaign, in starts per second; 0 is no limit."""

    # Where other processes start too, look again after so long whether they have let go of what is waited for, s.
    look_again_s = inf

    def __init__(self, rate_per_s: float = 0, host_rate_per_s: float = 0, network_rate_per_s: float = 0) -> None:
        promised, head, left = (array("d", bytes(8 * count)) for count in (1, 2, most_starts(rate_per_s)))
        pace = Pace(rate_per_s, promised, head, left)
        self._limit_by(pace, Circle(host_rate_per_s), Circle(network_rate_per_s), nullcontext())

    def _limit_by(self, pace: Pace, hosts: Circle, networks: Circle, lock: AbstractContextManager[object]) -> None:
        self._pace, self._hosts, self._networks, self._lock = pace, hosts, networks, lock
        self._refused_at = 0.0

    def open_at(self) -> float:
        """Return about when any connection may start: `admit` decides."""
        free_at = self._pace.free_at()
        return self._refused_at + self.look_again_s if free_at == inf else free_at

    def free_at(self, address: str) -> float:
        """Return the earliest time at which a connection to that address may start; 0.0 if it may at once."""
        return max(self._pace.free_at(), self._local(address))

    def admit(self, address: str, now: float) -> float:
        """Take the turn in every circle and return 0.0 (call `settled` when it has gone), or return when to ask
        again."""
        with self._lock:
            free_at = self.free_at(address)
            if now >= free_at:
                self._pace.take(now)
                self._take_local(address, now)
                return 0.0
        self._refused_at = now
        return now + self.look_again_s if free_at == inf else free_at

    def book(self, address: str, now: float) -> float:
        """Take the next turn, now or later, and return its time (call `settled` when it has gone or is not needed)."""
        with self._lock:
            at = max(self._pace.next_turn(), self._local(address), now)
            self._pace.promise(at)
            self._take_local(address, at)
        return at

    def settled(self, at: float | None) -> None:
        """Note that an admitted or booked start had gone by then; None: it was not needed."""
        with self._lock:
            self._pace.settled(at)

    def claim(self, place: Place) -> bool:
        """Take a place, or keep it; False while another process is there: here is none."""
        return True

    def release(self, place: Place) -> None:
        """Leave a place, if it was taken."""

    def _local(self, address: str) -> float:
        return max(self._hosts.free_at(address), self._networks.free_at(self._network(address)))

    def _take_local(self, address: str, at: float) -> None:
        self._hosts.take(address, at)
        self._networks.take(self._network(address), at)

    def _network(self, address: str) -> str:
        return network_of(address) if self._networks.interval_s else ""
