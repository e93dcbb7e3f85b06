"""Rate limits that hold: when may the next connection start?

Question   May a connection to this address start now, and if not, when?
Method     Strict spacing, no bursts, in three circles at once: all together, per host, per network (/24 or /48).
           A start takes its turn in every circle; the next one there waits out the circle's whole interval.
Promise    No window of one second holds more starts than the rate (or one, where the rate is below one a second).
           A rate that is no whole number is rounded down for that: 2.5 a second, evenly spaced, would put three
           starts into some seconds.
Differs    from a token bucket, which lets a full bucket go at once: twice the rate in the second around it.

Rules for this file: pure; time is an argument, in seconds of any one clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from math import floor

# Times since the epoch have steps of 0.24 us as binary fractions; four of them keep an interval from falling short.
CLOCK_GRAIN_S = 1e-6
# Length of the networks that share a limit: what one operator usually runs, and the longest the Internet routes.
NETWORK_BITS = {4: 24, 6: 48}
# Forget idle hosts and networks when so many are known: bounded memory, rare sweeps.
SWEEP_ABOVE = 65536


def interval_s(rate_per_s: float) -> float:
    """Seconds between two starts; 0 for no limit."""
    if rate_per_s <= 0:
        return 0.0
    return 1 / (floor(rate_per_s) if rate_per_s >= 1 else rate_per_s) + CLOCK_GRAIN_S


def network_of(address: str) -> str:
    """The /24 or /48 that address is in."""
    parsed = ip_address(address)
    return str(ip_network((parsed, NETWORK_BITS[parsed.version]), strict=False))


@dataclass(slots=True)
class Circle:
    """One limit, kept separately for each key."""

    interval_s: float
    _free_at: dict[str, float] = field(default_factory=dict)

    def free_at(self, key: str) -> float:
        """When the next start is allowed."""
        return self._free_at.get(key, 0.0)

    def take(self, key: str, at: float) -> None:
        """A start happened."""
        if self.interval_s:
            self._free_at[key] = at + self.interval_s
            if len(self._free_at) > SWEEP_ABOVE:
                self._free_at = {k: free for k, free in self._free_at.items() if free > at}


class Spacing:
    """The three limits of a campaign, in starts per second; 0 is no limit."""

    def __init__(self, rate_per_s: float = 0, host_rate_per_s: float = 0, network_rate_per_s: float = 0) -> None:
        self._all = Circle(interval_s(rate_per_s))
        self._hosts = Circle(interval_s(host_rate_per_s))
        self._networks = Circle(interval_s(network_rate_per_s))
        self._known: dict[str, str] = {}

    def free_at(self, address: str) -> float:
        """The earliest time at which a connection to that address may start; 0.0 if it may at once."""
        return max(self._all.free_at(""), self._hosts.free_at(address), self._networks.free_at(self._network(address)))

    def admit(self, address: str, now: float) -> float:
        """0.0 and the turn is taken in every circle, or the time at which to ask again."""
        free_at = self.free_at(address)
        if now < free_at:
            return free_at
        self._all.take("", now)
        self._hosts.take(address, now)
        self._networks.take(self._network(address), now)
        return 0.0

    def _network(self, address: str) -> str:
        network = self._known.get(address)
        if network is None:
            if len(self._known) > SWEEP_ABOVE:
                self._known.clear()
            network = self._known[address] = network_of(address)
        return network
