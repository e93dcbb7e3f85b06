# SPDX-License-Identifier: MIT
"""A server that closes a kept connection just as it is asked again: the client asks anew, as browsers do.

The server is this process, on the loopback: what it says when is written here, byte by byte.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.lab.internet.certificates import issue
from configtron.lab.testbed import loads
from configtron.lab.testbed.pages import PageModel, PageObject
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.root
HOST, ADDRESS = "kept.example", "127.77.0.43"
LIMIT_S = 5.0


class Kept:
    """One connection of the server."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        plain.settimeout(PATIENCE_S)
        self._plain, self._in, self._out = plain, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._until(self._tls.do_handshake)

    def _until(self, act: Callable[[], object]) -> object:
        while True:
            try:
                found = act()
                self._plain.sendall(self._out.read())
                return found
            except ssl.SSLWantReadError:
                self._plain.sendall(self._out.read())
                self._in.write(self._plain.recv(1 << 16))

    @property
    def resumed(self) -> bool:
        """Whether the handshake went on with an earlier session."""
        return bool(self._tls.session_reused)

    def asked(self) -> str:
        """The path of the next request."""
        return str(self._until(lambda: self._tls.read(1 << 14))).split()[1]

    def answer(self, size: int, less: int = 0) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
        self._until(lambda: self._tls.write(head + bytes(size - less)))

    def close(self) -> None:
        """As nginx does when a connection has been idle for too long: TLS says so, and TCP in the same packet."""
        try:
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            self._plain.sendall(self._out.read())
        self._plain.shutdown(socket.SHUT_WR)


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    made = issue(1, "configtron tests", [HOST])
    (tmp_path / "chain.pem").write_text(made.chain)
    (tmp_path / "key.pem").write_text(made.key)
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(tmp_path / "chain.pem", tmp_path / "key.pem")
    found.num_tickets = 0
    return found


def loaded(
    things: tuple[PageObject, ...],
    serve: Callable[[Callable[[], Kept]], None],
    context: ssl.SSLContext,
    visit: str = loads.FIRST,
) -> loads.Load:
    """One load of these, of a server that does as `serve` says with each connection that comes."""
    if os.geteuid():
        pytest.skip("needs root for port 443")
    if not all(header.exists() for header in loads.HEADERS):
        pytest.skip("needs libnghttp2-dev and libssl-dev")
    program = loads.program()
    with socket.create_server((ADDRESS, 443)) as listener:
        listener.settimeout(PATIENCE_S)
        server = threading.Thread(target=serve, args=(lambda: Kept(listener.accept()[0], context),))
        server.start()
        try:
            with loads.PageClient([PageModel("p", (HOST,), things)], {HOST: ADDRESS}, program, netns="") as client:
                return client.load("p", http="http/1.1", limit_s=LIMIT_S, visit=visit)
        finally:
            server.join()


DOCUMENT = PageObject("/p/index.html", 4000, "html")


def test_a_request_on_a_connection_that_is_closed_moves_to_another(context: ssl.SSLContext) -> None:
    asked = []

    def serve(next_one: Callable[[], Kept]) -> None:
        first = next_one()
        asked.append(first.asked())
        first.answer(4000)
        asked.append(first.asked())
        first.close()
        second = next_one()
        asked.append(second.asked())
        second.answer(500)

    found = loaded((DOCUMENT, PageObject("/p/a.png", 500, "image", parent=0, offset=2000)), serve, context)
    assert (found.failed, found.connections) == ("", 2)
    assert asked == ["/p/index.html", "/p/a.png", "/p/a.png"]


def test_so_does_one_on_a_connection_that_was_opened_to_spare(context: ssl.SSLContext) -> None:
    """Opened for what another connection then took; idle until the server is tired of it."""
    asked = []

    def serve(next_one: Callable[[], Kept]) -> None:
        first = next_one()
        for size in (4000, 500, 500):
            asked.append(first.asked())
            first.answer(size)
        first.close()
        spare = next_one()
        asked.append(spare.asked())
        spare.close()
        third = next_one()
        asked.append(third.asked())
        third.answer(500)

    names = ("a.png", "b.png", "late.png")
    things = [PageObject(f"/p/{name}", 500, "image", parent=0, offset=2000) for name in names]
    things[2] = replace(things[2], delay_ms=1000)
    found = loaded((DOCUMENT, *things), serve, context)
    assert (found.failed, found.connections) == ("", 3)
    assert asked == ["/p/index.html", "/p/a.png", "/p/b.png", "/p/late.png", "/p/late.png"]


def test_an_answer_that_breaks_off_is_a_failure(context: ssl.SSLContext) -> None:
    def serve(next_one: Callable[[], Kept]) -> None:
        first = next_one()
        first.asked()
        first.answer(4000)
        first.asked()
        first.answer(500, less=100)
        first.close()

    found = loaded((DOCUMENT, PageObject("/p/a.png", 500, "image", parent=0, offset=2000)), serve, context)
    assert found.failed == "closed"


def test_so_is_a_first_request_that_is_refused_so(context: ssl.SSLContext) -> None:
    def serve(next_one: Callable[[], Kept]) -> None:
        first = next_one()
        first.asked()
        first.close()

    assert loaded((DOCUMENT,), serve, context).failed == "closed"
