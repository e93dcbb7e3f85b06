# SPDX-License-Identifier: MIT
"""HTTP version: by ALPN over TLS, and in clear.

Question   Which HTTP version does the server choose when offered both, and which does it speak when there is no choice?
Method     ALPN {h2, http/1.1}; ALPN {http/1.1} and a GET; GET over plain TCP; HTTP/2's preface over plain TCP (prior
           knowledge), and a request as well after two seconds of silence (RFC 9113 3.4). A capture may also show a
           client's offer by Upgrade (RFC 7540 3.2) taken up.
Stop when  the handshake is done, or the answer's head is there.
Reads as   http_version: the ALPN answer; http_tls, http_clear: the version of the status line, with the server, the
           place of the page and the cookies set, all from the head; h2c: "accepted" or "not-accepted".
Fails as   no-synack, refused, tls:no-alpn (TLS without an ALPN answer), tls:*, not-http, closed, no-data.
Differs    from ConfigTron Table 2, which has one number: the ALPN answer is the one that compares.
Source     RFC 7301; RFC 9110 15.4; RFC 9112 section 4; RFC 9113 3.3, 3.4; RFC 6265.
"""

from __future__ import annotations

from configtron.fingerprint.head import head_fields, head_status, header_details, status_version
from configtron.fingerprint.verdict import ended, no, yes
from configtron.model.nouns import Message, Observation, Trace, Value

PROBES = ("http_version", "h2_settings", "icw", "rwin")
KNOBS = ("http_version", "http_tls", "http_clear", "h2c")
# A SETTINGS frame's type byte sits at offset 3 of the server's first frame (RFC 9113 4.1).
SETTINGS = 4

# How every answer's first line begins (RFC 9112 section 4).
STATUS_BEGINS = b"HTTP/1."


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read a TLS trace, a clear one, or the answer of any trace that asked for a page."""
    if trace.probe not in ("h2_settings", "http_version"):
        return _asides(trace)
    way = trace.param("way", "tls")
    if way == "tls":
        return (_alpn(trace),)
    return (_h2c(trace) if way == "h2c" else _page(trace, "http_tls" if way == "https" else "http_clear"),)


def _alpn(trace: Trace) -> Observation:
    session = trace.session
    if session is None or session.error:
        return no("http_version", session.error if session and session.error else ended(trace), trace)
    frames = tuple(p.frame for p in trace.packets if p.way == "in" and p.segment.length > 0)[:1]
    if not session.alpn:
        return no("http_version", "tls:no-alpn", trace, details=_agreed(trace))
    return yes("http_version", session.alpn, trace, "", "ALPN", "C", frames, _agreed(trace))


def _agreed(trace: Trace) -> dict[str, Value]:
    """Return the TLS parameters agreed on; the certificate by its SHA-256, as registers of certificates name it."""
    session = trace.session
    if session is None or not session.version:
        return {}
    details: dict[str, Value] = {"tls": session.version}
    if session.certificate:
        # It loads OpenSSL, and a capture seldom shows a certificate.
        from hashlib import sha256

        details["certificate"] = sha256(session.certificate).hexdigest()
    return details


def _page(trace: Trace, knob: str) -> Observation:
    """Return the answer to a GET, in clear or over TLS."""
    head = _heard(trace.messages)
    version = status_version(head)
    if version is None:
        # a server that sends single bytes has not shown its protocol yet
        begun = 0 < len(head) < len(STATUS_BEGINS) and STATUS_BEGINS.startswith(head)
        return no(knob, "no-data" if begun else "not-http" if head else ended(trace), trace, details=_agreed(trace))
    details = header_details(head_status(head), head_fields(head)) | _agreed(trace)
    if trace.session is not None and trace.session.alpn:
        details["alpn"] = trace.session.alpn
    frames = tuple(p.frame for p in trace.packets if p.way == "in" and p.segment.length > 0)[:1]
    return yes(knob, version, trace, "", "status line", "C", frames, details)


def _h2c(trace: Trace) -> Observation:
    heard = _heard(trace.messages)
    if trace.session is not None and trace.session.error:
        return no("h2c", trace.session.error, trace)
    spoken = len(heard) >= 9 and heard[3] == SETTINGS and heard[5:9] == bytes(4)
    if not heard and trace.ending == "no-data":
        return no("h2c", "no-data", trace)
    method = "HTTP/2 by Upgrade" if trace.param("by", "") == "upgrade" else "HTTP/2 preface in clear"
    return yes("h2c", "accepted" if spoken else "not-accepted", trace, "", method, "C")


def _asides(trace: Trace) -> tuple[Observation, ...]:
    """A trace made for another purpose also heard a status line, and the fields that its first segment holds."""
    first = next((p for p in trace.packets if p.way == "in" and p.segment.seq == 1 and p.segment.length > 0), None)
    version = status_version(first.segment.payload) if first is not None else None
    if first is None or version is None:
        return ()
    head = first.segment.payload
    details = header_details(head_status(head), head_fields(head))
    return (yes("http_clear", version, trace, "", "status line", "C", (first.frame,), details),)


def _heard(messages: tuple[Message, ...]) -> bytes:
    return b"".join(m.data for m in messages if m.way == "in")
