"""HTTP version: by ALPN over TLS, and in clear.

Question   Which HTTP does the server choose when offered both, and what does it speak without TLS?
Method     ALPN {h2, http/1.1}; GET over plain TCP; HTTP/2's preface over plain TCP (prior knowledge).
Stop when  the handshake is done, or the answer's head is there.
Reads as   http_version: the ALPN answer; http_clear: the version of the status line; h2c: "accepted" or "not-accepted".
Fails as   no-synack, refused, tls:no-alpn (TLS without an ALPN answer), tls:*, not-http, closed, no-data.
Differs    from ConfigTron Table 2, which has one number: the ALPN answer is the one that compares.
Source     RFC 7301; RFC 9112 section 4; RFC 9113 3.3, 3.4.
"""

from __future__ import annotations

from configtron.fingerprint.verdict import no, yes
from configtron.nouns import Message, Observation, Trace, Value

PROBES = ("http_version", "h2_settings", "icw", "rwin")
# A SETTINGS frame's type byte sits at offset 3 of the server's first frame (RFC 9113 4.1).
SETTINGS = 4
# Reading the head of a page we were sent: enough for status line and headers, bounded against endless ones.
HEAD_LIMIT_BYTES = 32768


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read a TLS trace, a clear one, or the answer of any trace that asked for a page."""
    if trace.probe in ("h2_settings", "http_version") and trace.param("way", "tls") == "tls":
        return (_alpn(trace),)
    if trace.probe == "http_version":
        return (_h2c(trace),) if trace.param("way") == "h2c" else (_clear(trace),)
    return _asides(trace)


def _alpn(trace: Trace) -> Observation:
    session = trace.session
    if session is None or session.error:
        return no("http_version", session.error if session and session.error else _ending(trace), trace)
    frames = tuple(p.frame for p in trace.packets if p.way == "in" and p.segment.length > 0)[:1]
    if not session.alpn:
        return no("http_version", "tls:no-alpn", trace, details={"tls": session.version})
    return yes("http_version", session.alpn, trace, "", "ALPN", "C", frames, {"tls": session.version})


def _clear(trace: Trace) -> Observation:
    head = _heard(trace.messages)
    version = status_version(head)
    if version is None:
        return no("http_clear", "not-http" if head else _ending(trace), trace)
    details: dict[str, Value] = {"status": head_status(head)}
    details.update(
        {name: text for name in ("location", "server", "content-length") if (text := head_field(head, name))}
    )
    frames = tuple(p.frame for p in trace.packets if p.way == "in" and p.segment.length > 0)[:1]
    return yes("http_clear", version, trace, "", "status line", "C", frames, details)


def _h2c(trace: Trace) -> Observation:
    heard = _heard(trace.messages)
    if trace.session is not None and trace.session.error:
        return no("h2c", trace.session.error, trace)
    spoken = len(heard) >= 9 and heard[3] == SETTINGS and heard[5:9] == bytes(4)
    if not heard and trace.ending == "no-data":
        return no("h2c", "no-data", trace)
    return yes("h2c", "accepted" if spoken else "not-accepted", trace, "", "HTTP/2 preface in clear", "C")


def _asides(trace: Trace) -> tuple[Observation, ...]:
    """A trace made for another purpose also heard a status line."""
    first = next((p for p in trace.packets if p.way == "in" and p.segment.seq == 1 and p.segment.length > 0), None)
    version = status_version(first.segment.payload) if first is not None else None
    if first is None or version is None:
        return ()
    return (yes("http_clear", version, trace, "", "status line", "C", (first.frame,)),)


def status_version(head: bytes) -> str | None:
    """ "http/1.1" of b"HTTP/1.1 200 OK"; None if these bytes open no HTTP/1 answer."""
    word = head[:16].split(b" ", 1)[0]
    if len(word) != 8 or not word.startswith(b"HTTP/1.") or not word[7:8].isdigit():
        return None
    return word.decode("ascii").lower()


def head_status(head: bytes) -> int:
    """Status code, 0 if unreadable."""
    code = head[9:12]
    return int(code) if len(code) == 3 and code.isdigit() else 0


def head_field(head: bytes, name: str) -> str:
    """A header field's value, "" if absent."""
    for line in head[:HEAD_LIMIT_BYTES].split(b"\r\n\r\n", 1)[0].split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name.encode():
            return value.strip().decode("latin-1")
    return ""


def _heard(messages: tuple[Message, ...]) -> bytes:
    return b"".join(m.data for m in messages if m.way == "in")


def _ending(trace: Trace) -> str:
    if trace.session is not None and trace.session.error:
        return trace.session.error
    return trace.ending if trace.ending not in ("", "done") else "closed"
