# SPDX-License-Identifier: MIT
"""Provoke an answer to packets that a user crafted: send each, receive the answers. Read in `fingerprint/craft.py`.

The parameter `packets` is text without scapy, so that a recording replays without it: items separated by a space,
`TOS:HEX` (the type of service in hexadecimal, then the TCP header and payload, with sequence numbers relative to each
side's initial one) or `wait:SECONDS`, how long to listen after each packet from there on.
`probe/wire/packet_template.py` makes it of a user's template.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from configtron.model.errors import BadInput
from configtron.model.nouns import OPT_EOL, OPT_NOP, Segment, Target
from configtron.probe.script import Script, Send, Wait, reset

# How long to listen after a packet unless the template says otherwise (s): a wide area's round trip and its variance.
LISTEN_S = 1.0
# RFC 9293 section 3.1, without ports (0 to 3), checksum and urgent pointer (16 to 19).
_HEADER = Struct("!4xIIBBH4x")


def craft(target: Target, agent: str, *, packets: str) -> Script:
    """Send the packets in order and listen after each; end with a reset, so that nothing stays open."""
    listen_s, end, heard = LISTEN_S, 0, False
    for item in items(packets):
        if isinstance(item, float):
            listen_s = item
            continue
        sent = yield item
        assert sent is not None
        end = max(end, item.segment.end)
        while (yield Wait(sent.at + listen_s)) is not None:
            heard = True
    yield Send(reset(end))
    return "done" if heard else "no-data"


def items(packets: str) -> Iterator[Send | float]:
    """Return the packets, and the seconds to listen, in order. Errors: `BadInput`, with the item that is malformed."""
    for word in packets.split():
        kind, _, rest = word.partition(":")
        try:
            yield float(rest) if kind == "wait" else Send(segment_of(bytes.fromhex(rest)), int(kind, 16))
        except ValueError as error:
            raise BadInput(f"crafted packets: {word[:40]}: {error}") from error


def segment_of(header: bytes) -> Segment:
    """Return the TCP header and payload as a segment. Errors: `ValueError` for bytes that are no TCP header."""
    if len(header) < 20 or (size := (header[12] >> 4) * 4) < 20 or size > len(header):
        raise ValueError("no TCP header")
    seq, ack, _, flags, window = _HEADER.unpack_from(header)
    payload = header[size:]
    return Segment(flags, seq, ack, window, tuple(_options(header[20:size])), payload, len(payload))


def _options(field: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(field):
        kind = field[at]
        if kind in (OPT_EOL, OPT_NOP):
            yield kind, b""
            at += 1
            continue
        length = field[at + 1] if at + 1 < len(field) else 0
        if length < 2 or at + length > len(field):
            raise ValueError(f"option {kind} has no valid length")
        yield kind, field[at + 2 : at + length]
        at += length
