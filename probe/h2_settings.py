"""Provoke HTTP/2 SETTINGS: preface and empty SETTINGS first, then a request. Read in `fingerprint/h2_settings.py`."""

from __future__ import annotations

from collections.abc import Generator

from hpack import Encoder  # type: ignore[import-untyped,unused-ignore]

from configtron.nouns import Message, Session, Target
from configtron.probe.script import Open, Read, StreamScript, Write

# RFC 9113 3.4: the client's opening words.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# Frame types (RFC 9113 section 6).
HEADERS, SETTINGS, GOAWAY, WINDOW_UPDATE = 0x1, 0x4, 0x7, 0x8
SETTINGS_EMPTY = bytes([0, 0, 0, SETTINGS, 0]) + bytes(4)
SETTINGS_ACK = bytes([0, 0, 0, SETTINGS, 1]) + bytes(4)
# The server's preface must be its first frame; it needs one round trip, or the server is not speaking HTTP/2.
PATIENCE_S = 5.0
# A WINDOW_UPDATE belongs to the preface when it follows at once; this is how long we give it (slow paths: one more
# flight).
COMPANY_S = 0.5
# SETTINGS that come later (after the request) are rare; the answer's HEADERS end the wait.
ANSWER_S = 2.0


def h2_settings(target: Target, agent: str, *, ask: bool = True) -> StreamScript:
    """Connect with ALPN {h2, http/1.1}; if h2 is chosen, collect SETTINGS, then ask for the page and keep listening."""
    session = yield Open(tls=True, alpn=("h2", "http/1.1"))
    assert isinstance(session, Session)
    if session.error:
        return session.error
    if session.alpn != "h2":
        return "done"
    yield Write(PREFACE + SETTINGS_EMPTY)
    got, at, ended = yield from _frames(b"", SETTINGS, after=0.0, patience_s=PATIENCE_S)
    if not ended and SETTINGS in _types(got):
        got, at, ended = yield from _frames(got, WINDOW_UPDATE, after=at, patience_s=COMPANY_S)
    if ended or not ask:
        return "done" if got else "closed"
    yield Write(SETTINGS_ACK + _head(target, agent))
    yield from _frames(got, HEADERS, after=at, patience_s=ANSWER_S)
    return "done"


def _frames(
    got: bytes, until_type: int, after: float, patience_s: float
) -> Generator[Open | Write | Read, Session | Message | None, tuple[bytes, float, bool]]:
    """Read until a frame of that type is there. Returns (bytes so far, time, whether the stream ended)."""
    while until_type not in _types(got):
        message = yield Read(after + patience_s if after else patience_s * 2)
        if message is None:
            return got, after + patience_s, False
        assert isinstance(message, Message)
        if not message.data:
            return got, message.at, True
        got, after = got + message.data, message.at
    return got, after, GOAWAY in _types(got)


def _types(data: bytes) -> list[int]:
    """Types of the frames whose header is there."""
    types, at = [], 0
    while at + 9 <= len(data):
        types.append(data[at + 3])
        at += 9 + int.from_bytes(data[at : at + 3], "big")
    return types


def _head(target: Target, agent: str) -> bytes:
    """A GET on stream 1, END_STREAM and END_HEADERS set (RFC 9113 8.1)."""
    fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", target.host),
        (":path", target.path),
        ("user-agent", agent),
    ]
    block = bytes(Encoder().encode(fields))
    return len(block).to_bytes(3, "big") + bytes([HEADERS, 0x5]) + (1).to_bytes(4, "big") + block
