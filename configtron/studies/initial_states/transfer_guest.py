# SPDX-License-Identifier: MIT
"""Transfers one after another in a guest: the testbed's side of `transfer_orders.py`.

Question   How long does a connection of so many bytes take over a path from an initial window, and how does it end?
Method     Each transfer has its path in force, and the initial window as the metric of the servers' route; the server
           writes as its buffer takes it, the client reads. `struct tcp_info` of the server's socket is read a few times
           each round trip and at the end, when all is acknowledged. Nothing remembers an earlier transfer: the testbed
           keeps no TCP metrics, and queues are at rest before each.
Stop when  all is acknowledged, or `PATIENCE_S` have passed
Reads as   `Transferred`; the same orders and seed give the same text
Fails as   a reason: not-connected, too-slow; a link that is not as asked ends the part
Differs    from a driver's record, which sees the window once per round trip: so does this, four times
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from configtron.fingerprint.tcp_info import field_of
from configtron.lab.internet import links
from configtron.lab.testbed.network import CLIENT, SERVERS, Testbed, raise_testbed
from configtron.lab.testbed.wires import ORIGINS_NET
from configtron.linux.netns import inside
from configtron.studies.guests.parts import Means
from configtron.studies.initial_states.clients_world import Transfer
from configtron.studies.initial_states.transfer_orders import Transferred, ordered_transfers, results_text

ORIGIN, PORT = "a.test", 7000
CHUNK, RECEIVED = memoryview(bytes(1 << 18)), bytearray(1 << 18)
# Virtual seconds; 3 MB at 0.5 Mbit/s take 50.
PATIENCE_S = 180.0
# Reads of the socket's state in a round trip; not more often than so (s).
READS_A_TRIP, LEAST_WAIT_S = 4.0, 0.002
# Losses of the first flight are repaired within so many round trips of the handshake.
EARLY_TRIPS = 2.5
TCP_INFO_BYTES = 256
NOT_CONNECTED, TOO_SLOW = "not-connected", "too-slow"
WAY_OUT = f"route replace default via {ORIGINS_NET}.254 dev s0"


def perform(orders: str, folder: Path, means: Means) -> str:
    """A part of a study (`guests/parts.py`): `orders_text` in, `results_text` out."""
    del folder
    transfers = ordered_transfers(orders)
    testbed = raise_testbed(transfers[0].condition, [ORIGIN], player=Path(means.programs.player))
    # equal windows after one another: a change of the route is the dearest step
    order = sorted(range(len(transfers)), key=lambda at: transfers[at].window)
    found: dict[int, Transferred] = {}
    window = 0
    try:
        for at in order:
            if transfers[at].window != window:
                window = transfers[at].window
                links.ip(SERVERS, [f"{WAY_OUT} initcwnd {window}" if window else WAY_OUT])
            found[at] = _transfer(testbed, transfers[at])
    finally:
        testbed.close()
    return results_text([found[at] for at in range(len(transfers))])


def _transfer(testbed: Testbed, transfer: Transfer) -> Transferred:
    testbed.change(transfer.condition, seed=transfer.seed)
    began = time.monotonic()
    with connected(testbed.addresses[ORIGIN]) as (server, client):
        if server is None:
            return Transferred(0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0.0, 0, NOT_CONNECTED)
        return Sending(transfer, server, client, began).run()


@contextmanager
def connected(address: str, port: int = PORT) -> Iterator[tuple[socket.socket | None, socket.socket]]:
    """A connection's two ends; no server's where it failed."""
    with inside(SERVERS):
        listener = socket.create_server((address, port))
    with inside(CLIENT):
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with listener, client:
        listener.settimeout(PATIENCE_S)
        client.setblocking(False)
        client.connect_ex((address, port))
        try:
            server = listener.accept()[0]
        except TimeoutError:
            yield None, client
            return
        with server:
            server.setblocking(False)
            yield server, client


class Sending:
    """One transfer, from its handshake on."""

    def __init__(self, transfer: Transfer, server: socket.socket, client: socket.socket, began: float) -> None:
        self._transfer, self._server, self._client, self._began = transfer, server, client, began
        self._accepted = time.monotonic()
        self._wait_s = max(LEAST_WAIT_S, transfer.rtt_ms / 1e3 / READS_A_TRIP)
        info = server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        self._early_s = EARLY_TRIPS * field_of(info, "rtt_us") / 1e6
        self._left, self._got, self._ended = transfer.size, 0, 0.0
        self._cwnd = self._rtt_us = self._early = self._early_out = 0

    def run(self) -> Transferred:
        look = 0.0
        while True:
            now = time.monotonic()
            if now >= look:
                look = now + self._wait_s
                info = self._read(now)
                if self._ended and field_of(info, "bytes_acked") >= self._transfer.size:
                    return self._result(info)
            if now - self._began > PATIENCE_S:
                return self._result(self._read(now), TOO_SLOW)
            writers = [self._server] if self._left else []
            readers = [] if self._ended else [self._client]
            ready, free, _ = select.select(readers, writers, [], max(0.0, look - now))
            if free:
                with suppress(BlockingIOError):
                    self._left -= self._server.send(CHUNK[: self._left])
            if ready:
                self._receive()

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            self._got += self._client.recv_into(RECEIVED)
        if self._got >= self._transfer.size:
            self._ended = time.monotonic()

    def _read(self, now: float) -> bytes:
        info = self._server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        self._cwnd = max(self._cwnd, field_of(info, "snd_cwnd"))
        self._rtt_us = max(self._rtt_us, field_of(info, "rtt_us"))
        if now - self._accepted <= self._early_s:
            self._early, self._early_out = (field_of(info, name) for name in ("total_retrans", "data_segs_out"))
        return info

    def _result(self, info: bytes, reason: str = "") -> Transferred:
        busy = field_of(info, "busy_us")
        return Transferred(
            round((self._ended or time.monotonic()) - self._began, 6), field_of(info, "min_rtt_us") / 1e3,
            self._rtt_us / 1e3, self._cwnd, field_of(info, "segs_in"), field_of(info, "data_segs_out"),
            field_of(info, "total_retrans"), self._early,
            round(field_of(info, "rwnd_limited_us") / busy, 4) if busy else 0.0,
            field_of(info, "bytes_acked"), reason, self._early_out,
        )  # fmt: skip
