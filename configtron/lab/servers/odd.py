# SPDX-License-Identifier: MIT
"""A server that misbehaves as configured: in accepting, in TLS, in its answers, in its HTTP/2 frames.

Usage: python3 -m configtron.lab.servers.odd SITES.json. The connection's own address decides what is done
(`by_address` -> one of `sites`, with the fields of `MisbehavingSite`; `lab/internet/misbehaving.py` writes them). One
thread, asyncio; port 80 in clear, port 443 with TLS. Nothing is faked: alerts, resets and late answers are those of
OpenSSL and Linux.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.servers.answers import ANSWERS, Ask, End, Step
from configtron.lab.servers.h2lib import H2Site as Http2Site
from configtron.lab.servers.h2lib import Http2, accept
from configtron.lab.servers.sealed import TlsProtocol, context

# Frame types (RFC 9113 section 6).
SETTINGS, GOAWAY, WINDOW_UPDATE, PING = 4, 7, 8, 6
# Sent at accept, before the client's first byte (RFC 5321 section 4.2).
BANNER = b"220 lab.example ESMTP\r\n"
NO_REQUEST = b"HTTP/1.1 400 Bad Request\r\nServer: odd\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
# close() with this drops what is unsent and resets (socket(7), SO_LINGER with a time of 0).
LINGER_0 = struct.pack("ii", 1, 0)
# struct tcp_info (include/uapi/linux/tcp.h): snd_mss and snd_cwnd.
TCP_INFO_BYTES, SND_MSS_AT, SND_CWND_AT = 104, 16, 80
# A longer request head is refused.
HEAD_LIMIT_BYTES = 65536


@dataclass(frozen=True)
class MisbehavingSite:
    """What one server address does.

    accept     "serve", "reset", "close", "silent", "banner": on the clear port, once a connection stands
    at_tls     the same on the TLS port, before any TLS; "clear" speaks HTTP there without TLS
    answer     a row of `ANSWERS`, `amount` its number
    tls        the context: versions, ALPN, or an alert to every ClientHello
    greeting   bytes sent first when ALPN chose h2; `on_request` those before the answer to the first request
    leaves     after which bytes the HTTP/2 connection is closed: "greeting", "request", "" (never); "mute" says no more
    """

    accept: str
    at_tls: str
    answer: str
    amount: float
    page: bytes
    tls: ssl.SSLContext
    greeting: bytes
    on_request: bytes
    leaves: str


class MisbehavingHttp1(asyncio.Protocol):
    """HTTP/1 by a row of `ANSWERS`; every step is its own write."""

    def __init__(self, site: MisbehavingSite, secure: bool) -> None:
        self.site, self.secure = site, secure
        self.buffer = b""
        self.answer: Iterator[Step] | None = None
        self.ask = Ask(site.page)
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if len(self.buffer) > HEAD_LIMIT_BYTES:
            self.transport.abort()
        elif self.answer is None and self.buffer and not self.buffer[:1].isalpha():
            # a ClientHello, say: no method begins so (RFC 9110 section 9.1)
            self.transport.write(NO_REQUEST)
            self.transport.close()
        elif self.answer is None and b"\r\n\r\n" in self.buffer:
            asked, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
            self.ask = read(asked, self.site, self.secure, room(self.transport))
            self.answer = ANSWERS[self.site.answer](self.ask)
            self._go_on()

    def _go_on(self) -> None:
        assert self.answer is not None
        for step in self.answer:
            if isinstance(step, bytes):
                self.transport.write(step)
            elif isinstance(step, End):
                return leave(self.transport, step)
            else:
                self.timer = asyncio.get_running_loop().call_later(step, self._go_on)
                return
        self.answer = None
        if self.ask.close:
            self.transport.close()
        elif b"\r\n\r\n" in self.buffer:
            self.data_received(b"")


def read(asked: bytes, site: MisbehavingSite, secure: bool, room_bytes: int) -> Ask:
    """Return a request head as an answer needs it; words that are no request ask for "/"."""
    first, *fields = asked.split(b"\r\n")
    words = first.decode("latin-1").split(" ")
    named = {k.strip().lower(): v.strip() for k, _, v in (line.decode("latin-1").partition(":") for line in fields)}
    return Ask(
        page=site.page,
        path=words[1] if len(words) == 3 and words[1].startswith("/") else "/",
        host=named.get("host", ""),
        cookie="cookie" in named,
        secure=secure,
        close=named.get("connection", "").lower() == "close" or words[-1] == "HTTP/1.0",
        room=room_bytes,
        amount=site.amount,
    )


def room(transport: asyncio.Transport) -> int:
    """Return bytes that the congestion window lets out when nothing is in flight."""
    info: bytes = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    mss, window = (int(struct.unpack_from("I", info, at)[0]) for at in (SND_MSS_AT, SND_CWND_AT))
    return mss * window


def leave(transport: asyncio.Transport, end: End) -> None:
    """Leave a connection that way."""
    if end is End.RESET:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
        transport.abort()
    elif end is End.CLOSE:
        transport.close()


class OddHttp2(Http2):
    """HTTP/2 that opens with the given bytes, and has others ready for the first request."""

    def __init__(self, site: MisbehavingSite) -> None:
        super().__init__(Http2Site(site.page, site.greeting, site.tls))
        self.on_request, self.leaves = site.on_request, site.leaves

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.leaves == "greeting":
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self.leaves != "mute":
            super().data_received(data)

    def answer(self, stream: int) -> None:
        self.transport.write(self.on_request)
        self.on_request = b""
        if self.leaves == "request":
            self.transport.close()
        else:
            super().answer(stream)


def speak(site: MisbehavingSite, alpn: str | None) -> asyncio.Protocol:
    """Return the protocol that ALPN chose."""
    return OddHttp2(site) if alpn == "h2" else MisbehavingHttp1(site, secure=True)


class Aside(asyncio.Protocol):
    """A connection that is not served: reset, closed, left alone, or greeted in another protocol."""

    def __init__(self, how: str) -> None:
        self.how = how

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.how == "reset":
            leave(transport, End.RESET)
        elif self.how == "banner":
            transport.write(BANNER)

    def data_received(self, data: bytes) -> None:
        if self.how == "banner":
            self.transport.write(b"500 5.5.1 Command unrecognized\r\n")
        elif self.how == "close":
            self.transport.close()


def frames(listed: Sequence[Sequence[object]]) -> bytes:
    """HTTP/2 frames from rows: ("settings", pairs), ("window-update", n), ("goaway", code), ("ping",), ("text", words).

    Written by hand: a library would keep settings in a dict, and refuse half of these.
    """
    out = b""
    for kind, *values in listed:
        if kind == "settings":
            assert isinstance(values[0], Sequence)
            body = b"".join(int(k).to_bytes(2, "big") + int(v).to_bytes(4, "big") for k, v in values[0])
            out += frame(SETTINGS, body)
        elif kind == "window-update":
            out += frame(WINDOW_UPDATE, int(str(values[0])).to_bytes(4, "big"))
        elif kind == "goaway":
            out += frame(GOAWAY, bytes(4) + int(str(values[0])).to_bytes(4, "big"))
        elif kind == "ping":
            out += frame(PING, bytes(8))
        else:
            out += str(values[0]).encode()
    return out


def frame(kind: int, body: bytes) -> bytes:
    """One frame on stream 0 (RFC 9113 section 4.1)."""
    return len(body).to_bytes(3, "big") + bytes([kind]) + bytes(5) + body


def load(path: Path) -> dict[str, MisbehavingSite]:
    """Server address -> what it does."""
    listed = json.loads(path.read_text())
    sites = []
    for row in listed["sites"]:
        tls = context(row.pop("tls"), row.pop("chain"), row.pop("key"))
        row |= {name: frames(row[name]) for name in ("greeting", "on_request")}
        sites.append(MisbehavingSite(**{**row, "page": Path(row["page"]).read_bytes(), "tls": tls}))
    return {address: sites[index] for address, index in listed["by_address"].items()}


async def serve(connection: socket.socket, port: int, site: MisbehavingSite) -> None:
    """Give one connection what its address does; a client that goes away meanwhile is no news."""
    loop = asyncio.get_running_loop()
    how = site.accept if port == 80 else site.at_tls
    try:
        if how == "serve" and port == 443:
            await loop.connect_accepted_socket(
                lambda: TlsProtocol(site.tls, lambda alpn: speak(site, alpn)), connection
            )
        elif how in ("serve", "clear"):
            await loop.connect_accepted_socket(lambda: MisbehavingHttp1(site, secure=False), connection)
        else:
            await loop.connect_accepted_socket(lambda: Aside(how), connection)
    except OSError:
        connection.close()


async def main() -> None:
    sites = load(Path(sys.argv[1]))
    await asyncio.gather(accept(80, sites, serve), accept(443, sites, serve))


if __name__ == "__main__":
    asyncio.run(main())
