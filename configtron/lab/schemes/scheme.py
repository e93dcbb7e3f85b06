# SPDX-License-Identifier: MIT
"""The interface of a congestion control of user space: three methods, and their arguments.

    scheme.on_ack(now, rtt, delivered, bytes)     a packet is acknowledged
    scheme.on_loss(now, n)                        so many packets are lost
    scheme.on_tick(now) -> SendingLimit           how much may be under way, and how fast it may leave

now        seconds of any clock that only goes forward; the same for all calls
rtt        seconds between this packet's departure and its acknowledgement's arrival, so `now - rtt` is when it left
delivered  bytes of this flow that have been acknowledged, this packet's included
bytes      this packet's, IP's header included

Acknowledgements come in the order of packets. The acknowledgement of a later packet shows a loss, so the sender calls
`on_loss` just before that packet's `on_ack`. When nothing was acknowledged for long, all that is under way is lost. The
sender calls `on_tick` after these calls, at least every `TICK_S`, and as often as it likes.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

# A full packet of Ethernet: IP's and UDP's headers and 1 472 bytes.
PACKET_BYTES = 1500
# Verus decides every 5 ms, the shortest interval of any scheme here.
TICK_S = 0.005
# Ten packets may leave before the first acknowledgement, as TCP's do (RFC 6928); a scheme may have another start.
INITIAL_CWND = 10.0 * PACKET_BYTES
# Two packets: with fewer, one acknowledgement cannot follow another.
LEAST_CWND = 2.0 * PACKET_BYTES
# Assumed until a round trip is measured: a first pacing rate needs one. RFC 6298 has only a first timeout, 1 s.
FIRST_RTT_S = 0.1


class SendingLimit(NamedTuple):
    """cwnd: bytes that may be under way; pacing_rate: bytes a second. Infinite where a scheme does not limit one."""

    cwnd: float
    pacing_rate: float


class Scheme(Protocol):
    """A congestion control."""

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Learn that a packet was acknowledged."""

    def on_loss(self, now: float, n: int) -> None:
        """Learn that `n` packets are lost."""

    def on_tick(self, now: float) -> SendingLimit:
        """Return what may be sent from now on."""
