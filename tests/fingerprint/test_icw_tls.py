# SPDX-License-Identifier: MIT
"""Certificate flights: the window, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from configtron.fingerprint import icw_tls
from configtron.model.nouns import ACK, SYN, Packet, Segment, Target, Trace
from configtron.probe import PROBES
from configtron.probe.play import play
from tests.support.fake_server import FakeServer

TARGET = Target("site.example", "192.0.2.1", 443)


def trace_of(payload: bytes) -> Trace:
    packets = (
        Packet(0.0, "out", Segment(SYN)),
        Packet(0.1, "in", Segment(SYN | ACK, ack=1), 1),
        Packet(0.1, "out", Segment(ACK, 1, 1, length=300), 2),
        Packet(0.2, "in", Segment(ACK, 1, 301, payload=payload, length=len(payload)), 3),
    )
    return Trace("t", TARGET, "here", "icw_tls", packets=packets)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (bytes.fromhex("15030300020228"), "tls:alert-handshake-failure"),
        (bytes.fromhex("150303000202fe"), "tls:alert-254"),
        (b"HTTP/1.1 400 Bad Request", "tls:not-tls"),
    ],
)
def test_refusals_are_named(payload: bytes, reason: str) -> None:
    (seen,) = icw_tls.infer(trace_of(payload))
    assert seen.reason == reason


@pytest.mark.parametrize(("icw", "text"), [(4, "4"), (10, "10"), (20, "20"), (24, ">= 21")])
def test_a_chain_shorter_than_the_window_gives_a_bound(icw: int, text: str) -> None:
    """1343 bytes of certificate are 21 segments of 64."""
    server = FakeServer(icw=icw, page=1343, closes=False, greeting=b"\x16\x03\x03")
    script: Any = PROBES["icw_tls"].script(TARGET, "agent", mss=64, early=True)
    packets, ending = play(script, server)
    (seen,) = icw_tls.infer(Trace("t", TARGET, "here", "icw_tls", packets=packets, ending=ending))
    assert seen.text == text
