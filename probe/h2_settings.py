# SPDX-License-Identifier: MIT
"""Provoke HTTP/2 SETTINGS: preface and empty SETTINGS, then a request, whether SETTINGS came or not.

The reading is in `fingerprint/h2_settings.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from hpack import Encoder  # type: ignore[import-untyped,unused-ignore]

from configtron.fingerprint.h2_frames import ACK, GOAWAY, HEADERS, SETTINGS, WINDOW_UPDATE, Http2Frame, read_frames
from configtron.model.nouns import Message, Session, Target
from configtron.probe.script import Open, Read, StreamScript, Write

# RFC 9113 3.4: the client's opening words.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS_EMPTY = bytes([0, 0, 0, SETTINGS, 0]) + bytes(4)
SETTINGS_ACK = bytes([0, 0, 0, SETTINGS, ACK]) + bytes(4)
# The server's preface needs one round trip. A client may ask before it comes (RFC 9113 3.4), and some servers send it
# with their first answer: after this long we ask, or without a request give up.
PREFACE_S, PATIENCE_S = 2.0, 5.0
# A WINDOW_UPDATE belongs to the preface; a server that sends none acknowledges our SETTINGS in one round trip. Either
# may be lost once (a second's timer at worst, and the longest path).
COMPANY_S = 2.0
# SETTINGS that come later (after the request) are rare; the answer's HEADERS end the wait. Servers think up to 3 s, and
# the network may lose their answer once.
ANSWER_S = 6.0


def h2_settings(target: Target, agent: str, *, ask: bool = True) -> StreamScript:
    """Connect with ALPN {h2, http/1.1}; if h2 is chosen, collect SETTINGS, then ask for the page and keep listening."""
    session = yield Open(tls=True, alpn=("h2", "http/1.1"))
    assert isinstance(session, Session)
    if session.error:
        return session.error
    if session.alpn != "h2":
        return "done"
    opened = yield Write(PREFACE + SETTINGS_EMPTY)
    assert isinstance(opened, Message)
    got, at, ended = yield from _frames(b"", _announced, opened.at, PREFACE_S if ask else PATIENCE_S)
    announced = _announced(read_frames(got))
    if announced and not ended:
        got, at, ended = yield from _frames(got, _whole_preface, at, COMPANY_S)
    if ended or not (announced or ask):
        return "done" if got else "closed" if ended else "no-data"
    if not ask:
        return "done" if _whole_preface(read_frames(got)) else "no-data"
    yield Write((SETTINGS_ACK if announced else b"") + head_of(target, agent))
    got, at, ended = yield from _frames(got, _answered, at, ANSWER_S)
    return "done" if ended or _answered(read_frames(got)) else "no-data"


def _announced(frames: Sequence[Http2Frame]) -> bool:
    return any(frame.kind == SETTINGS for frame in frames)


def _whole_preface(frames: Sequence[Http2Frame]) -> bool:
    """Return whether all that belongs to the server's opening words has come."""
    return any(f.kind == WINDOW_UPDATE or f.kind == SETTINGS and f.flags & ACK for f in frames)


def _answered(frames: Sequence[Http2Frame]) -> bool:
    return any(frame.kind == HEADERS for frame in frames)


def _frames(
    got: bytes, enough: Callable[[Sequence[Http2Frame]], bool], at: float, patience_s: float
) -> Generator[Open | Write | Read, Session | Message | None, tuple[bytes, float, bool]]:
    """Read until the whole frames are enough. Returns (bytes so far, time, whether the conversation is over)."""
    while not enough(frames := read_frames(got)) and not any(f.kind == GOAWAY for f in frames):
        message = yield Read(at + patience_s)
        if message is None:
            return got, at + patience_s, False
        assert isinstance(message, Message)
        at = message.at
        if not message.data:
            return got, at, True
        got += message.data
    return got, at, any(f.kind == GOAWAY for f in frames)


def head_of(target: Target, agent: str, scheme: str = "https") -> bytes:
    """Return a GET on stream 1, END_STREAM and END_HEADERS set (RFC 9113 8.1)."""
    fields = [
        (":method", "GET"),
        (":scheme", scheme),
        (":authority", target.host),
        (":path", target.path),
        ("user-agent", agent),
    ]
    block = bytes(Encoder().encode(fields))
    return len(block).to_bytes(3, "big") + bytes([HEADERS, 0x5]) + (1).to_bytes(4, "big") + block
