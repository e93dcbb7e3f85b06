# SPDX-License-Identifier: MIT
"""Captures of how connections begin: refused, unanswered, answered; and their reports, as batches."""

from __future__ import annotations

import io
import struct

from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import CaptureSource
from configtron.fingerprint.passive.connection_report import ConnectionReports, report_connections
from configtron.fingerprint.passive.gathering import Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.model.nouns import ACK, RST, SYN
from tests.support import capture_bytes as write

SACK, STAMPS = b"\x02\x04\x05\xb4\x04\x02\x01\x01", b"\x02\x04\x05\xb4\x08\x0a" + bytes(8) + b"\x01\x01"
# (from the server, flags, options) of connections that have no answer, or that have one.
OPENINGS = [
    [(0, SYN, SACK)], [(0, SYN, STAMPS)], [(0, SYN, b"")], [(0, SYN, SACK), (1, RST | ACK, b"")],
    [(0, SYN, SACK), (0, SYN, SACK)], [(0, SYN, SACK), (1, SYN | ACK, SACK)],
    [(0, SYN, SACK), (1, SYN | ACK, SACK), (1, RST, b"")],
]  # fmt: skip


def batches(data: bytes, wanted: frozenset[str] | None = None) -> list[ConnectionReports]:
    gathering = Gathering()
    for frames in read(CaptureSource(io.BytesIO(data)), gathering.counts):
        list(gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts)))
    return [report_connections(batch, ["x"], wanted=wanted) for batch in gathering.finish()]


def segment(client: int, way: int, flags: int, options: bytes) -> bytes:
    ports, ends = (4000 + client, 80), (b"\x0a\0\0\1", b"\x0a\0\0\2")
    size = 20 + len(options)
    tcp = struct.pack("!HHIIBBHHH", ports[way], ports[1 - way], 7, 8 if flags & ACK else 0, size << 2, flags, 99, 0, 0)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + size, 0, 0, 64, 6, 0, ends[way], ends[1 - way])
    return head + tcp + options


def capture(openings: list[int]) -> bytes:
    """Return a capture of these `OPENINGS`, a client each, a second between segments."""
    steps = [(client, step) for client, opening in enumerate(openings) for step in OPENINGS[opening]]
    return write.pcap([(10**9 * at, segment(client, *step)) for at, (client, step) in enumerate(steps, 1)], nano=True)
