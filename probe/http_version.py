# SPDX-License-Identifier: MIT
"""Provoke the HTTP version: by ALPN over TLS, and in clear. Read in `fingerprint/http_version.py`."""

from __future__ import annotations

from configtron.fingerprint.head import HEAD_LIMIT_BYTES, final
from configtron.model.nouns import Message, Session, Target
from configtron.probe.h2_settings import PREFACE, PREFACE_S, SETTINGS_EMPTY, head_of
from configtron.probe.script import OPEN_UNTIL_S, Open, Read, StreamScript, Write, get

# An answer's head arrives within a few round trips; servers that think longer than this are too slow to be asked.
PATIENCE_S = 6.0
# How to ask -> the ALPN names on offer; none without TLS.
WAYS: dict[str, tuple[str, ...]] = {"tls": ("h2", "http/1.1"), "https": ("http/1.1",), "clear": (), "h2c": ()}


def http_version(target: Target, agent: str, *, way: str = "tls", cookie: str = "") -> StreamScript:
    """Ask which HTTP is spoken.

    way     "tls": offer h2 and http/1.1 by ALPN; "https": offer http/1.1 alone, and GET; "clear": GET over plain TCP;
            "h2c": HTTP/2 with prior knowledge (RFC 9113 3.3)
    cookie  to be given back: the `cookies` of an earlier answer
    """
    session = yield Open(tls=way in ("tls", "https"), alpn=WAYS[way])
    assert isinstance(session, Session)
    if session.error:
        return session.error
    if way == "tls":
        return "done"
    h2c = way == "h2c"
    opened = yield Write(PREFACE + SETTINGS_EMPTY if h2c else get(target.host, target.path, agent, cookie=cookie))
    assert isinstance(opened, Message)
    late = head_of(target, agent, "http") if h2c else b""
    return (yield from _head(opened.at + PREFACE_S, late, b"" if h2c else b"\r\n\r\n"))


def _head(soon: float, late: bytes, needs: bytes) -> StreamScript:
    """Read until the final head is whole (or, for HTTP/2, until the first nine bytes: a frame header); if nothing came
    soon, write `late`."""
    got = b""
    while len(got) < HEAD_LIMIT_BYTES:
        message = yield Read(soon if late and not got else OPEN_UNTIL_S + PATIENCE_S)
        if message is None and late and not got:
            yield Write(late)
            late = b""
            continue
        if message is None:
            return "done" if got else "no-data"
        assert isinstance(message, Message)
        if not message.data:
            return "done" if got else "closed"
        got += message.data
        if needs and needs in final(got) or not needs and len(got) >= 9:
            return "done"
    return "done"
