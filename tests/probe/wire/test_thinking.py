# SPDX-License-Identifier: MIT
"""A real kernel behind an application that flushes a head, thinks, or drips: no pause may be taken for a window.

Linux's first retransmission comes after about 220 ms here, so pauses around that are the hard ones: the body is written
while the window is down to one segment, and leaves with our ACK.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge
from configtron.model.nouns import Observation, Target
from configtron.probe.profiles import CLEAR
from tests.support.namespaces import own_namespace
from tests.support.pumped import pumped

pytestmark = pytest.mark.root

THINKS_S = (0.0, 0.05, 0.1, 0.18, 0.2, 0.21, 0.22, 0.225, 0.23, 0.235, 0.24, 0.25, 0.3, 0.5)
# (before the body, between its first pieces)
PAUSES = (*((think_s, 0.0) for think_s in THINKS_S), *((0.0, drip_s) for drip_s in (0.02, 0.05, 0.1, 0.2)))


def answer(connection: socket.socket, think_s: float, drip_s: float) -> None:
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.recv(4096)
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nX: "
        connection.sendall(head + b"a" * (296 - len(head)) + b"\r\n\r\n")
        for _ in range(100 if drip_s else 0):
            time.sleep(drip_s)
            connection.sendall(b"b" * 500)
        time.sleep(think_s)
        connection.sendall(b"b" * 100_000)
        time.sleep(2)
        connection.close()
    except OSError:
        return


@contextmanager
def served(address: str) -> Iterator[dict[tuple[float, float], Target]]:
    """A server for every pause and every drip."""
    targets, listening = {}, []
    for n, (think_s, drip_s) in enumerate(PAUSES):
        listener = socket.create_server((address, 18100 + n), backlog=64)
        listening.append(listener)
        threading.Thread(target=accept, args=(listener, think_s, drip_s), daemon=True).start()
        targets[think_s, drip_s] = Target("thinks.example", address, 18100 + n)
    try:
        yield targets
    finally:
        for listener in listening:
            listener.close()


def accept(listener: socket.socket, think_s: float, drip_s: float) -> None:
    try:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection, think_s, drip_s), daemon=True).start()
    except OSError:
        return


@pytest.fixture(scope="module")
def trials() -> dict[tuple[str, float, float], list[Observation]]:
    found: dict[tuple[str, float, float], list[Observation]] = {}
    with own_namespace() as (vantage, peer), served(peer) as targets:
        asked = {
            f"{profile}/{pause}/{n}": ((profile, *pause), target, dict(params))
            for profile, rows in CLEAR.items()
            for pause, target in targets.items()
            for n, (probe, params) in enumerate(rows)
            if probe == "icw"
        }
        calls = [(name, target, "icw", params) for name, (_, target, params) in asked.items()]
        for recording in pumped(vantage, calls):
            seen = [o for o in read(recording.trace) if o.knob == "icw"]
            found.setdefault(asked[recording.trace.id][0], []).extend(seen)
    return found


@pytest.mark.parametrize("profile", list(CLEAR))
@pytest.mark.parametrize(("think_s", "drip_s"), PAUSES)
def test_neither_a_pause_nor_a_drip_is_taken_for_a_window(
    trials: dict[tuple[str, float, float], list[Observation]], profile: str, think_s: float, drip_s: float
) -> None:
    verdict = merge(trials[profile, think_s, drip_s])
    details = [(t.text, t.detail("mss"), t.detail("stop"), t.detail("proof")) for t in verdict.trials]
    assert verdict.value == 10 or (verdict.grade in ("L", "N") and float(verdict.value or 0) <= 10), details
