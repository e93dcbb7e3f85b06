# SPDX-License-Identifier: MIT
"""The endpoint, the log socket and inet_diag's records as they run: floods, hostile peers, bounds."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from configtron.intake.pageloads.intake import IntakeOptions
from configtron.intake.receiving import http_endpoint
from configtron.intake.receiving.ended_sockets import EndedSockets
from configtron.intake.receiving.log_socket import LogSocket, short_queue
from configtron.linux.sock_diag import DiagSocket
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.errors import Missing, Refused
from tests.support.pageloads import opened, token
from tests.support.running_outcomes import RunningOutcomes, running_outcomes
from tests.support.waiting import PATIENCE_S, until

# s of a flood from so many addresses, and honest page loads meanwhile.
SECONDS, HONEST, ADDRESSES = 3.0, 100, 10_000
AGENT = "Mozilla/5.0 (X11; Linux x86_64) Chrome/140"


class ReadyRecords:
    """Records that are there from the beginning."""

    def __init__(self, *records: OpenRecord | CloseRecord) -> None:
        self._records = list(records)

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        ready, self._records = self._records, []
        return iter(ready)

    def lost_records(self) -> int:
        return 0


@pytest.fixture
def outcomes(tmp_path: Path) -> Iterator[RunningOutcomes]:
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    records = (opened(boot_ns, number + 1, 1_000, prefix="203.0.113.0/24") for number in range(2_000))
    with running_outcomes(tmp_path / "log", ReadyRecords(*records), IntakeOptions(), settle_ns=100_000_000) as running:
        yield running


def log_line(to: Path, number: int, client: str) -> None:
    """Send a page's line; the queue holds ten."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        ends, at = f"192.0.2.1 443 {client} {number + 1}", f"{time.time():.3f}"
        sender.sendto(f"ctn {token(number)} {ends} {at} 0.000 1 {number} - www.example.org".encode(), str(to))


def body(number: int) -> bytes:
    return json.dumps({"v": 1, "id": f"{number}", "t": token(number), "w": "load", "qs": 1.0, "le": 90.0}).encode()


def raw(number: int, client: str, known: bool = True) -> bytes:
    text = body(number if known else 10**6 + number)
    head = f"POST /configtron/beacon HTTP/1.1\r\nHost: a\r\nUser-Agent: {AGENT}\r\nX-Real-IP: {client}\r\n"
    return head.encode() + f"Content-Length: {len(text)}\r\n\r\n".encode() + text


def dial(outcomes: RunningOutcomes) -> socket.socket:
    return socket.create_connection(("127.0.0.1", outcomes.port), timeout=PATIENCE_S)


def load_a_page(outcomes: RunningOutcomes, number: int, client: str, after_s: float = 0.02) -> None:
    """Send a page's line, and its beacon a while later; it is taken."""
    log_line(outcomes.local.reader.lines.path, number, client)
    time.sleep(after_s)
    with dial(outcomes) as to:
        to.sendall(raw(number, client))
        assert to.recv(65536).startswith(b"HTTP/1.1 204 ")


