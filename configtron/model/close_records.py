# SPDX-License-Identifier: MIT
"""Records of connections that clients opened to this host: one when it is established, one when it has ended.

A driver whose kernel part draws hands them out (`protocols.Drawing`). The driver's reader, which runs as root, cuts the
client's address to its prefix before a record is made: none of these types can hold an address. Unknown is None, never
0. Times are ns of CLOCK_BOOTTIME, which counts suspended time and never steps.

Named tuples, not dataclasses: a busy server makes ten thousand a second. A reader that asks for few of them takes
`PackedRecords`, which are unpacked one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import chain
from typing import NamedTuple, Protocol

# How a connection ended: both sides closed it; the client reset it; this host reset it or gave up an orphaned socket;
# the client did not answer any more.
CLOSED, RESET, ABORTED, TIMED_OUT = "closed", "reset", "aborted", "timed-out"
ENDINGS = (CLOSED, RESET, ABORTED, TIMED_OUT)
# How a jump of Careful Resume (RFC 9959) ended: its last packet was acknowledged without congestion; congestion came
# before that; the connection sent less than the jump allowed, or ended meanwhile.
VALIDATED, RETREATED, UNUSED = "validated", "retreated", "unused"
RESUMPTIONS = (VALIDATED, RETREATED, UNUSED)
# The ends of a connection: first address of the client's prefix as IPv6 writes it, local port, remote port.
ENDS = struct.Struct("=16s2H")
# Columns of `BadEndings`.
_ADDRESS, _TIME = struct.Struct("=16s"), struct.Struct("=Q")
# Before an IPv4 address in an IPv6 one (RFC 4291 2.5.5.2).
MAPPED = bytes(10) + b"\xff\xff"


class OpenRecord(NamedTuple):
    """A connection that has been established, and what was drawn for it.

    prefix        the client's, cut to /24 or /48
    cookie        SO_COOKIE of the socket, unique until the next boot
    class_name    the profile whose mix was drawn from; None where no mix was
    arm           place in the mix; None where the client is held back, or no mix was drawn from
    profile       its name, "" for the untouched stack, None where it was dropped before the record was read
    version       of the profile: a number that changes when its settings change
    epoch         of the plan that was in force
    band          of the handshake's round trip, from 1, where the class was found by it
    rtt_us        round trip of the handshake; with TCP_DEFER_ACCEPT the client's thinking counts, with SYN cookies it
                  can be tens of ms too long
    window_cut    the kernel had cut the initial window after repeated SYN-ACKs, so the profile's was not set
    """

    prefix: str
    local_port: int
    remote_port: int
    start_ns: int
    cookie: int | None
    class_name: str | None
    arm: int | None
    held: bool
    profile: str | None
    version: int | None
    epoch: int | None
    band: int | None
    rtt_us: int | None
    window_cut: bool


class CloseRecord(NamedTuple):
    """A connection that has ended. What belongs to its beginning is repeated, for its open record can be lost.

    min_rtt_us      the kernel's windowed minimum (tcp_min_rtt_wlen)
    max_cwnd        segments; the largest that was seen, once per round trip and at the end
    bytes_acked     that the client acknowledged
    segments        data segments sent, the repeated ones too
    retransmits     segments sent again
    app_limited     share of the connection's life in which this host had nothing to send; None where the kernel's
                    clock for it (a tick) is too coarse for the connection
    rwnd_limited    share of the time with data to send in which the client's window did not let it; None likewise
    delivery_kbps   largest rate at which data arrived while the network, not the application, was the limit
    ending          one of `ENDINGS`
    moved           its profile was set anew while it was open
    max_rtt_us      largest round trip that was sampled, once per round trip
    packets_in      segments of all kinds that came from the client
    resumed         what Careful Resume came to: one of `RESUMPTIONS`, "" where the connection did not jump; None where
                    the driver has none
    """

    opened: OpenRecord
    end_ns: int
    min_rtt_us: int | None
    max_cwnd: int | None
    bytes_acked: int
    bytes_received: int
    segments: int
    retransmits: int
    app_limited: float | None
    rwnd_limited: float | None
    delivery_kbps: float | None
    ending: str | None
    moved: bool | None = None
    max_rtt_us: int | None = None
    packets_in: int | None = None
    resumed: str | None = None


class Unpacker(Protocol):
    """Makes records of the bytes of one kernel part."""

    def unpack(self, data: bytes) -> OpenRecord | CloseRecord:
        """Return the record of these bytes."""


class BadEndings(NamedTuple):
    """Connections that were reset, aborted, or timed out, as columns: of thousands a second few are asked for.

    prefixes   first address of each client's prefix, as IPv6 writes it, 16 bytes each
    times      when each ended, ns of CLOCK_BOOTTIME, 8 bytes each in this host's order
    """

    prefixes: bytes = b""
    times: bytes = b""

    @classmethod
    def of(cls, *each: tuple[str, int]) -> BadEndings:
        """Return the endings of (prefix, ns)."""
        times = b"".join(_TIME.pack(end_ns) for _, end_ns in each)
        return cls(b"".join(first_address(prefix) for prefix, _ in each), times)

    @property
    def number(self) -> int:
        """Return how many there are."""
        return len(self.times) // _TIME.size

    def is_whole(self) -> bool:
        """Return whether each has a prefix and a time."""
        return len(self.times) % _TIME.size == 0 and len(self.prefixes) == self.number * _ADDRESS.size

    def each(self) -> Iterator[tuple[bytes, int]]:
        """Return first address and ns of each."""
        addresses, times = _ADDRESS.iter_unpack(self.prefixes), _TIME.iter_unpack(self.times)
        return zip(chain.from_iterable(addresses), chain.from_iterable(times), strict=True)

    def since(self, first: int, number: int | None = None) -> BadEndings:
        """Return those from a place on, at most so many."""
        end = self.number if number is None else first + number
        address, time = _ADDRESS.size, _TIME.size
        return BadEndings(self.prefixes[first * address : end * address], self.times[first * time : end * time])

    def and_then(self, later: BadEndings) -> BadEndings:
        """Return these and then others."""
        return BadEndings(self.prefixes + later.prefixes, self.times + later.times)


class PackedRecords(NamedTuple):
    """Records as the kernel wrote them, but for clients' addresses, which are cut: cheap to keep until a log line asks.

    opened_ends   of each connection that began: its ends as `ends_of`
    opened        its open record
    closed_ends   of each that ended: its ends
    closed_begun  its open record, as that came
    closed        its close record
    segments      how many it sent, as its close record has them
    until_ns      when the last of them ended
    bad           those that were reset, aborted or not answered any more
    unpacker      makes a record of the bytes of an open or a close record
    """

    opened_ends: list[bytes]
    opened: list[bytes]
    closed_ends: list[bytes]
    closed_begun: list[bytes]
    closed: list[bytes]
    segments: list[int]
    until_ns: int
    bad: BadEndings
    unpacker: Unpacker

    @property
    def number(self) -> int:
        """Return how many records there are."""
        return len(self.opened) + len(self.closed)


def ends_of(prefix: str, local_port: int, remote_port: int) -> bytes:
    """Return the ends of a connection as bytes; `prefix` as records have it."""
    return ENDS.pack(first_address(prefix), local_port, remote_port)


@lru_cache(1 << 16)
def first_address(prefix: str) -> bytes:
    """Return the first address of a prefix, as IPv6 writes it."""
    packed = ip_address(prefix.partition("/")[0]).packed
    return MAPPED + packed if len(packed) == 4 else packed


def prefix_of_ends(ends: bytes) -> str:
    """Return the client's prefix, as records have it; of its first address alone, too."""
    if ends.startswith(MAPPED):
        return f"{ends[12]}.{ends[13]}.{ends[14]}.0/24"
    return f"{IPv6Address(ends[:16])}/48"
