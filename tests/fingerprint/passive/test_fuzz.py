# SPDX-License-Identifier: MIT
"""Arbitrary bytes as a capture, and captures with bytes changed: nothing raises, nothing is lost without a name."""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import CaptureSource
from configtron.fingerprint.passive.connection_report import ConnectionReport, report_connections
from configtron.fingerprint.passive.gathering import Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.tls import hello
from configtron.model.errors import BadInput
from configtron.model.nouns import GRADES
from configtron.report.connection_json import form
from tests.fingerprint.capture.test_reading import DIALECTS
from tests.support import capture_bytes as write

MAGICS = [struct.pack(order + "I", magic) for order in "<>" for magic in (0xA1B2C3D4, 0xA1B23C4D)]
HEAD = bytes(16) + struct.pack("<I", 101)
SEEDS = sorted(DIALECTS.values())
# Counts that are no frames.
APART = {"frames", "connections", "told-early", "cut-file", "malformed-record", "dropped-by-capture",
         "cut-compression", "longer-than-frame"}  # fmt: skip


def everything(data: bytes, most: int | None = None) -> tuple[list[ConnectionReport], Counter[str]]:
    """Read, report, render: what the command does."""
    gathering = Gathering(most)
    found: list[ConnectionReport] = []
    try:
        for frames in read(CaptureSource(io.BytesIO(data)), gathering.counts, buffer=512):
            for batch in gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts)):
                found += report_connections(batch, ["x"])
        for batch in gathering.finish():
            found += report_connections(batch, ["x"])
    except BadInput:
        assert not found
    for one in found:
        form(one, ["x"])
        assert all(observation.grade in GRADES for observation in one.observations)
    return found, gathering.counts


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*MAGICS, b"", b"\x0a\x0d\x0d\x0a"]), st.binary(max_size=400))
def test_any_bytes(magic: bytes, data: bytes) -> None:
    everything(magic + data)
    everything(magic + HEAD + data)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A capture with some bytes replaced, removed, or put in."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(24, len(data) - 1))
        how = draw(st.integers(0, 2))
        data[at : at + (how != 1)] = b"" if how == 0 else draw(st.binary(min_size=1, max_size=4))
    return bytes(data)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(changed(), st.sampled_from([None, 4, 9]))
def test_changed_captures(data: bytes, most: int | None) -> None:
    found, counts = everything(data, most)
    assert sum(int(one.numbers["packets"] or 0) + int(one.numbers["copies"] or 0) for one in found) == counts["tcp"]
    assert sum(n for name, n in counts.items() if name not in APART) >= counts["frames"] - counts["malformed-record"]


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**7), st.integers(0, 1), st.integers(0, 255), st.integers(-3, 9), st.integers(-3, 9),
                  st.integers(0, 3)),
        min_size=1, max_size=40,
    ),
    st.sampled_from([None, 5]),
)  # fmt: skip
@example([(0, 0, 2, 0, 0, 0)], None)
def test_any_order_of_any_segments(steps: Sequence[tuple[int, int, int, int, int, int]], most: int | None) -> None:
    """Nonsense conversations of real headers: every count is at least 0 and the parts add up."""
    frames, at = [], 0
    for pause, way, flags, seq, ack, length in steps:
        at += pause
        frames.append((at, nonsense(way, flags, seq * 500, ack * 500, length * 500)))
    found, counts = everything(write.pcap(frames, nano=True), most)
    assert counts["tcp"] == len(frames)
    for one in found:
        assert all(value is None or value >= 0 for name, value in one.numbers.items() if "bytes" not in name)


def nonsense(way: int, flags: int, seq: int, ack: int, length: int) -> bytes:
    ports = (4000, 80)
    tcp = struct.pack(
        "!HHIIBBHHH", ports[way], ports[1 - way], seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, 99, 0, 0
    )
    ends = (b"\x0a\0\0\1", b"\x0a\0\0\2")
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + length, 0, 0, 64, 6, 0, ends[way], ends[1 - way])
    return head + tcp + bytes(length)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"\x16\x03\x01\x00\xc0\x01\x00\x00\xbc\x03\x03"]))
def test_any_hello(data: bytes, head: bytes) -> None:
    hello(head + data)
