# SPDX-License-Identifier: MIT
"""A trace as lines of a conversation: what was sent and heard, in a few words each, in order of time.

Rules for this file: pure; a packet is named by what a reader of captures would call it; a message inside TLS is a
line of its own, since the packets around it do not show it; packets that prove the verdict are marked.
"""

from __future__ import annotations

from typing import NamedTuple

from configtron.fingerprint.h2_frames import ACK as SETTINGS_ACK
from configtron.fingerprint.h2_frames import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    SETTINGS,
    WINDOW_UPDATE,
    Http2Frame,
    read_frames,
    settings_of,
)
from configtron.model.nouns import ACK, FIN, RST, SYN, Message, Observation, Packet, Trace
from configtron.model.wording import count_of

# HTTP/2's opening (RFC 9113 section 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAMES = {DATA: "DATA", HEADERS: "HEADERS", SETTINGS: "SETTINGS", PING: "PING", GOAWAY: "GOAWAY",
          WINDOW_UPDATE: "WINDOW_UPDATE", CONTINUATION: "CONTINUATION"}  # fmt: skip
# RFC 9113 section 6.5.2.
SETTING = {1: "HEADER_TABLE_SIZE", 2: "ENABLE_PUSH", 3: "MAX_CONCURRENT_STREAMS", 4: "INITIAL_WINDOW_SIZE",
           5: "MAX_FRAME_SIZE", 6: "MAX_HEADER_LIST_SIZE"}  # fmt: skip
# More lines make a drawing that is not readable.
MOST_LINES = 64
# Settings there are six of; a server may announce any number.
MOST_NOTES = 8
# After the last packet of the proof so many more lines show how it went on.
AFTERMATH = 4


class Note(NamedTuple):
    """A detail of a line."""

    text: str
    proof: bool


class LadderLine(NamedTuple):
    """One line: when (seconds), which way ("out" or "in"), what, whether it is a part of the proof.

    `length` is the payload of a packet that carries data, 0 else; `inside` marks a message inside TLS, or one named
    from the plain bytes of the packets; `notes` go below, the ones the verdict was read from first marked.
    """

    at: float
    way: str
    text: str
    proof: bool = False
    length: int = 0
    again: bool = False
    inside: bool = False
    notes: tuple[Note, ...] = ()


class Conversation(NamedTuple):
    """The lines, and how many more there were."""

    lines: tuple[LadderLine, ...]
    more: int


def conversation(trace: Trace, reading: Observation) -> Conversation:
    """The lines of a trace up to what the reading was read from, and a little further."""
    highest = {"out": 0, "in": 0}
    lines = [_packet(packet, reading, highest) for packet in trace.packets]
    for message in trace.messages:
        frames = _frames(trace, message)
        lines += [_frame(frame, message, reading.knob) for frame in frames]
        lines += [] if frames else [LadderLine(message.at, message.way, _plain(message.data), inside=True)]
    lines.sort(key=lambda line: line.at)
    last = max((n for n, line in enumerate(lines) if line.proof), default=0)
    if reading.knob == "http_version" and trace.session is not None and lines:
        lines[last] = lines[last]._replace(notes=(Note(f"ALPN {trace.session.alpn or '(none)'}", True),))
    kept = lines[: min(last + 1 + AFTERMATH, MOST_LINES)]
    return Conversation(tuple(kept), len(lines) - len(kept))


def _packet(packet: Packet, reading: Observation, highest: dict[str, int]) -> LadderLine:
    """One packet; `highest` holds the end of what each side has sent, so what comes again is marked."""
    segment, way = packet.segment, packet.way
    proof = way == "in" and packet.frame in reading.evidence
    flags = [name for name, bit in (("SYN", SYN), ("FIN", FIN), ("RST", RST)) if segment.flags & bit]
    if segment.flags & ACK and (flags or not segment.length):
        flags.append("ACK")
    again = bool(segment.length or segment.flags & SYN) and segment.end <= highest[way]
    hole = segment.length and 0 < highest[way] < segment.seq
    notes = (Note(f"(bytes {highest[way]}–{segment.seq - 1} did not arrive before)", False),) if hole else ()
    highest[way] = max(highest[way], segment.end)
    words = ["again:"] if again else []
    words += [" ".join(flags)] if flags else []
    if segment.length:
        words.append(f"bytes {segment.seq}–{segment.seq + segment.length - 1}")
    elif segment.flags & SYN:
        words += [f"window {segment.window}", *([f"MSS {segment.mss}"] if segment.mss else [])]
    elif segment.flags & ACK and not segment.flags & (FIN | RST):
        words.append(f"{segment.ack}")
    return LadderLine(packet.at, way, " ".join(words), proof, segment.length, again, notes=notes)


def _frames(trace: Trace, message: Message) -> list[Http2Frame]:
    """HTTP/2 frames of a message, none if the trace does not speak it."""
    if not any(each.data.startswith(PREFACE) for each in trace.messages):
        return []
    return read_frames(message.data.removeprefix(PREFACE))


def _frame(frame: Http2Frame, message: Message, knob: str) -> LadderLine:
    """A frame by its name, SETTINGS with what they say."""
    name, pairs = FRAMES.get(frame.kind, f"frame {frame.kind}"), settings_of(frame.body)
    if frame.kind != SETTINGS:
        return LadderLine(message.at, message.way, name, inside=True)
    if frame.flags & SETTINGS_ACK:
        return LadderLine(message.at, message.way, f"{name} ACK", inside=True)
    read = message.way == "in" and knob.startswith("h2_")
    named = [(SETTING.get(number, f"setting {number}"), value) for number, value in pairs[:MOST_NOTES]]
    notes = tuple(Note(f"{word} = {value}", read and knob == f"h2_{word.lower()}") for word, value in named)
    return LadderLine(
        message.at, message.way, name, read, inside=True, notes=notes or (Note("(none: the defaults)", read),)
    )


def _plain(data: bytes) -> str:
    """The first line, if it is text."""
    line = data.split(b"\r\n", 1)[0].decode("latin-1")
    return line if line and line.isprintable() else count_of(len(data), "byte")
