# SPDX-License-Identifier: MIT
"""Which source port a new flow gets, so that no server still remembers the last one that used it.

A server that closed first keeps (its address, its port, our address, our port) in TIME_WAIT; a new SYN from the same
port may then be answered by a challenge ACK, or with odd timing. So each remote end is met from all ports of the range
in turn, beginning at a drawn one, and a port comes back only after the longest usual TIME_WAIT.
"""

from __future__ import annotations

from array import array
from random import Random

from configtron.model.errors import Refused

# Our ports: above Linux's ephemeral range (32768-60999), so that no other connection of this host is met.
PORTS = range(61000, 65000)
# Twice the maximum segment lifetime of RFC 9293 3.4.2 would be 240 s; Linux forgets after 60 s, Windows after 120 s.
REMEMBERED_MS = 120 * 1000
MS, PORT_BITS = 1_000_000, 16
# Remote ends that need no memory any more are looked for when at least so many are known, and twice as many as
# were left the last time: memory stays in step with the calls under way.
SWEEP_ABOVE = 4096


class SourcePorts:
    """The ports of one vantage."""

    def __init__(self, ports: range, random: Random) -> None:
        self._ports = ports
        self._random = random
        self._ends: dict[tuple[str, int], _End] = {}
        self._sweep_above = SWEEP_ABOVE

    def take(self, address: str, port: int, now_ns: int) -> int:
        """Return a source port towards (address, port)."""
        end = self._ends.get((address, port))
        if end is None:
            self._sweep(now_ns)
            end = self._ends[address, port] = _End(self._random.randrange(len(self._ports)))
        if end.used < len(self._ports):
            end.used += 1
            return self._ports[(end.first + end.used) % len(self._ports)]
        if end.returned and now_ns // MS - (end.returned[0] >> PORT_BITS) >= REMEMBERED_MS:
            return end.returned.pop(0) & ((1 << PORT_BITS) - 1)
        raise Refused(
            f"all {len(self._ports)} source ports towards {address}:{port} were used just now; wait, or widen the range"
        )

    def give_back(self, address: str, port: int, source_port: int, now_ns: int) -> None:
        """Take back the source port of a flow that is over."""
        self._ends[address, port].returned.append(-(-now_ns // MS) << PORT_BITS | source_port)

    def _sweep(self, now_ns: int) -> None:
        """Forget the ends whose ports are all back, and that no server remembers."""
        if len(self._ends) < self._sweep_above:
            return
        self._ends = {
            key: end
            for key, end in self._ends.items()
            if len(end.returned) < end.used or now_ns // MS - (end.returned[-1] >> PORT_BITS) < REMEMBERED_MS
        }
        self._sweep_above = max(2 * len(self._ends), SWEEP_ABOVE)


class _End:
    """One remote end: where its round began, how many ports it has seen, and when each came back: of all ends that a
    server may remember, so in eight bytes, milliseconds before the port."""

    __slots__ = ("first", "returned", "used")

    def __init__(self, first: int) -> None:
        self.first = first
        self.used = 0
        self.returned = array("Q")
