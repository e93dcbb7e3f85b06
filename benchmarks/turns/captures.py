# SPDX-License-Identifier: MIT
"""One file a conversation; and the proof of an exact window, looked for by other code than the one under test."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from configtron.model.nouns import FIN, RST, SYN, Observation
from configtron.probe.wire.frames import Dissected, dissect

HEADER, RECORD = 24, 16
STAMP_BYTES, DEFAULT_MSS = 12, 536


class Capture(NamedTuple):
    """One conversation: its file, and its frames as read by the probes' own codec."""

    path: Path
    frames: tuple[Dissected, ...]


def records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """(header, frame) of each record of a little-endian pcap."""
    data, at = path.read_bytes(), HEADER
    while at + RECORD <= len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at : at + RECORD], data[at + RECORD : at + RECORD + size]
        at += RECORD + size


def split(path: Path) -> list[Capture]:
    """Each conversation of a capture, in a file beside it."""
    head = path.read_bytes()[:HEADER]
    parts: dict[frozenset[tuple[bytes, int]], list[tuple[bytes, Dissected]]] = defaultdict(list)
    for header, frame in records(path):
        length = struct.unpack_from("<I", header, 12)[0]
        found = dissect(frame, length)
        if found is not None:
            ends = frozenset(((found.source, found.source_port), (found.destination, found.destination_port)))
            parts[ends].append((header + frame, found))
    made = []
    for number, part in enumerate(parts.values()):
        file = path.with_name(f"{path.stem}-{number:03d}.pcap")
        file.write_bytes(head + b"".join(raw for raw, _ in part))
        made.append(Capture(file, tuple(found for _, found in part)))
    return made


def unproven(capture: Capture, verdict: Observation) -> str:
    """Why the packets do not prove an exact window; "" if they do. Evidence is by frame numbers, from 1."""
    frames = capture.frames
    flight = [frames[number - 1] for number in verdict.evidence]
    full = _agreed(frames)
    if not flight or any(one.length % full or not one.length for one in flight):
        return "a segment of the flight is not full"
    last, server = flight[-1], flight[-1].source_port
    end = (last.seq + last.length) & 0xFFFFFFFF
    for one in frames[verdict.evidence[-1] :]:
        if one.source_port == server and one.seq == end and one.length:
            return "" if one.length >= full else "what followed is not full"
        span = one.length + bool(one.flags & FIN)
        if one.source_port != server and span and not one.flags & (SYN | RST):
            if (one.seq + span - last.ack) & 0xFFFFFFFF < 1 << 31 and one.seq + span != last.ack:
                return "the client spoke"
    return "nothing followed"


def _agreed(frames: tuple[Dissected, ...]) -> int:
    """The smaller of both MSS options, less timestamps."""
    offers, stamps = [], []
    for one in frames:
        if one.flags & SYN:
            options = dict(one.options)
            offers.append(int.from_bytes(options.get(2, DEFAULT_MSS.to_bytes(2, "big")), "big"))
            stamps.append(8 in options)
    return min(offers, default=DEFAULT_MSS) - (STAMP_BYTES if stamps and all(stamps) else 0)
