# SPDX-License-Identifier: MIT
"""Trials one after another in a guest: the testbed's side of `trials.py`.

Question   How long does a transfer take under a rival's first window, alone and beside a flow that was there before?
Method     As `transfer_guest.py`, and besides: a paced window has SO_MAX_PACING_RATE of one window a round trip (the
           handshake's) until a round trip has passed, or two where the rule finds a queue; Linux's own stack then sends
           ten segments at once and paces the others. A route's window is in force before the handshake, so a connection
           that is opened and closed just before shows the round trip of the handshake, by which the rule may shrink its
           window. Where tcp_metrics is the rival, a transfer goes before over the same path, its round trip, window and
           ssthresh are kept, and flushed after the trial. A competing flow of the default stack fills the queue for
           `WARM_TRIPS` round trips, and the trial's phase, before the trial begins; its bytes count within the trial's
           horizon.
Stop when  as there; the competing flow is cut off after the horizon
Reads as   `TrialResult`; the same orders and seed give the same text
Fails as   as there; a competing flow that does not connect ends the part
Differs    from RFC 9959: on a loss the stack's own congestion control retreats (cubic, to 0.7), not to half of what was
           acknowledged. A socket that was paced once stays so, by two windows a round trip in slow start. Linux keeps
           no ssthresh by default (`tcp_no_ssthresh_metrics_save`): here it does.
Source     Linux net/ipv4/tcp_metrics.c, tcp_output.c (tcp_update_skb_after_send)
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from configtron.fingerprint.tcp_info import field_of
from configtron.lab.internet import links
from configtron.lab.testbed.network import SERVERS, Testbed, raise_testbed
from configtron.learner.initial.end_states import DEFAULT_WINDOW, SEGMENT_BYTES
from configtron.studies.guests.parts import Means
from configtron.studies.initial_states.transfer_guest import (
    CHUNK,
    NOT_CONNECTED,
    ORIGIN,
    PORT,
    RECEIVED,
    TCP_INFO_BYTES,
    WAY_OUT,
    Sending,
    connected,
)
from configtron.studies.initial_states.transfer_orders import Transferred
from configtron.studies.initial_states.trials import RivalTrial, TrialResult, trial_results_text, trials_of_text

# <asm-generic/socket.h>; the rate that is none.
SO_MAX_PACING_RATE, UNPACED = 47, 0xFFFFFFFF
# The competing flow's way into the queue: round trips, and seconds besides.
WARM_TRIPS, WARM_S = 10.0, 0.5
COMPETING_PORT, HANDSHAKE_PORT, STEP_S = PORT + 1, PORT + 2, 0.25
SAVING_METRICS = ("net/ipv4/tcp_no_metrics_save", "net/ipv4/tcp_no_ssthresh_metrics_save")
NO_TRANSFER = Transferred(0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0.0, 0, NOT_CONNECTED)

# Exponent by which a longer handshake shrinks the window, and over how many saved round trips a handshake says that a
# queue stands: found beside a cubic flow on the seeds 301 and 304.
SHRINKING, QUEUED = 1.5, 1.15


def perform(orders: str, folder: Path, means: Means) -> str:
    """A part of a study (`guests/parts.py`): `trials_text` in, `trial_results_text` out."""
    del folder
    trials = trials_of_text(orders)
    testbed = raise_testbed(trials[0].transfer.condition, [ORIGIN], player=Path(means.programs.player))
    try:
        return trial_results_text([_performed(testbed, trial) for trial in trials])
    finally:
        testbed.close()


def _performed(testbed: Testbed, trial: RivalTrial) -> TrialResult:
    address = testbed.addresses[ORIGIN]
    with _tcp_metrics_kept(testbed, trial):
        testbed.change(trial.transfer.condition, seed=trial.transfer.seed)
        if not trial.competing:
            return TrialResult(_sent(address, _shrunk(address, trial) if trial.saved_ms else trial))
        with _competing_flow(address, trial) as flow:
            # under every rival, so that all begin at the same time
            trial = _shrunk(address, trial)
            flow.mark(trial.horizon_s)
            found = _sent(address, trial)
            flow.marked.wait()
            return TrialResult(found, flow.bytes)


def _shrunk(address: str, trial: RivalTrial) -> RivalTrial:
    """Return the trial with the window that a handshake before it leaves of its own."""
    with connected(address, HANDSHAKE_PORT) as (server, _):
        handshake_ms = 0.0 if server is None else _round_trip_us(server) / 1e3
    window = under_queue(trial.transfer.window, trial.saved_ms, handshake_ms)
    return trial._replace(transfer=trial.transfer._replace(window=window))


def _round_trip_us(server: socket.socket) -> int:
    return field_of(server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES), "rtt_us")


@contextmanager
def _tcp_metrics_kept(testbed: Testbed, trial: RivalTrial) -> Iterator[None]:
    """While inside, tcp_metrics knows an earlier transfer, where the trial has one."""
    if not trial.warm_bytes:
        yield
        return
    links.sysctl(SERVERS, [(name, "0") for name in SAVING_METRICS])
    try:
        testbed.change(trial.transfer.condition, seed=trial.transfer.seed)
        _sent(testbed.addresses[ORIGIN], trial._replace(transfer=trial.transfer._replace(size=trial.warm_bytes)))
        yield
    finally:
        links.sysctl(SERVERS, [(name, "1") for name in SAVING_METRICS])
        links.ip(SERVERS, ["tcp_metrics flush all"])


def _sent(address: str, trial: RivalTrial) -> Transferred:
    """Run the transfer under its window, which no other connection gets."""
    window, began = trial.transfer.window, 0.0
    if window:
        links.ip(SERVERS, [f"{WAY_OUT} initcwnd {window}"])
    try:
        began = time.monotonic()
        with connected(address) as (server, client):
            if server is None:
                return NO_TRANSFER
            if trial.paced and window:
                return PacedSending(trial, server, client, began).run()
            return Sending(trial.transfer, server, client, began).run()
    finally:
        if window:
            links.ip(SERVERS, [WAY_OUT])


class PacedSending(Sending):
    """A transfer whose first window takes one round trip; over a standing queue its rate stays for a second one."""

    def __init__(self, trial: RivalTrial, server: socket.socket, client: socket.socket, began: float) -> None:
        super().__init__(trial.transfer, server, client, began)
        rtt_ms = _round_trip_us(server) / 1e3
        self._paced_until = time.monotonic() + paced_round_trips(trial.saved_ms, rtt_ms) * rtt_ms / 1e3
        self._pace(min(pacing_bytes_s(trial.transfer.window, rtt_ms), UNPACED - 1))

    def _pace(self, bytes_s: int) -> None:
        self._server.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("I", bytes_s))

    def _read(self, now: float) -> bytes:
        if self._paced_until and now >= self._paced_until:
            self._paced_until = 0.0
            self._pace(UNPACED)
        return super()._read(now)


class CompetingFlow:
    """A flow that sends for ever; `bytes` that the client got between `mark` and the horizon."""

    def __init__(self, server: socket.socket, client: socket.socket) -> None:
        self._server, self._client = server, client
        self._over, self.marked = threading.Event(), threading.Event()
        self.bytes, self._from, self._until = 0, 0.0, 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def mark(self, horizon_s: float) -> None:
        """Count from now on, for so long."""
        now = time.monotonic()
        self._from, self._until = now, now + horizon_s

    def _run(self) -> None:
        while not self._over.is_set():
            wait = min(STEP_S, max(0.001, self._until - time.monotonic())) if self._from else STEP_S
            ready, free, _ = select.select([self._client], [self._server], [], wait)
            with suppress(BlockingIOError, ConnectionError):
                if free:
                    self._server.send(CHUNK)
                got = self._client.recv_into(RECEIVED) if ready else 0
                if self._from and not self.marked.is_set():
                    self.bytes += got
            if self._from and time.monotonic() >= self._until:
                self.marked.set()

    def end(self) -> None:
        """Cut it off: both ends forget what is under way."""
        self._over.set()
        self._thread.join()
        for end in (self._server, self._client):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextmanager
def _competing_flow(address: str, trial: RivalTrial) -> Iterator[CompetingFlow]:
    with connected(address, COMPETING_PORT) as (server, client):
        if server is None:
            raise ConnectionError("the competing flow does not connect")
        flow = CompetingFlow(server, client)
        try:
            time.sleep(WARM_S + WARM_TRIPS * trial.transfer.rtt_ms / 1e3 + trial.delay_s)
            yield flow
        finally:
            flow.end()


def under_queue(window: int, saved_ms: float, handshake_ms: float) -> int:
    """Return a window shrunk by the round trip of the handshake over the saved one; 0 where the stack's own is no less.

    A shorter handshake, or no saved round trip (0 or NaN), leaves the window as it is.
    """
    if not handshake_ms > saved_ms > 0:
        return window
    left = int(window * (saved_ms / handshake_ms) ** SHRINKING)
    return left if left > DEFAULT_WINDOW else 0


def paced_round_trips(saved_ms: float, handshake_ms: float) -> float:
    """Return for how many of its handshake's round trips a connection keeps the first one's rate: 1 over an empty
    queue, or where no round trip is saved (0 or NaN)."""
    return 2.0 if saved_ms > 0 and handshake_ms > QUEUED * saved_ms else 1.0


def pacing_bytes_s(window: int, rtt_ms: float) -> int:
    """Return the rate at which a window takes one round trip, bytes/s."""
    return max(1, int(window * SEGMENT_BYTES * 1e3 / rtt_ms))
