# SPDX-License-Identifier: MIT
"""The few bytes of a capture that are kept beside the columns: options of SYNs, and how each side's stream opens.

Kept are the options of every SYN, and the payload of segments that begin like TLS handshakes (or a warning before one),
HTTP/1 heads or HTTP/2, with the segments that continue them. No other payload is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import CUT, Column, Rows
from configtron.fingerprint.passive.options import FIXED
from configtron.fingerprint.passive.tls import ALERT, HANDSHAKE, missing
from configtron.model.nouns import RST, SYN

# How streams open (first four bytes): HTTP/1 requests and answers, HTTP/2's preface. TLS and SETTINGS: see `_opens`.
WORDS = tuple(int.from_bytes(word, "big") for word in (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"HTTP", b"PRI "))
# Kept of one segment's payload: the largest TLS record, with its header.
KEEP = 16389
# Memory of one kept segment besides its bytes: objects, and its place in the table.
OVERHEAD = 250
# Segments of one side that are looked at for the rest of its first record: a ClientHello of 1.8 kB at MSS 64 has 29.
FOLLOW_MOST = 40


class KeptSegment(NamedTuple):
    """Options (of a SYN) and payload of one segment."""

    options: bytes
    payload: bytes


class RecordRest:
    """The rest of a TLS record that began: its next sequence number, bytes to come, segments still looked at."""

    __slots__ = ("left", "looks", "seq")

    def __init__(self, seq: int, left: int) -> None:
        self.seq, self.left, self.looks = seq, left, FOLLOW_MOST


class Heads:
    """Kept segments, by `Rows.frame`; and the rest of records still to come, by 2 x pair + side."""

    def __init__(self) -> None:
        self.kept: dict[int, KeptSegment] = {}
        self.wanted: dict[int, RecordRest] = {}
        # Of ICMP messages that a packet was too big: its pair of ends, the time (ns), the MTU.
        self.too_big: list[tuple[int, int, int]] = []
        # Bytes held, about.
        self.size = 0

    def keep(self, frame: int, options: bytes, payload: bytes) -> None:
        """Keep this of a frame, if nothing of it is kept yet."""
        if frame not in self.kept:
            self.kept[frame] = KeptSegment(options, payload)
            self.size += len(options) + len(payload) + OVERHEAD

    def forget(self, frames: set[int]) -> None:
        """Drop the heads of connections that have been reported."""
        for frame in frames & self.kept.keys():
            gone = self.kept.pop(frame)
            self.size -= len(gone.options) + len(gone.payload) + OVERHEAD


class Segments(NamedTuple):
    """Rows; where in the buffer each payload begins, how much of it was captured, and bytes of the TCP header; which
    rows are SYNs, and which may open a stream."""

    rows: Rows
    begin: Column
    held: Column
    size: Column
    syns: Column
    opens: Column


def segments_of(data: Column, rows: Rows, begin: Column, size: Column, room: Column) -> Segments:
    """Return rows with the places of their bytes in `data`. room: bytes captured of header and payload."""
    # The text in a reset is a diagnostic for people (RFC 9293 3.5.3), and no part of the stream.
    held = np.where((rows.flags & RST) == 0, np.minimum(rows.length, room - size), 0)
    spoken = np.flatnonzero(held >= 4)
    opens = spoken[_opens(data, begin[spoken])] if len(spoken) else spoken
    return Segments(rows, begin, held, size, np.flatnonzero((rows.flags & SYN) != 0), opens)


def keep_heads(data: Column, segments: Segments, heads: Heads) -> None:
    """Keep the bytes worth keeping of one buffer's segments."""
    rows, begin, held, _, _, opens = segments
    if len(segments.syns):
        _keep_syns(data, segments, heads)
    for row in opens.tolist():
        payload = _payload(data, begin, held, row)
        heads.keep(int(rows.frame[row]), b"", payload)
        left = missing(payload)
        if left > 0 and int(held[row]) == int(rows.length[row]):
            heads.wanted[int(rows.pair[row]) * 2 + int(rows.side[row])] = RecordRest(
                int(rows.seq[row]) + len(payload) & 0xFFFFFFFF, left
            )
    if heads.wanted:
        _follow(data, rows, begin, held, heads)


def _keep_syns(data: Column, segments: Segments, heads: Heads) -> None:
    """Keep options and payload of SYNs, all at once."""
    rows, begin, held, size, syns, _ = segments
    view, ends = data.data, begin[syns]
    lengths = np.where((rows.bits[syns] & CUT) != 0, 0, size[syns] - FIXED)
    first = ends - size[syns] + FIXED
    options = [bytes(view[at:end]) for at, end in zip(first.tolist(), (first + lengths).tolist(), strict=True)]
    payloads = [b""] * len(options)
    for place in np.flatnonzero(held[syns] > 0).tolist():
        payloads[place] = _payload(data, begin, held, int(syns[place]))
    found = map(KeptSegment._make, zip(options, payloads, strict=True))
    heads.kept.update(zip(rows.frame[syns].tolist(), found, strict=True))
    heads.size += int(lengths.sum()) + sum(map(len, payloads)) + OVERHEAD * len(options)


def _follow(data: Column, rows: Rows, begin: Column, held: Column, heads: Heads) -> None:
    """Segments that continue a record which began in one before them."""
    ways = rows.pair.astype(np.int64) * 2 + rows.side
    for row in np.flatnonzero(np.isin(ways, np.fromiter(heads.wanted, np.int64)) & (held > 0)).tolist():
        way = int(ways[row])
        wanted = heads.wanted.get(way)
        if wanted is None:
            continue
        wanted.looks -= 1
        if int(rows.seq[row]) == wanted.seq:
            payload = _payload(data, begin, held, row)
            heads.keep(int(rows.frame[row]), b"", payload)
            wanted.seq, wanted.left = wanted.seq + len(payload) & 0xFFFFFFFF, wanted.left - len(payload)
        if wanted.left <= 0 or not wanted.looks:
            del heads.wanted[way]


def _payload(data: Column, begin: Column, held: Column, row: int) -> bytes:
    return bytes(data[begin[row] :][: min(int(held[row]), KEEP)].tobytes())


def _opens(data: Column, at: Column) -> Column:
    """Return which of these places open a stream that we read."""
    likely = np.flatnonzero(_FIRST[data[at]])
    at = at[likely]
    word = data[at].astype(np.uint32)
    for offset in range(1, 4):
        word = word << np.uint32(8) | data[at + offset]
    record = word >> np.uint32(8) & np.uint32(0xFFFFFC)
    # A warning's record holds two bytes, the level first.
    warning = (record == 0x150300) & (word & np.uint32(0xFF) == 0) & (data[at + 4] == 2) & (data[at + 5] == 1)
    tls = (record == 0x160300) | warning
    http2 = (word >> np.uint32(16) == 0) & (word & np.uint32(0xFF) == 4) & (data[at + 4] == 0)  # SETTINGS, no ACK
    found: Column = likely[tls | http2 | np.isin(word, np.array(WORDS, np.uint32))]
    return found


# Whether a first byte may open one.
_FIRST = np.zeros(256, bool)
_FIRST[[0, ALERT, HANDSHAKE, *(word >> 24 for word in WORDS)]] = True
