# SPDX-License-Identifier: MIT
"""Texts over HTTP for a monitor or a browser: `/metrics`, and the page of the closed loop.

Threads of their own, so that no peer, however slow, keeps the loop waiting; bounded in connections, in time and in the
length of a request. Plain HTTP without a password: listen on loopback, or behind what has both.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from configtron.model.errors import BadInput, ConfigtronError, Missing

log = logging.getLogger("configtron.fleet")

LOOPBACK = "127.0.0.1"
PLACE = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)?:)?(?P<port>[0-9]{1,5})")
# Connections at once, the oldest giving way; s for a part of a request to arrive and for an answer to leave.
MOST_CONNECTIONS, PATIENCE_S = 16, 5.0
# s until a port that is taken is tried again.
AGAIN_S = 10.0


class ListenerPlace(NamedTuple):
    """An address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ServedText(NamedTuple):
    """What a path answers with: its type, and what makes it, called in the thread of the request."""

    content_type: str
    make: Callable[[], str]


def listener_place(text: str, option: str) -> ListenerPlace:
    """Return a place as it is typed: HOST:PORT, or PORT on loopback. Errors: `BadInput`, which names the option."""
    found = PLACE.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65_536:
        raise BadInput(f"{option} {text[:60]!r}: write HOST:PORT, as in {LOOPBACK}:9316")
    return ListenerPlace((found["host"] or LOOPBACK).strip("[]"), int(found["port"]))


class KeptText:
    """A text that is made anew once it is older than `span_s`: many readers cost as much as one."""

    def __init__(self, make: Callable[[], str], span_s: float) -> None:
        self._make, self._span_s, self._lock = make, span_s, threading.Lock()
        self._text, self._until_s = "", float("-inf")

    def __call__(self) -> str:
        """Return the text. Errors: those of what makes it."""
        with self._lock:
            if time.monotonic() >= self._until_s:
                self._text = self._make()
                self._until_s = time.monotonic() + self._span_s
            return self._text


class TextListener:
    """Serves texts by path. Errors: `BadInput` for a host that is none, `Missing` where the port is taken."""

    def __init__(self, place: ListenerPlace, texts: Mapping[str, ServedText], option: str) -> None:
        try:
            family = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)[0][0]
            self._server = _TextServer(place, family, dict(texts))
        except (socket.gaierror, UnicodeError) as error:
            # A name with an empty part, or one of more than 63 letters, is none that can be looked up.
            why = error.strerror if isinstance(error, OSError) else "no host is called that"
            raise BadInput(f"{option} {place}: {why}; name an address of this host") from error
        except OSError as error:
            raise Missing(f"{option} {place}: {error.strerror}; choose another port or address") from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="texts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def listening(place: ListenerPlace | None, texts: Mapping[str, ServedText], option: str) -> Iterator[None]:
    """Serve texts in the block; None: do not. Errors: those of `TextListener`."""
    if place is None:
        yield
        return
    listener = TextListener(place, texts, option)
    log.info("%s serves %s", option, " and ".join(f"http://{place}{path}" for path in sorted(texts)))
    try:
        yield
    finally:
        listener.close()


class PatientListener:
    """Serves texts once the port is free: what it belongs to goes on meanwhile."""

    def __init__(self, place: ListenerPlace, texts: Mapping[str, ServedText], option: str) -> None:
        self._place, self._texts, self._option = place, texts, option
        self._listener: TextListener | None = None
        self._due_s, self._complaint = float("-inf"), ""

    def turn(self, now_s: float) -> None:
        """Listen, where that is due; call it some times a second."""
        if self._listener is not None or now_s < self._due_s:
            return
        self._due_s = now_s + AGAIN_S
        try:
            self._listener = TextListener(self._place, self._texts, self._option)
            log.info("%s: http://%s%s", self._option, self._place, " ".join(sorted(self._texts)))
        except ConfigtronError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.error("%s; all else goes on", error)

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()


class _TextServer(ThreadingHTTPServer):
    """One thread a connection, and so many connections at most."""

    daemon_threads, block_on_close = True, False

    def __init__(self, place: ListenerPlace, family: int, texts: dict[str, ServedText]) -> None:
        self.address_family, self.texts = family, texts
        self._open: dict[socket.socket, None] = {}
        self._guard = threading.Lock()
        super().__init__((place.host, place.port), _TextRequest)

    def server_bind(self) -> None:
        """Bind; the name of the host is not looked up."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection; the oldest one gives way."""
        with self._guard:
            if len(self._open) >= MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _cut(oldest)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Drop a connection that broke."""


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class _TextRequest(BaseHTTPRequestHandler):
    """One request, one answer."""

    timeout = PATIENCE_S
    server: _TextServer
    server_version, sys_version = "configtron", ""

    def do_GET(self) -> None:
        """Answer with the path's text."""
        path = self.path.partition("?")[0]
        found = self.server.texts.get(path)
        if found is None:
            self._answer(404, "text/plain; charset=utf-8", f"there is: {' '.join(sorted(self.server.texts))}\n")
            return
        try:
            self._answer(200, found.content_type, found.make())
        except ConfigtronError as error:
            self._answer(503, "text/plain; charset=utf-8", f"{error}\n")

    do_HEAD = do_GET

    def _answer(self, status: int, content_type: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (("Content-Type", content_type), ("Content-Length", str(len(body))),
                            ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: a monitor asks all day."""
