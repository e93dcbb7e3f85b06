# SPDX-License-Identifier: MIT
"""The HTTP endpoint of beacons and error reports: a socket, bounded in connections, bytes and time; no TLS.

It stands behind the web server (`proxy_pass`), which has the certificates, or beside it. Each request is answered at
once; what it brought goes to a callback.
"""

from __future__ import annotations

import asyncio
import importlib.resources
import re
import socket
import time
from collections.abc import Callable
from ipaddress import ip_address

from configtron.intake.pageloads.http_framing import HttpReader, HttpRequest, RefusedRequest
from configtron.intake.pageloads.intake import SCRIPT_PATH, Admitted, Intake
from configtron.model.errors import BadInput, Missing

# Port of the endpoint; connections at once; how long one may be without a whole request (s); waiting to be accepted.
PORT, MOST_CONNECTIONS, IDLE_S, BACKLOG = 9315, 2_000, 15.0, 4_096
PHRASES = {
    200: "OK", 204: "No Content", 400: "Bad Request", 404: "Not Found", 411: "Length Required",
    413: "Content Too Large", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}  # fmt: skip
# For script and reports of pages on other hosts of the site.
CROSS_ORIGIN = (
    "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: POST, GET\r\n"
    "Access-Control-Allow-Headers: content-type\r\n"
)
CLOSING = frozenset((400, 411, 413, 431, 503))
# Floods of one connection are counted request by request; after so many it is closed with its unread bytes.
MOST_FLOODS = 200
PORT_DIGITS = re.compile(r"[0-9]{1,5}")


def beacons_at(text: str) -> tuple[str, int]:
    """Return (host, port) of `--beacons HOST:PORT`; an IPv6 host in brackets. Errors: `BadInput`."""
    host, _, port = text.rpartition(":")
    # Python converts at most 4300 digits.
    if not host or not PORT_DIGITS.fullmatch(port) or not 0 < int(port) < 65_536:
        raise BadInput(f"--beacons {text[:60]!r}: write HOST:PORT, as in 127.0.0.1:{PORT}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def script() -> bytes:
    """Return beacon.js."""
    return importlib.resources.files(__package__).joinpath("beacon.js").read_bytes()


def answer(status: int, body: bytes = b"", content_type: str = "text/javascript; charset=utf-8") -> bytes:
    """Return the bytes of an answer."""
    length = "" if status == 204 else f"Content-Length: {len(body)}\r\n"
    typed = f"Content-Type: {content_type}\r\nCache-Control: max-age=3600\r\n" if body else ""
    close = "Connection: close\r\n" if status in CLOSING else ""
    return f"HTTP/1.1 {status} {PHRASES[status]}\r\n{CROSS_ORIGIN}{typed}{length}{close}\r\n".encode() + body


class BeaconEndpoint:
    """Listens, judges by an `Intake`, hands on what is let in."""

    def __init__(self, intake: Intake, admit: Callable[[Admitted], None]) -> None:
        self.intake, self.admit = intake, admit
        self.open: dict[_BeaconConnection, float] = {}
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.answers = {status: answer(status) for status in PHRASES} | {200: answer(200, script())}

    async def start(self, host: str = "127.0.0.1", port: int = PORT, path: str = "") -> None:
        """Listen on an address, or on a UNIX socket at `path`. Errors: `Missing`."""
        loop = asyncio.get_running_loop()
        try:
            if path:
                self._server = await loop.create_unix_server(lambda: _BeaconConnection(self), path, backlog=BACKLOG)
            else:
                self._server = await loop.create_server(
                    lambda: _BeaconConnection(self), host, port, backlog=BACKLOG
                )  # fmt: skip
        except (OSError, UnicodeError) as error:
            where = path or f"{host} port {port}"
            # A name with an empty part, or one of more than 63 letters, is none that can be looked up.
            why = error.strerror if isinstance(error, OSError) else "no host is called that"
            raise Missing(f"beacons cannot be received at {where}: {why}; choose another") from error
        self._close_idle()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def _close_idle(self) -> None:
        """Close connections that have had no whole request for `IDLE_S`; again in a second."""
        now_s = time.monotonic()
        while self.open:
            oldest = next(iter(self.open))
            if self.open[oldest] > now_s - IDLE_S:
                break
            oldest.close()
        self._sweep = asyncio.get_running_loop().call_later(1.0, self._close_idle)

    async def stop(self) -> None:
        """Stop listening, close connections."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self.open):
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()


class _BeaconConnection(asyncio.Protocol):
    """One connection of a browser, or of the web server before it."""

    def __init__(self, endpoint: BeaconEndpoint) -> None:
        self._endpoint, self._reader, self._peer = endpoint, HttpReader(), b""
        self._transport: asyncio.Transport | None = None
        self._floods = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        transported = transport.get_extra_info("socket")
        if transported is not None and transported.family != socket.AF_UNIX and peer:
            self._peer = ip_address(peer[0].partition("%")[0]).packed
        endpoint = self._endpoint
        if len(endpoint.open) >= MOST_CONNECTIONS:
            # the one that has been idle for longest gives way
            next(iter(endpoint.open)).close()
        endpoint.open[self] = time.monotonic()

    def data_received(self, data: bytes) -> None:
        endpoint, transport = self._endpoint, self._transport
        for request in self._reader.feed(data):
            if transport is None or transport.is_closing():
                return
            status = self._status(request)
            transport.write(endpoint.answers[status])
            # the latest request is the youngest
            endpoint.open.pop(self, None)
            endpoint.open[self] = time.monotonic()
            self._floods += status == 429
            if (
                status in CLOSING
                or self._floods > MOST_FLOODS
                or (isinstance(request, HttpRequest) and not request.lasting)
            ):
                self.close()
                return

    def _status(self, request: HttpRequest | RefusedRequest) -> int:
        """Return the status of the answer; hand on what the request brought."""
        intake = self._endpoint.intake
        if isinstance(request, RefusedRequest):
            intake.refuse(request.reason)
            return request.status
        if request.method == "GET" and request.path == SCRIPT_PATH:
            return 200
        status, admitted = intake.request(request, self._peer, time.monotonic_ns())
        if admitted is not None:
            self._endpoint.admit(admitted)
        return status

    def pause_writing(self) -> None:
        """Close a peer that does not read its answers."""
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._endpoint.open.pop(self, None)
        self._transport = None

    def close(self) -> None:
        """Close the connection once its answers are written."""
        self._endpoint.open.pop(self, None)
        if self._transport is not None:
            self._transport.close()
