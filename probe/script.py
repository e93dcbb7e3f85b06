# SPDX-License-Identifier: MIT
"""The language of probes: a script is a generator that describes one conversation in order.

A script yields commands; the player resumes it with their results. It keeps no clock and no socket, so the same script
runs on a live wire, against a fake server in virtual time, and on its own recording.

Segment scripts (`Script`) speak TCP itself:

    Send(segment)   resumed with the Packet as it was sent
    Wait(until)     resumed with the next Packet heard, or None once `until` has passed

Stream scripts (`StreamScript`) speak over a connection that another module keeps (`probe/wire/stream.py`):

    Open(...)       resumed with the Session (its `error` says why there is none)
    Write(data)     resumed with the Message as it was sent
    Hold(data)      resumed with None, after which the stream is over
    Read(until)     resumed with a Message, or None once `until` has passed; an empty message is the stream's end

Times are seconds since the trace began. Both kinds return how they ended: "done" or a named reason.
Theory of operation: `docs/decisions/0001-scripts-are-generators.md`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from configtron.model.nouns import (
    ACK,
    OPT_MSS,
    OPT_NOP,
    OPT_SACK_PERMITTED,
    OPT_TIMESTAMPS,
    OPT_WSCALE,
    PSH,
    RST,
    SYN,
    Message,
    Packet,
    Segment,
    Session,
)


class Send(NamedTuple):
    """Put this segment on the wire; `tos` is its IP header's type of service, its last two bits are ECN (RFC 3168)."""

    segment: Segment
    tos: int = 0


class Wait(NamedTuple):
    """Hear the next packet, at the latest until then."""

    until: float


# When a connection must stand: three SYNs (3 s), and two losses in the TLS handshake at timers of a second.
OPEN_UNTIL_S = 10.0


class Offer(NamedTuple):
    """The offer of our SYN for a stream: the segment size in bytes, and the options."""

    mss: int = 1460
    sack: bool = False
    timestamps: bool = False
    wscale: int | None = 7


class Open(NamedTuple):
    """Connect: TCP, and TLS with these ALPN names when `tls`; `late` before a Hold: a short path shall look longer."""

    tls: bool = True
    alpn: tuple[str, ...] = ()
    until: float = OPEN_UNTIL_S
    offer: Offer = Offer()
    late: bool = False


class Write(NamedTuple):
    """Hand bytes to the stream."""

    data: bytes


class Hold(NamedTuple):
    """Hand bytes to the stream once it is quiet, and withhold every ACK of the answer (`probe/withhold.py`)."""

    data: bytes
    early: bool = False


class Read(NamedTuple):
    """Take the next bytes of the stream, at the latest until then."""

    until: float


Script = Generator[Send | Wait, Packet | None, str]
StreamScript = Generator[Open | Write | Hold | Read, Session | Message | None, str]

# A SYN that was not answered goes again at these times (s): a little after a server with the usual timer of 1 s (RFC
# 6298 2.1) has repeated its SYN-ACK at 1 and at 3 s. Where only that was lost, the server's own repeat arrives first; a
# SYN of ours on top of it would be the second one, after which Linux begins with a window of one segment.
SYN_TRIES_AT_S = (0.0, 1.4, 3.6)
# Longest wait for the last try's answer: the largest round trip we admit (geostationary, twice) plus slack.
SYN_PATIENCE_S = 3.0


def syn_options(
    mss: int = 1460, *, sack: bool = False, timestamps: bool = False, wscale: int | None = None
) -> tuple[tuple[int, bytes], ...]:
    """Return options of a SYN, in Linux's order (MSS, SACK, TS, NOP, WS), padded with NOPs to 32 bits."""
    options: list[tuple[int, bytes]] = [(OPT_MSS, mss.to_bytes(2, "big"))]
    if sack and timestamps:
        options.append((OPT_SACK_PERMITTED, b""))
    elif sack:
        options += [(OPT_NOP, b""), (OPT_NOP, b""), (OPT_SACK_PERMITTED, b"")]
    if timestamps:
        if not sack:
            options += [(OPT_NOP, b""), (OPT_NOP, b"")]
        options.append((OPT_TIMESTAMPS, (1).to_bytes(4, "big") + bytes(4)))
    if wscale is not None:
        options += [(OPT_NOP, b""), (OPT_WSCALE, bytes([wscale]))]
    return tuple(options)


class Opening(NamedTuple):
    """How a handshake went: the answer, the round trip in s (None after a repeated SYN: Karn's rule), or the reason."""

    synack: Packet | None
    rtt_s: float | None
    reason: str = ""


def handshake(
    options: tuple[tuple[int, bytes], ...], window: int = 65535, flags: int = SYN
) -> Generator[Send | Wait, Packet | None, Opening]:
    """SYN, repeated while unanswered, until the SYN-ACK. The final ACK is the caller's."""
    tries = 0
    for until in (*SYN_TRIES_AT_S[1:], SYN_TRIES_AT_S[-1] + SYN_PATIENCE_S):
        sent = yield Send(Segment(flags, window=window, options=options))
        assert sent is not None
        tries += 1
        while (heard := (yield Wait(until))) is not None:
            if heard.segment.flags & RST:
                return Opening(None, None, "refused")
            if heard.segment.flags & (SYN | ACK) == SYN | ACK:
                return Opening(heard, heard.at - sent.at if tries == 1 else None)
    return Opening(None, None, "no-synack")


def echo(synack: Segment | None) -> tuple[tuple[int, bytes], ...]:
    """Return timestamps for every segment after the handshake, if both sides agreed to them (RFC 7323 3.2): the
    server's value comes back as it was, so that it can measure its round trip; ours stands still, which PAWS allows."""
    stamps = synack.timestamps if synack is not None else None
    if stamps is None:
        return ()
    body = (2).to_bytes(4, "big") + stamps[0].to_bytes(4, "big")
    return ((OPT_NOP, b""), (OPT_NOP, b""), (OPT_TIMESTAMPS, body))


def get(host: str, path: str, agent: str, *, close: bool = True, cookie: str = "") -> bytes:
    """Return an HTTP/1.1 request (RFC 9112) that names its sender; `cookie`: the one that an earlier answer of the host
    set."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", f"User-Agent: {agent}", "Accept: */*"]
    if cookie:
        lines.append(f"Cookie: {cookie}")
    if close:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def request(data: bytes, window: int = 65535, options: tuple[tuple[int, bytes], ...] = ()) -> Segment:
    """Return the segment that carries a request, right after the handshake."""
    return Segment(ACK | PSH, seq=1, ack=1, window=window, options=options, payload=data, length=len(data))


def reset(seq: int) -> Segment:
    """Return the farewell.

    A RST whose sequence number is exactly the next one, so that the server accepts it (RFC 5961 3.2).
    """
    return Segment(RST, seq=seq, window=0)
