# SPDX-License-Identifier: MIT
"""Connections by inet_diag: when one began that no dump had."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

from configtron.fingerprint.tcp_info import FIELDS, field_of
from configtron.intake.receiving.ended_sockets import NO_THRESHOLD, EndedSockets, Peaks, boottime_ns
from configtron.linux.sock_diag import Destroyed, DiagSocket
from configtron.model.close_records import CloseRecord

EVERY_NS = 50_000_000


class Late:
    """The kernel's reports, each of which comes one dump after the socket was removed."""

    def __init__(self, inner: Destroyed) -> None:
        self._inner, self.held, self.lost = inner, True, 0

    def read(self) -> Iterator[DiagSocket]:
        if not self.held:
            yield from self._inner.read()

    def close(self) -> None:
        self._inner.close()


def test_a_connection_that_is_reported_after_the_next_dump_did_not_begin_with_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = EndedSockets((server.getsockname()[1],), every_ns=EVERY_NS)
        late = Late(source._destroyed)
        source._destroyed = late  # type: ignore[assignment]
        try:
            list(source.records())
            time.sleep(2 * EVERY_NS / 1e9)
            assert not list(source.records())
            began_ns = boottime_ns()
            with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
                client.sendall(b"x")
                assert accepted.recv(1) == b"x"
                accepted.close()
                assert client.recv(1) == b""
            time.sleep(2 * EVERY_NS / 1e9)
            assert not list(source.records()), "no dump has it"
            late.held = False
            (record,) = source.records()
            assert isinstance(record, CloseRecord) and 0 < record.opened.start_ns <= began_ns
        finally:
            source.close()


def info(**values: int) -> bytes:
    """`struct tcp_info` with these fields; no threshold unless it is given."""
    data = bytearray(232)
    for name, value in {"snd_ssthresh": NO_THRESHOLD, **values}.items():
        at, form = FIELDS[name]
        struct.pack_into(f"={form}", data, at, value)
    return bytes(data)


def test_the_largest_of_each_look_counts_and_after_a_loss_its_threshold() -> None:
    peaks = Peaks().and_now(info(snd_cwnd=44, rtt_us=100)).and_now(info(snd_cwnd=10, rtt_us=900))
    assert peaks == Peaks(44, 900)
    assert peaks.and_now(info(snd_cwnd=2, snd_ssthresh=60, total_retrans=1)) == Peaks(60, 900)
    assert peaks.and_now(info(snd_cwnd=2, total_retrans=1)) == peaks, "no loss set a threshold"
    assert peaks.and_now(info(snd_cwnd=2, snd_ssthresh=60)) == peaks, "another connection's, of the route's metrics"
    assert peaks.and_now(b"") == peaks, "a kernel without tcp_info here"


def test_a_record_has_the_window_the_round_trip_and_the_packets_that_came() -> None:
    """The window at the end is what the socket itself shows before it closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = EndedSockets((server.getsockname()[1],), every_ns=EVERY_NS)
        try:
            list(source.records())
            with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
                accepted.sendall(bytes(200_000))
                assert len(client.recv(200_000, socket.MSG_WAITALL)) == 200_000
                shown = b""
                while not shown or field_of(shown, "bytes_acked") < 200_000:
                    shown = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                accepted.close()
                assert client.recv(1) == b""
            time.sleep(2 * EVERY_NS / 1e9)
            record = next(one for one in source.records() if isinstance(one, CloseRecord))
            # the acknowledgement of a FIN may let it grow
            assert record.max_cwnd in (window := field_of(shown, "snd_cwnd"), window + 1) and window >= 10
            assert record.min_rtt_us and record.max_rtt_us and record.min_rtt_us <= record.max_rtt_us
            assert record.packets_in and record.packets_in >= field_of(shown, "segs_in") > 0
        finally:
            source.close()