def flooded(outcomes: RunningOutcomes, address: Callable[[int], str]) -> int:
    """Send forged beacons in four threads, as fast as they are answered, while honest clients load pages.

    address  of the client that the beacon of a number is said to be from

    Returns how many were sent.
    """
    stop, sent = time.monotonic() + SECONDS, [0]

    def flood(at: int) -> None:
        """Send requests one after another on a connection, a new one when it is closed."""
        while time.monotonic() < stop:
            with dial(outcomes) as to, suppress(OSError):
                while time.monotonic() < stop:
                    to.sendall(b"".join(raw(at + n, address(at + n), known=False) for n in range(50)))
                    at, answers = at + 50, 0
                    sent[0] += 50
                    while answers < 50:
                        if not (got := to.recv(65536)):
                            raise OSError
                        answers += got.count(b"HTTP/1.1 ")

    threads = [threading.Thread(target=flood, args=(10**6 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for number in range(HONEST):
        load_a_page(outcomes, number, f"203.0.113.{number + 1}")
    for thread in threads:
        thread.join()
    outcomes.wait(lambda: outcomes.counts()["accepted"] == HONEST)
    assert [row.plt_ms for row in outcomes.rows] == [90.0] * HONEST
    return sent[0]


@pytest.mark.slow
def test_a_flood_from_one_address_costs_no_honest_beacon(outcomes: RunningOutcomes) -> None:
    flooded(outcomes, lambda number: "198.51.100.66")
    # the first sixty are a burst that a browser with many tabs may send; their tokens are unknown
    assert outcomes.counts()["beacons"] - HONEST <= 80 and outcomes.counts()["flood-address"] > 100


@pytest.mark.slow
def test_forged_beacons_from_ten_thousand_addresses_cost_no_honest_one(outcomes: RunningOutcomes) -> None:
    """Each address stays within its own limit."""
    rng = random.Random(1)
    addresses = [f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}" for _ in range(ADDRESSES)]
    sent = flooded(outcomes, lambda number: addresses[number % ADDRESSES])
    assert outcomes.counts()["beacons"] == sent + HONEST


def test_rows_that_have_not_settled_are_handed_out_at_the_end(tmp_path: Path) -> None:
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    source = ReadyRecords(opened(boot_ns, 1, 1_000, prefix="203.0.113.0/24"))
    with running_outcomes(tmp_path / "log", source) as outcomes:
        load_a_page(outcomes, 0, "203.0.113.5", 0.05)
        outcomes.wait(lambda: outcomes.counts()["joined"] == 1 and outcomes.counts()["beacons"] == 1)
        assert outcomes.rows == []
    assert [row.plt_ms for row in outcomes.rows] == [90.0]


def test_the_script_and_the_preflight_are_answered(outcomes: RunningOutcomes) -> None:
    to = http.client.HTTPConnection("127.0.0.1", outcomes.port)
    to.request("GET", "/configtron/beacon.js")
    answer = to.getresponse()
    text = answer.read()
    assert answer.status == 200 and b"sendBeacon" in text and len(text) <= 2_048
    to.request("OPTIONS", "/configtron/reports")
    answer = to.getresponse()
    answer.read()
    assert (answer.status, answer.headers["Access-Control-Allow-Headers"]) == (204, "content-type")
    to.request("GET", "/else")
    assert to.getresponse().status == 404
    to.close()


def test_hostile_peers_cost_a_bounded_number_of_connections(
    outcomes: RunningOutcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_endpoint, "MOST_CONNECTIONS", 20)
    idle = [dial(outcomes) for _ in range(60)]
    for one in idle:
        one.sendall(b"POST /configtron/beacon HTTP/1.1\r\nX: ")
    outcomes.wait(lambda: len(outcomes.local.pages.endpoint.open) == 20)
    with dial(outcomes) as to:
        to.sendall(b"\x16\x03\x01garbage\r\n\r\n")
        assert to.recv(1000).startswith(b"HTTP/1.1 400 ")
        assert to.recv(1000) == b"", "and the connection is closed"
    for one in idle:
        one.close()
    assert outcomes.counts()["not-http"] == 1


def test_idle_connections_are_closed(outcomes: RunningOutcomes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "IDLE_S", 0.5)
    with dial(outcomes) as to:
        assert to.recv(1) == b""


def test_a_port_in_use_is_one_clear_line(outcomes: RunningOutcomes) -> None:
    with pytest.raises(Missing, match="beacons cannot be received at 127.0.0.1 port .*; choose another"):
        asyncio.run(outcomes.local.pages.endpoint.start("127.0.0.1", outcomes.port))


def test_the_log_socket_replaces_a_dead_one_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first = LogSocket(path)
    with pytest.raises(Refused, match=rf"process {os.getpid()}\b.* receives log lines"):
        LogSocket(path)
    first._socket.close()
    second = LogSocket(path)
    log_line(path, 1, "203.0.113.1")
    assert [data.split()[0] for data, _, _ in second.lines()] == [b"ctn"]
    second.close()
    assert not path.exists()
    path.write_text("a file")
    with pytest.raises(Missing, match="no socket"):
        LogSocket(path)
    with pytest.raises(Missing, match="create its folder"):
        LogSocket(tmp_path / "none" / "none" / "log")
    with pytest.raises(Missing, match=r"make its folder by systemd-tmpfiles --create configtron-serve\.conf"):
        LogSocket(Path("/sys/none/log"))


def test_a_short_queue_is_named_with_its_command(tmp_path: Path) -> None:
    short = "the kernel queues 10 log lines; run: sysctl -w net.unix.max_dgram_qlen=512"
    for length, line in (("10", short), ("512", "")):
        (tmp_path / "qlen").write_text(f"{length}\n")
        assert short_queue(tmp_path / "qlen") == line


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def diag(server: socket.socket) -> EndedSockets:
    return EndedSockets((server.getsockname()[1],), every_ns=0, grace_ns=100_000_000)


def pair(server: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection."""
    return socket.create_connection(server.getsockname()), server.accept()[0]


def test_connections_by_inet_diag_have_a_start_and_an_end(server: socket.socket) -> None:
    early, kept = pair(server)
    with early, kept:
        source = diag(server)
        (before,) = source.records()
        assert isinstance(before, OpenRecord)
        assert (before.remote_port, before.start_ns) == (early.getsockname()[1], 0), "it began at an unknown time"
        client, served = pair(server)
        began_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        (record,) = source.records()
        assert isinstance(record, OpenRecord)
        assert (record.prefix, record.local_port) == ("127.0.0.0/24", server.getsockname()[1])
        assert 0 < record.start_ns <= began_ns
        served.sendall(b"x" * 5_000)
        client.recv(5_000)
        client.close()
        served.close()
        ends = []
        while not ends:
            ends = list(source.records())
        (end,) = ends
        assert isinstance(end, CloseRecord) and end.opened == record
        assert end.bytes_acked >= 5_000 and (end.min_rtt_us or 0) > 0 and end.end_ns > record.start_ns
        assert source.lost_records() == 0
        source.close()


def test_a_connection_that_ends_while_the_kernel_lists_has_one_record(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end comes with the list that still has it: taken in the other order it would stay open for ever."""
    source, ends = diag(server), pair(server)
    listed = source._diag.connections

    def list_and_end(asked: int) -> list[DiagSocket]:
        found = listed(asked)
        for end in ends:
            end.close()
        # the kernel reports ends from a queue
        time.sleep(0.5)
        return found

    monkeypatch.setattr(source._diag, "connections", list_and_end)
    begun, ended = source.records()
    assert isinstance(begun, OpenRecord) and isinstance(ended, CloseRecord) and ended.opened == begun
    assert source._open == {} and source.lost_records() == 0
    source.close()


def test_connections_that_end_unseen_are_counted(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    source, ends = diag(server), pair(server)
    assert len(list(source.records())) == 1
    # the kernel's reports of a flood of endings find no room
    monkeypatch.setattr(source._destroyed, "read", lambda timeout_s=0.0: [])
    for end in ends:
        end.close()
    until(lambda: not list(source.records()) and bool(source.lost_records()))
    assert source.lost_records() == 1
    source.close()
