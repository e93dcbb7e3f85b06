# SPDX-License-Identifier: MIT
"""`fingerprint socket` on connections of this host whose rate is known: a small page, and a flow that is paced."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from configtron.cli.outermost import run
from configtron.model.errors import DONE

# asm-generic/socket.h.
SO_MAX_PACING_RATE = 47
PACE = 25_000_000


def is_settable(control: bytes) -> bool:
    """Return whether the kernel has this congestion control, and lets this process set it."""
    with socket.socket() as trial:
        try:
            trial.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
        except OSError:
            return False
    return True


@pytest.fixture(params=list(filter(is_settable, (b"reno", b"cubic", b"bbr"))))
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Client and server of a connection under a congestion control."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as peer,
    ):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, request.param)
        yield client, peer


def row_of(peer: socket.socket, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    port = str(peer.getsockname()[1])
    assert run(["--db", str(folder / "x.db"), "fingerprint", "socket", "--port", port, "-f", "jsonl"]) == DONE
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (row,) = [row for row in rows if row["schema"].startswith("configtron.context/") and row["way"] == "out"]
    return dict(row)


def test_a_small_page_says_nothing_of_the_path(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client, peer = ends
    peer.sendall(b"x" * 186)
    assert client.recv(1000)
    row = row_of(peer, tmp_path, capsys)
    assert row["context"].get("bandwidth_kbps") is None and row["unknown"]["bandwidth_kbps"] == "too-short"


def test_a_paced_flow_is_bounded_by_its_pace(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client, peer = ends
    peer.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, PACE)
    over = threading.Event()

    def repeat(work: Callable[[], object]) -> None:
        while not over.is_set():
            with suppress(OSError):  # the other one ended first
                work()

    works: tuple[Callable[[], object], ...] = (lambda: peer.sendall(bytes(1 << 16)), lambda: client.recv(1 << 20))
    threads = [threading.Thread(target=repeat, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    row = row_of(peer, tmp_path, capsys)
    over.set()
    for thread in threads:
        thread.join(2)
    assert row["context"]["bandwidth_kbps"] <= PACE * 8 / 1e3 and row["bounded"] is True
