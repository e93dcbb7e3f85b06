"""A server that announces any HTTP/2 SETTINGS: frames by hyperframe, header compression by hpack, nothing between.

Usage: h2lib.py SITES.json. The connection's own address decides what is said (`by_address` -> one of `sites`).
One thread, asyncio; HTTP/1.1 on port 80, TLS with ALPN on port 443.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import TypeVar

from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# Many vantages connect at once; the kernel must not refuse one.
BACKLOG = 16384
# RFC 9113 section 6.9.2 and 4.2: what a client may be sent until it says otherwise.
DEFAULT_WINDOW, DEFAULT_FRAME_SIZE = 65535, 16384
INITIAL_WINDOW_SIZE = 4
# What a program keeps about one of its addresses.
S = TypeVar("S")


@dataclass(frozen=True)
class Site:
    """What one server address says; `greeting` are its first frames."""

    page: bytes
    greeting: bytes
    tls: ssl.SSLContext


class Http2(asyncio.Protocol):
    """The server's side of one HTTP/2 connection: SETTINGS first, then one answer for each request."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.buffer = b""
        self.greeted = False
        self.decoder, self.encoder = Decoder(), Encoder()
        self.window, self.first_window = DEFAULT_WINDOW, DEFAULT_WINDOW
        self.streams: dict[int, int] = {}
        self.unsent: dict[int, bytes] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.site.greeting)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.greeted:
            if len(self.buffer) < len(PREFACE):
                return
            if not self.buffer.startswith(PREFACE):
                self.transport.close()
                return
            self.buffer, self.greeted = self.buffer[len(PREFACE) :], True
        while len(self.buffer) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(self.buffer[:9]))
            if len(self.buffer) < 9 + length:
                return
            frame.parse_body(memoryview(self.buffer[9 : 9 + length]))
            self.buffer = self.buffer[9 + length :]
            self._frame(frame)

    def _frame(self, frame: Frame) -> None:
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            first = frame.settings.get(INITIAL_WINDOW_SIZE, self.first_window)
            self.streams = {stream: window + first - self.first_window for stream, window in self.streams.items()}
            self.first_window = first
            self.transport.write(SettingsFrame(0, flags=["ACK"]).serialize())
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            self.transport.write(PingFrame(0, opaque_data=frame.opaque_data, flags=["ACK"]).serialize())
        elif isinstance(frame, HeadersFrame):
            self._answer(frame)
        elif isinstance(frame, WindowUpdateFrame):
            if frame.stream_id:
                self.streams[frame.stream_id] = self.streams.get(frame.stream_id, 0) + frame.window_increment
            else:
                self.window += frame.window_increment
        elif isinstance(frame, GoAwayFrame):
            self.transport.close()
        self._send_more()

    def _answer(self, frame: HeadersFrame) -> None:
        self.decoder.decode(frame.data)
        fields = [(":status", "200"), ("content-type", "text/plain"), ("content-length", str(len(self.site.page)))]
        answer = HeadersFrame(frame.stream_id, self.encoder.encode(fields), flags=["END_HEADERS"])
        self.streams[frame.stream_id] = self.first_window
        self.unsent[frame.stream_id] = self.site.page
        self.transport.write(answer.serialize())

    def _send_more(self) -> None:
        """As much of the open answers as both windows allow."""
        for stream in sorted(self.unsent):
            while room := min(self.window, self.streams.get(stream, 0), DEFAULT_FRAME_SIZE, len(self.unsent[stream])):
                if room < 0:
                    break
                chunk, self.unsent[stream] = self.unsent[stream][:room], self.unsent[stream][room:]
                self.window -= room
                self.streams[stream] -= room
                flags = [] if self.unsent[stream] else ["END_STREAM"]
                self.transport.write(DataFrame(stream, chunk, flags=flags).serialize())
        self.unsent = {stream: rest for stream, rest in self.unsent.items() if rest}


class Http1(asyncio.Protocol):
    """HTTP/1.1: header and body in two writes, as small servers do."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
            close = b"connection: close" in head.lower()
            lines = ["HTTP/1.1 200 OK", "Server: h2lib", f"Date: {formatdate(usegmt=True)}", "Content-Type: text/plain"]
            lines += [f"Content-Length: {len(self.site.page)}", *(["Connection: close"] if close else [])]
            self.transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            self.transport.write(self.site.page)
            if close:
                self.transport.close()


class Tls(asyncio.Protocol):
    """Waits for ALPN's answer and hands the connection to the version it names."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        alpn = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        inner = Http2(self.site) if alpn == "h2" else Http1(self.site)
        transport.set_protocol(inner)
        inner.connection_made(transport)


def greeting(settings: Sequence[tuple[int, int]], window_update: int) -> bytes:
    """SETTINGS, and WINDOW_UPDATE unless it is 0."""
    # Written by hand: hyperframe keeps settings in a dict, which loses repetition and order.
    body = b"".join(k.to_bytes(2, "big") + v.to_bytes(4, "big") for k, v in settings)
    frames = len(body).to_bytes(3, "big") + b"\x04" + bytes(5) + body
    return frames + (WindowUpdateFrame(0, window_increment=window_update).serialize() if window_update else b"")


def load(path: Path) -> dict[str, Site]:
    """Server address -> what it says."""
    listed = json.loads(path.read_text())
    sites = []
    for row in listed["sites"]:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(row["chain"], row["key"])
        tls.set_alpn_protocols(["h2", "http/1.1"] if row["http_version"] == "h2" else ["http/1.1"])
        sites.append(Site(Path(row["page"]).read_bytes(), greeting(row["settings"], row["window_update"]), tls))
    return {address: sites[index] for address, index in listed["by_address"].items()}


async def accept(port: int, sites: Mapping[str, S], serve: Callable[[socket.socket, int, S], Awaitable[None]]) -> None:
    """Accept on every address there is; the address that was connected to decides the rest."""
    everywhere = [("0.0.0.0", socket.AF_INET)] + [("::", socket.AF_INET6)] * any(":" in site for site in sites)
    listeners = [socket.create_server((a, port), family=family, backlog=BACKLOG) for a, family in everywhere]
    await asyncio.gather(*(_accept(listener, port, sites, serve) for listener in listeners))


async def _accept(
    listener: socket.socket,
    port: int,
    sites: Mapping[str, S],
    serve: Callable[[socket.socket, int, S], Awaitable[None]],
) -> None:
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    while True:
        connection, _ = await loop.sock_accept(listener)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            site = sites.get(connection.getsockname()[0])
        except OSError:
            site = None
        if site is None:
            connection.close()
            continue
        pending.add(task := asyncio.ensure_future(serve(connection, port, site)))
        task.add_done_callback(pending.discard)


# asyncio keeps only weak references to tasks.
pending: set[asyncio.Future[None]] = set()


async def serve(connection: socket.socket, port: int, site: Site) -> None:
    """Give one connection its protocol; a client that goes away during the handshake is no news."""
    loop = asyncio.get_running_loop()
    try:
        if port == 443:
            await loop.connect_accepted_socket(lambda: Tls(site), connection, ssl=site.tls)
        else:
            await loop.connect_accepted_socket(lambda: Http1(site), connection)
    except OSError:
        connection.close()


async def main() -> None:
    sites = load(Path(sys.argv[1]))
    await asyncio.gather(accept(80, sites, serve), accept(443, sites, serve))


if __name__ == "__main__":
    asyncio.run(main())
