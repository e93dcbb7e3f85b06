# SPDX-License-Identifier: MIT
"""libpcap compiles our filters, and they let in what is ours and nothing else (run by a small BPF machine)."""

from __future__ import annotations

import struct

import pytest

from configtron.model.nouns import ACK, Segment, Vantage
from configtron.probe.wire.filter import compile_filter
from configtron.probe.wire.frames import Envelope, build, packed
from configtron.probe.wire.live import expression

OURS, OURS6 = "198.18.1.3", "fd00:c0f1::3"
VANTAGE = Vantage("v", "r", "", "", OURS, OURS6)


def accepts(code: bytes, frame: bytes) -> bool:
    """Classic BPF (linux/filter.h), the instructions that libpcap makes of our expressions."""
    program = list(struct.iter_unpack("HBBI", code))
    a = x = at = 0
    while True:
        op, jt, jf, k = program[at]
        at += 1
        if op & 7 == 6:
            return bool(k)
        if op & 7 == 5:
            test = {0x10: a == k, 0x20: a > k, 0x30: a >= k, 0x40: bool(a & k)}
            at += k if op & 0xF0 == 0 else jt if test[op & 0xF0] else jf
            continue
        size = {0: 4, 8: 2, 16: 1}[op & 0x18]
        if op == 0xB1:
            x = 4 * (frame[k] & 15)
        elif op & 7 == 0:
            start = k + (x if op & 0xE0 == 0x40 else 0)
            if start + size > len(frame):
                return False
            a = int.from_bytes(frame[start : start + size], "big")
        elif op == 0x54:
            a &= k
        else:
            raise NotImplementedError(hex(op))


def frame(source: str, destination: str, port: int) -> bytes:
    ether = bytes(12) + (b"\x86\xdd" if ":" in source else b"\x08\x00")
    return ether + build(Envelope(packed(source), packed(destination), 80, port), Segment(ACK), 1, 1)


@pytest.mark.parametrize(
    ("source", "destination", "port", "ours"),
    [
        *(("10.0.0.1", OURS, port, port in range(20000, 20100)) for port in (19999, 20000, 20099, 20100)),
        ("10.0.0.1", "198.18.1.2", 20000, False),
        ("fd00::1", OURS6, 20000, True),
        ("fd00::1", "fd00::2", 20000, False),
    ],
)
def test_the_filter_lets_in_what_is_ours(source: str, destination: str, port: int, ours: bool) -> None:
    code = compile_filter(expression(VANTAGE, range(20000, 20100)))
    assert accepts(code, frame(source, destination, port)) is ours


def test_a_bad_expression_is_reported() -> None:
    with pytest.raises(ValueError, match="filter 'tcp and and'"):
        compile_filter("tcp and and")
