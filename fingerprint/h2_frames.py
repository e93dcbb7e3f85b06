# SPDX-License-Identifier: MIT
"""HTTP/2 frames as they lie in a stream: nothing interpreted away.

Rules for this file: pure; total; order, duplicates and unknown types, identifiers and values are kept, which the
libraries for HTTP/2 drop or reject. Dropped: the reserved bit of a stream's number, as RFC 9113 4.1 demands; priority,
since servers send none; interim answers (1xx), since the final one follows. Source: RFC 9113 4.1, 6, 8.1; hpack for
field blocks (RFC 7541).
"""

from __future__ import annotations

from typing import NamedTuple

from configtron.fingerprint.head import HEAD_LIMIT_BYTES, Fields

# Frame types (RFC 9113 section 6).
DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0x0, 0x1, 0x4, 0x6, 0x7, 0x8, 0x9
# Flags (the same sections).
ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x4, 0x8, 0x20
# We announce no other size, so none may be longer (RFC 9113 4.2); more is not HTTP/2.
FRAME_SIZE_MAX = 16384


class Http2Frame(NamedTuple):
    """One frame. Unknown types are kept."""

    kind: int
    flags: int
    stream: int
    body: bytes


def read_frames(data: bytes) -> list[Http2Frame]:
    """Return every whole frame; stop at bytes that are no frame."""
    frames, at = [], 0
    while at + 9 <= len(data):
        length = int.from_bytes(data[at : at + 3], "big")
        if length > FRAME_SIZE_MAX or at + 9 + length > len(data):
            break
        stream = int.from_bytes(data[at + 5 : at + 9], "big") & 0x7FFFFFFF
        frames.append(Http2Frame(data[at + 3], data[at + 4], stream, data[at + 9 : at + 9 + length]))
        at += 9 + length
    return frames


def settings_of(body: bytes) -> list[tuple[int, int]]:
    """Return the settings as (identifier, value), in wire order."""
    return [
        (int.from_bytes(body[i : i + 2], "big"), int.from_bytes(body[i + 2 : i + 6], "big"))
        for i in range(0, len(body) - len(body) % 6, 6)
    ]


def fields_of(frames: list[Http2Frame]) -> Fields:
    """Return the header fields of the first final response; empty without one, or if HPACK cannot decode a block."""
    # Captures seldom have frames in clear, and its table of Huffman codes is large.
    from hpack import Decoder, HPACKError  # type: ignore[import-untyped,unused-ignore]

    decoder, block = Decoder(max_header_list_size=HEAD_LIMIT_BYTES), b""
    for frame in [one for one in frames if one.kind in (HEADERS, CONTINUATION)]:
        block = block + frame.body if frame.kind == CONTINUATION else _fragment(frame)
        if frame.flags & END_HEADERS:
            try:
                pairs = decoder.decode(block, raw=True)
            except (HPACKError, ValueError, IndexError):
                return ()
            if (b":status", b"1") not in [(name, value[:1]) for name, value in pairs]:
                return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]
    return ()


def _fragment(frame: Http2Frame) -> bytes:
    """Return a HEADERS frame's field block, without padding and priority (RFC 9113 6.2)."""
    body, padding = frame.body, 0
    if frame.flags & PADDED and body:
        body, padding = body[1:], body[0]
    if frame.flags & PRIORITY:
        body = body[5:]
    return body[: len(body) - padding] if padding <= len(body) else b""
