# SPDX-License-Identifier: MIT
"""Connection records by inet_diag (sock_diag), for the route driver, which records none itself.

Question   Which connections did clients open to these ports, and what did the kernel count until each ended?
Method     The kernel reports each socket that it destroys (SKNLGRP_INET_TCP_DESTROY); every `EVERY_NS` all connections
           are dumped. A connection's start is the time of the dump before the first that has it: at most `EVERY_NS`
           early. The start of a connection in the very first dump is 0. A connection that no dump had may have ended
           before the latest dump and be reported after it: its start is the time of the dump before that one, at most
           twice `EVERY_NS` early.
           The largest window and round trip are the largest that a dump or the end showed: the kernel keeps neither.
           After a loss the window was at least the slow start threshold that it left.
           A connection that left the dump, and whose end was not reported within `GRACE_NS`, is counted as lost.
Stop when  closed. Records are complete up to the latest dump (`complete_ns`).
Reads as   `OpenRecord` at a connection's first dump, `CloseRecord` at its end; no class, arm or epoch: `PlanBook` draws
           them for the prefix. `moved`: its profile was changed while it was open (`mark_moved`). inet_diag does not
           show the socket's error, so a reset and a close look the same: `ending` is None.
Fails as   `Missing` where the kernel does not report sockets; `lost_records` counts sockets.
Differs    from records of the eBPF driver and kmod, which see the handshake and every change, and from eBPF's, which
           looks once a round trip: between two dumps a window may have been larger. A round trip is a smoothed one.
Source     sock_diag(7); net/core/sock_diag.c (sock_diag_broadcast_destroy); include/uapi/linux/tcp.h
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from configtron.fingerprint.tcp_info import FIELDS, INFO, TcpInfo, field_of, info_of
from configtron.intake.pageloads.log_lines import MAPPED, prefix_of_client
from configtron.linux.sock_diag import Destroyed, Diag, DiagSocket, extensions
from configtron.model.close_records import CloseRecord, OpenRecord

# Between two dumps: one takes 3 us for each connection, so 3 % of a core at ten thousand.
EVERY_NS = 1_000_000_000
# The kernel reports the end of a socket asynchronously, after it has removed it from the dump.
GRACE_NS = 2_000_000_000
BUFFER_BYTES = 16 << 20

# Of struct tcp_info: round trip, threshold and window (`tcp_info.FIELDS`), in one look at a connection of a dump.
_PEAKS = struct.Struct("=I4x2I")
_PEAKS_AT = FIELDS["rtt_us"][0]
# TCP_INFINITE_SSTHRESH: no loss has set one.
NO_THRESHOLD = 0x7FFF_FFFF

# Local address and port, remote address and port, SO_COOKIE.
Flow = tuple[bytes, int, bytes, int, int]


class Peaks(NamedTuple):
    """Largest window, segments, and largest smoothed round trip of a connection so far; 0: not known."""

    window: int = 0
    rtt_us: int = 0

    def and_now(self, info: bytes) -> Peaks:
        """Return these with another look at `struct tcp_info`."""
        if len(info) < _PEAKS_AT + _PEAKS.size:
            return self
        rtt_us, threshold, window = _PEAKS.unpack_from(info, _PEAKS_AT)
        if threshold < NO_THRESHOLD and field_of(info, "total_retrans"):
            window = max(window, threshold)
        return Peaks(max(self.window, window), max(self.rtt_us, rtt_us))


_NO_PEAKS = Peaks()


class EndedSockets:
    """Connections to some local ports of one network namespace. Errors: `Missing`."""

    def __init__(
        self, ports: Iterable[int], netns: str = "", every_ns: int = EVERY_NS, grace_ns: int = GRACE_NS
    ) -> None:
        self._every_ns, self._grace_ns = every_ns, grace_ns
        self._ports = frozenset(ports)
        self._destroyed = Destroyed(netns, BUFFER_BYTES)
        self._diag = Diag(netns)
        self._open: dict[Flow, OpenRecord] = {}
        self._missing: dict[Flow, tuple[OpenRecord, int]] = {}
        self._moved: set[int] = set()
        self._peaks: dict[Flow, Peaks] = {}
        self._lost = 0
        self.complete_ns = boottime_ns()
        self._listed_ns = self._before_ns = 0

    def mark_moved(self, sockets: Mapping[int, int]) -> None:
        """Mark connections (SO_COOKIE) whose profile was changed while they were open."""
        self._moved.update(sockets)

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        """Yield the records since the last call, each once."""
        now_ns = boottime_ns()
        yield from self._ended()
        if now_ns - self._listed_ns >= self._every_ns:
            listed = {flow: one for one in self._diag.connections(extensions(INFO)) if (flow := self._flow(one))}
            yield from self._begun(listed, now_ns)
            # connections that ended during the dump are in it, too
            yield from self._ended()
            self._before_ns, self._listed_ns, self.complete_ns = self._listed_ns, now_ns, now_ns

    def _begun(self, listed: dict[Flow, DiagSocket], now_ns: int) -> Iterator[OpenRecord]:
        for flow in [flow for flow in self._open if flow not in listed]:
            self._missing[flow] = self._open.pop(flow), now_ns
        for flow in [flow for flow, (_, since_ns) in self._missing.items() if since_ns < now_ns - self._grace_ns]:
            del self._missing[flow]
            self._peaks.pop(flow, None)
            self._moved.discard(flow[4])
            self._lost += 1
        for flow, one in listed.items():
            self._peaks[flow] = self._peaks.get(flow, _NO_PEAKS).and_now(one.attributes.get(INFO, b""))
            if flow not in self._open:
                record = self._open[flow] = self._record(flow, one, self._listed_ns)
                yield record

    def _ended(self) -> Iterator[CloseRecord]:
        for one in self._destroyed.read():
            flow = self._flow(one)
            if flow is None:
                continue
            data = one.attributes.get(INFO, b"")
            info, peaks = info_of(data), self._peaks.pop(flow, _NO_PEAKS).and_now(data)
            if not (info.rtt_us or info.bytes_received):
                continue
            missing = self._missing.pop(flow, None)
            listed = self._open.pop(flow, None) or (missing[0] if missing else None)
            opened = listed or self._record(flow, one, self._before_ns)
            moved = one.cookie in self._moved
            self._moved.discard(one.cookie)
            yield closed_record(opened, info, data, peaks, boottime_ns(), moved)

    def _flow(self, one: DiagSocket) -> Flow | None:
        """Return the 4-tuple and cookie of a client's connection; None for a listener or another port."""
        if one.local_port not in self._ports or not one.remote_port:
            return None
        return one.local, one.local_port, one.remote, one.remote_port, one.cookie

    def _record(self, flow: Flow, one: DiagSocket, start_ns: int) -> OpenRecord:
        """Return the record of a connection that the previous dump did not have."""
        info = info_of(one.attributes.get(INFO, b""))
        client = flow[2][12:] if flow[2].startswith(MAPPED) and len(flow[2]) == 16 else flow[2]
        return OpenRecord(
            prefix_of_client(client), flow[1], flow[3], start_ns, flow[4], None, None, False, "", None, None,
            None, info.min_rtt_us, False,
        )  # fmt: skip

    def lost_records(self) -> int:
        """Return how many connections ended without a report."""
        return max(self._lost, self._destroyed.lost)

    def close(self) -> None:
        """Close both sockets."""
        self._destroyed.close()
        self._diag.close()


def closed_record(
    opened: OpenRecord, info: TcpInfo, data: bytes, peaks: Peaks, end_ns: int, moved: bool | None = None
) -> CloseRecord:
    """Return the record of a connection's end by its last `struct tcp_info`, parsed and as the kernel has it."""
    rwnd = info.rwnd_limited_us / info.busy_us if info.busy_us else None
    rate = None if info.app_limited or not info.delivery_rate else info.delivery_rate * 8 / 1e3
    return CloseRecord(
        opened, end_ns, info.min_rtt_us, peaks.window or None, field_of(data, "bytes_acked"), info.bytes_received,
        info.data_segs_out, info.total_retrans, None, rwnd, rate, None, moved,
        max(peaks.rtt_us, info.min_rtt_us or 0) or None, field_of(data, "segs_in") or None,
    )  # fmt: skip


def boottime_ns() -> int:
    """Return CLOCK_BOOTTIME, ns."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
