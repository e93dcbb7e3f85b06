# SPDX-License-Identifier: MIT
"""The records of recording.h as `OpenRecord` and `CloseRecord`. Clients' addresses are cut to prefixes here.

A record's length says which it is. Shares of time come from the kernel's chronographs, which count ticks: where a
connection, or its time with data, lasted fewer than `LEAST_TICKS`, the share is unknown.

Source     net/ipv4/tcp.c: tcp_get_info_chrono_stats, tcp_compute_delivery_rate, tcp_reset, tcp_write_err
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv6Address
from socket import AF_INET, inet_ntop

from configtron.model.close_records import ABORTED, CLOSED, RESET, TIMED_OUT, CloseRecord, OpenRecord
from configtron.model.draw import ARMS
from configtron.tune.drivers.bpf.layout import MAPPED

BEGINNING = struct.Struct("=3Q4I16s2H4B")
ENDING = struct.Struct("=3Q4I16s2H4B4Q6Ii3I")
# Of struct beginning: how many fields it has, and which of them has the flags.
_BEGINNING_FIELDS, _FLAGS = 14, 12
# Its flags.
_HAS_EPOCH, _WINDOW_CUT, MOVED = 1, 2, 4
# A tenth is then the largest error of a share.
LEAST_TICKS = 10
# TCP's states before the end (include/net/tcp_states.h) once both sides have closed: FIN_WAIT2 and TIME_WAIT (the rest
# is a minimal socket's), LAST_ACK, CLOSING.
BOTH_CLOSED = frozenset((5, 6, 9, 11))
_RESET_BY_CLIENT = frozenset((errno.ECONNRESET, errno.EPIPE, errno.ECONNREFUSED))
# What tcp_write_err leaves: the time-out, or the ICMP error that came before it.
_NO_ANSWER = frozenset((errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN))
_NO_RTT = 0xFFFF_FFFF
_NS = 1_000_000_000


def as_moved(connection: bytes) -> bytes:
    """Return a struct connection (it begins with a struct beginning) with the flag of a profile that was set anew."""
    fields = list(BEGINNING.unpack_from(connection))
    fields[_FLAGS] |= MOVED
    return BEGINNING.pack(*fields) + connection[BEGINNING.size :]


class RecordParser:
    """names: of profiles by number; ticks_per_s: of the kernel's timers."""

    def __init__(self, names: Mapping[int, str], ticks_per_s: int) -> None:
        self._names = names
        self._ticks_per_s = ticks_per_s

    def all(self, waiting: Iterable[bytes]) -> Iterator[OpenRecord | CloseRecord]:
        """Return the records of a stream."""
        return map(self.unpack, waiting)

    def unpack(self, data: bytes) -> OpenRecord | CloseRecord:
        """Return the record of these bytes."""
        return self.opened(*BEGINNING.unpack(data)) if len(data) == BEGINNING.size else self.closed(data)

    def reads_as(self, names: Mapping[int, str]) -> bool:
        """Return whether profiles have these names here."""
        return self._names == names

    def opened(
        self, epoch: int, start_ns: int, cookie: int, number: int, profile: int, version: int, rtt_us: int,
        remote: bytes, local_port: int, remote_port: int, arm: int, band: int, flags: int, _: int,
    ) -> OpenRecord:  # fmt: skip
        """Return the record of the fields of struct beginning."""
        held = bool(number) and arm == ARMS
        return OpenRecord(
            prefix_of(remote),
            local_port,
            remote_port,
            start_ns,
            cookie or None,
            self._names.get(number),
            arm if number and not held else None,
            held,
            self._names.get(profile) if profile else "",
            version if profile else None,
            epoch if flags & _HAS_EPOCH else None,
            band or None,
            rtt_us or None,
            bool(flags & _WINDOW_CUT),
        )

    def closed(self, record: bytes) -> CloseRecord:
        """Return the record of a struct ending."""
        fields = ENDING.unpack(record)
        opened = self.opened(*fields[:_BEGINNING_FIELDS])
        (end_ns, acked, received, rate, min_rtt_us, max_cwnd, segments, retransmits,
         state, known, error, busy_ticks, rwnd_ticks, max_rtt_us) = fields[_BEGINNING_FIELDS:]  # fmt: skip
        life_ticks = (end_ns - opened.start_ns) * self._ticks_per_s / _NS
        return CloseRecord(
            opened,
            end_ns,
            None if min_rtt_us == _NO_RTT else min_rtt_us,
            max_cwnd or None,
            acked,
            received,
            segments,
            retransmits,
            1.0 - min(busy_ticks / life_ticks, 1.0) if known and life_ticks >= LEAST_TICKS else None,
            min(rwnd_ticks / busy_ticks, 1.0) if known and busy_ticks >= LEAST_TICKS else None,
            rate * 8 / 1000 if rate else None,
            ending_of(state, error if known else None),
            bool(fields[_FLAGS] & MOVED),
            # Of kernels before 6.10 it is a smoothed one, which may lie a microsecond below the smallest.
            max(max_rtt_us, 0 if min_rtt_us == _NO_RTT else min_rtt_us) if max_rtt_us else None,
        )


def ending_of(state: int, error: int | None) -> str | None:
    """Return how a connection ended, by TCP's state before and the socket's error; None for the error: not known."""
    if error is None or error == 0:
        return CLOSED if state in BOTH_CLOSED else None if error is None else ABORTED
    if error in _RESET_BY_CLIENT:
        return RESET
    return TIMED_OUT if error in _NO_ANSWER else ABORTED


def prefix_of(remote: bytes) -> str:
    """Return the prefix of a client's address, 16 bytes as IPv6 writes it: /24, of IPv6 /48."""
    return _prefix4(remote[12:15]) if remote.startswith(MAPPED) else _prefix6(remote[:6])


@lru_cache(1 << 16)
def _prefix4(octets: bytes) -> str:
    return f"{inet_ntop(AF_INET, octets + bytes(1))}/24"


@lru_cache(1 << 16)
def _prefix6(octets: bytes) -> str:
    return f"{IPv6Address(octets + bytes(10))}/48"
