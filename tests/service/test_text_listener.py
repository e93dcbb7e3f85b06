# SPDX-License-Identifier: MIT
"""Texts over HTTP: by a real GET, beside peers that send or read slowly, and where the port is taken."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from configtron.model.errors import BadInput, Missing
from configtron.service import text_listener
from configtron.service.text_listener import KeptText, ListenerPlace, PatientListener, ServedText, TextListener
from tests.support.waiting import PATIENCE_S

LONG = "x" * 5_000_000


def refuse() -> str:
    raise Missing("scikit-learn is not installed")


TEXTS = {
    "/": ServedText("text/html; charset=utf-8", lambda: "<p>é"),
    "/metrics": ServedText("text/plain", lambda: "a 1\n"),
    "/long": ServedText("text/plain", lambda: LONG),
    "/missing": ServedText("text/plain", refuse),
}


@pytest.fixture
def listener() -> Iterator[TextListener]:
    found = TextListener(ListenerPlace("127.0.0.1", 0), TEXTS, "--metrics")
    yield found
    found.close()


def got(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    to = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    to.request(method, path)
    answer = to.getresponse()
    found = answer.status, answer.headers["Content-Type"], answer.read().decode()
    to.close()
    return found


def test_a_get_has_the_text(listener: TextListener) -> None:
    assert got(listener.port, "/?again") == (200, "text/html; charset=utf-8", "<p>é")
    assert got(listener.port, "/metrics") == (200, "text/plain", "a 1\n")
    assert got(listener.port, "/metrics", "HEAD") == (200, "text/plain", "")
    assert got(listener.port, "/missing") == (503, "text/plain; charset=utf-8", "scikit-learn is not installed\n")
    assert got(listener.port, "/../etc/passwd")[::2] == (404, "there is: / /long /metrics /missing\n")
    assert got(listener.port, "/", "POST")[0] == 501


def test_slow_peers_do_not_delay_others(listener: TextListener) -> None:
    """More connections than are served at once: half a request, and an answer that is not read."""
    slow = []
    for number in range(3 * text_listener.MOST_CONNECTIONS):
        peer = socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE_S)
        peer.sendall(b"GET /long HTTP/1.0\r\n\r\n" if number % 2 else b"GET /met")
        slow.append(peer)
        if number % 8 == 7:
            assert got(listener.port, "/metrics")[0] == 200
    for peer in slow:
        peer.close()
    assert got(listener.port, "/long")[2] == LONG


def test_bytes_that_are_no_request_end_their_connection_alone(listener: TextListener) -> None:
    for junk in (b"\x16\x03\x01\0\xff\r\n\r\n", b"GET " + b"/" * 70_000, b"GET / HTTP/9\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE_S) as peer:
            peer.sendall(junk)
            peer.shutdown(socket.SHUT_WR)
            assert not peer.recv(65_536).startswith(b"HTTP/1.0 200")
    assert got(listener.port, "/metrics")[0] == 200


def test_a_taken_port_is_one_line_and_taken_up_once_it_is_free(
    listener: TextListener, caplog: pytest.LogCaptureFixture
) -> None:
    place = ListenerPlace("127.0.0.1", listener.port)
    with pytest.raises(Missing, match=rf"--page 127.0.0.1:{listener.port}: Address already in use; choose another"):
        TextListener(place, TEXTS, "--page")
    patient = PatientListener(place, TEXTS, "--metrics")
    for at_s in (0.0, 0.1, 10.0, 20.0):
        patient.turn(at_s)
    assert len([line for line in caplog.messages if "already in use" in line]) == 1
    listener.close()
    patient.turn(29.0)
    with pytest.raises(ConnectionRefusedError):
        got(place.port, "/metrics")
    patient.turn(30.0)
    assert got(place.port, "/metrics")[0] == 200
    patient.close()


def test_places_as_they_are_typed() -> None:
    typed = {"9316": "127.0.0.1:9316", ":9316": "127.0.0.1:9316", "[::1]:80": "[::1]:80", "a.example:1": "a.example:1"}
    assert {words: str(text_listener.listener_place(words, "--page")) for words in typed} == typed
    for wrong in ("", "x", "1:2:3", "host:", "h:0", "h:65536", "::1", "a b:80", "9" * 5000):
        with pytest.raises(BadInput, match="--page .*HOST:PORT"):
            text_listener.listener_place(wrong, "--page")
    with pytest.raises(BadInput, match="name an address"):
        TextListener(ListenerPlace("no-such-host.invalid", 80), TEXTS, "--page")
    with text_listener.listening(None, TEXTS, "--page"):
        pass


def test_many_readers_cost_as_much_as_one() -> None:
    made: list[int] = []
    begun = threading.Event()

    def make() -> str:
        begun.wait(PATIENCE_S)
        made.append(1)
        return "text"

    kept, found = KeptText(make, 60.0), list[str]()
    readers = [threading.Thread(target=lambda: found.append(kept())) for _ in range(8)]
    for reader in readers:
        reader.start()
    begun.set()
    for reader in readers:
        reader.join(20)
    assert found == ["text"] * 8 and made == [1]
