"""Provoke the HTTP version: by ALPN over TLS, and in clear. Read in `fingerprint/http_version.py`."""

from __future__ import annotations

from configtron.nouns import Message, Session, Target
from configtron.probe.h2_settings import PREFACE, SETTINGS_EMPTY
from configtron.probe.script import Open, Read, StreamScript, Write, get

# An answer's head arrives within a few round trips; servers that think longer than this are too slow to be asked.
PATIENCE_S = 6.0
# A head longer than this is not a head (RFC 9110 5.4 recommends at least 8000 bytes per line).
HEAD_LIMIT_BYTES = 32768


def http_version(target: Target, agent: str, *, way: str = "tls") -> StreamScript:
    """Ask which HTTP is spoken.

    way   "tls": offer h2 and http/1.1 by ALPN; "clear": GET over plain TCP; "h2c": HTTP/2 with prior knowledge (RFC
          9113 3.3)
    """
    session = yield Open(tls=way == "tls", alpn=("h2", "http/1.1") if way == "tls" else ())
    assert isinstance(session, Session)
    if session.error:
        return session.error
    if way == "tls":
        return "done"
    yield Write(PREFACE + SETTINGS_EMPTY if way == "h2c" else get(target.host, target.path, agent))
    return (yield from _head(until=PATIENCE_S * 2, needs=b"\r\n\r\n" if way == "clear" else b""))


def _head(until: float, needs: bytes) -> StreamScript:
    """Read until the head is whole (or, for HTTP/2, until the first nine bytes: a frame header)."""
    got = b""
    while len(got) < HEAD_LIMIT_BYTES:
        message = yield Read(until)
        if message is None:
            return "no-data" if not got else "done"
        assert isinstance(message, Message)
        if not message.data:
            return "done" if got else "closed"
        got += message.data
        if needs and needs in got or not needs and len(got) >= 9:
            return "done"
    return "done"
