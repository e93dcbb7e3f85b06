# SPDX-License-Identifier: MIT
"""A server that announces any HTTP/2 SETTINGS: h2 speaks the protocol, the first frames are the site's own bytes.

Usage: h2lib.py SITES.json. The connection's own address decides the answer (`by_address` -> one of `sites`).
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

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, RequestReceived, StreamReset
from h2.exceptions import ProtocolError
from hyperframe.frame import WindowUpdateFrame

# Many vantages connect at once; the kernel must not refuse one.
BACKLOG = 16384
# What a program keeps about one of its addresses.
S = TypeVar("S")


@dataclass(frozen=True)
class H2Site:
    """What one server address says; `greeting` are its first frames."""

    page: bytes
    greeting: bytes
    tls: ssl.SSLContext


class Http2(asyncio.Protocol):
    """The server's side of one HTTP/2 connection: the site's own first frames, then h2 answers each request."""

    def __init__(self, site: H2Site) -> None:
        self.site = site
        # Not validated: RFC 9113 section 8.3.1 lets a request go without :authority, h2 does not.
        self.connection = H2Connection(H2Configuration(client_side=False, validate_inbound_headers=False))
        # The body bytes of each answered stream that its window has not let out yet.
        self.unsent: dict[int, bytes] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.connection.initiate_connection()
        # h2 keeps settings in a dict, which loses repetition and order: the site's bytes go out in place of h2's.
        self.connection.data_to_send()
        transport.write(self.site.greeting)

    def data_received(self, data: bytes) -> None:
        try:
            events = self.connection.receive_data(data)
        except ProtocolError:
            # h2 has a GOAWAY with the error ready (RFC 9113 section 5.4.1).
            self._flush()
            self.transport.close()
            return
        # The acknowledgements of SETTINGS and PING go before the answers.
        self._flush()
        for event in events:
            if isinstance(event, RequestReceived):
                self.answer(event.stream_id)
            elif isinstance(event, StreamReset):
                self.unsent.pop(event.stream_id, None)
            elif isinstance(event, ConnectionTerminated):
                self.transport.close()
                return
        self._send_more()

    def answer(self, stream: int) -> None:
        """Send the head of the page on `stream`; its body follows as the windows allow."""
        fields = [(":status", "200"), ("content-type", "text/plain"), ("content-length", str(len(self.site.page)))]
        self.connection.send_headers(stream, fields, end_stream=not self.site.page)
        self.unsent[stream] = self.site.page
        self._flush()

    def _send_more(self) -> None:
        """As much of the open answers as both windows allow."""
        for stream in sorted(self.unsent):
            while room := self._room(stream):
                chunk, self.unsent[stream] = self.unsent[stream][:room], self.unsent[stream][room:]
                self.connection.send_data(stream, chunk, end_stream=not self.unsent[stream])
                self._flush()
        self.unsent = {stream: rest for stream, rest in self.unsent.items() if rest}

    def _room(self, stream: int) -> int:
        window = self.connection.local_flow_control_window(stream)
        # A client that lowers its initial window may leave a negative one (RFC 9113 section 6.9.2).
        return max(0, min(window, self.connection.max_outbound_frame_size, len(self.unsent[stream])))

    def _flush(self) -> None:
        if ready := self.connection.data_to_send():
            self.transport.write(ready)


class H2libHttp1(asyncio.Protocol):
    """HTTP/1.1: header and body in two writes, as small servers do."""

    def __init__(self, site: H2Site) -> None:
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


class AlpnProtocol(asyncio.Protocol):
    """Waits for ALPN's answer and hands the connection to the version it names."""

    def __init__(self, site: H2Site) -> None:
        self.site = site

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        alpn = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        inner = Http2(self.site) if alpn == "h2" else H2libHttp1(self.site)
        transport.set_protocol(inner)
        inner.connection_made(transport)


def greeting(settings: Sequence[tuple[int, int]], window_update: int) -> bytes:
    """SETTINGS, and WINDOW_UPDATE unless it is 0."""
    # Written by hand: hyperframe keeps settings in a dict, which loses repetition and order.
    body = b"".join(k.to_bytes(2, "big") + v.to_bytes(4, "big") for k, v in settings)
    frames = len(body).to_bytes(3, "big") + b"\x04" + bytes(5) + body
    return frames + (WindowUpdateFrame(0, window_increment=window_update).serialize() if window_update else b"")


def load(path: Path) -> dict[str, H2Site]:
    """Server address -> what it says."""
    listed = json.loads(path.read_text())
    sites = []
    for row in listed["sites"]:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(row["chain"], row["key"])
        tls.set_alpn_protocols(["h2", "http/1.1"] if row["http_version"] == "h2" else ["http/1.1"])
        sites.append(H2Site(Path(row["page"]).read_bytes(), greeting(row["settings"], row["window_update"]), tls))
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


async def serve(connection: socket.socket, port: int, site: H2Site) -> None:
    """Give one connection its protocol; a client that goes away during the handshake is no news."""
    loop = asyncio.get_running_loop()
    try:
        if port == 443:
            await loop.connect_accepted_socket(lambda: AlpnProtocol(site), connection, ssl=site.tls)
        else:
            await loop.connect_accepted_socket(lambda: H2libHttp1(site), connection)
    except OSError:
        connection.close()


async def main() -> None:
    sites = load(Path(sys.argv[1]))
    await asyncio.gather(accept(80, sites, serve), accept(443, sites, serve))


if __name__ == "__main__":
    asyncio.run(main())
