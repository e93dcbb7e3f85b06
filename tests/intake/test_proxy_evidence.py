# SPDX-License-Identifier: MIT
"""Whether a server is behind a proxy, by the addresses of its connections."""

from __future__ import annotations

import pytest

from configtron.intake.pageloads.proxy_evidence import DIRECT, LEAST, PROXIED, TOO_FEW, proxy_evidence


def public(number: int) -> bytes:
    return bytes([8, 8, number >> 8, number & 255])


@pytest.mark.parametrize(
    ("remotes", "verdict"),
    [
        ([], TOO_FEW),
        ([public(at) for at in range(LEAST - 1)], TOO_FEW),
        ([public(at) for at in range(LEAST)], DIRECT),
        ([public(at % 30) for at in range(100)], DIRECT),
        # a proxy on this host, of a private network, of a carrier's shared addresses, of IPv6
        ([bytes([127, 0, 0, 1])] * 40, PROXIED),
        ([bytes([10, 0, 0, at % 25]) for at in range(100)], PROXIED),
        ([bytes([10, 0, 0, 1])] * 95 + [public(at) for at in range(5)], PROXIED),
        ([bytes(10) + b"\xff\xff" + bytes([192, 168, 1, at]) for at in range(30)], PROXIED),
        ([bytes([0xFD]) + bytes(14) + bytes([at]) for at in range(30)], PROXIED),
        # a load balancer with two public addresses; an office behind one of many
        ([public(at % 2) for at in range(100)], PROXIED),
        ([public(0)] * 60 + [public(at) for at in range(1, 41)], DIRECT),
        ([bytes([10, 0, 0, 1])] * 5 + [public(at) for at in range(95)], DIRECT),
    ],
)
def test_verdicts(remotes: list[bytes], verdict: str) -> None:
    found = proxy_evidence(remotes)
    assert found.verdict == verdict and found.why
