# SPDX-License-Identifier: MIT
"""`fingerprint socket` on connections of this host whose rate is known: a small page, and a flow that is paced."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

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


CONTROLS = list(filter(is_settable, (b"reno", b"cubic", b"bbr")))


def row_of(port: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    words = ["--db", str(folder / "x.db"), "fingerprint", "socket", "--port", str(port), "-f", "jsonl"]
    assert run(words) == DONE
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (row,) = [row for row in rows if row["schema"].startswith("configtron.context/") and row["way"] == "out"]
    return row


@pytest.mark.parametrize("control", CONTROLS)
def test_a_small_page_says_nothing_of_the_path(
    control: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as peer,
    ):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
        peer.sendall(b"x" * 186)
        assert client.recv(1000)
        row = row_of(server.getsockname()[1], tmp_path, capsys)
    context = row["context"]
    assert isinstance(context, dict) and context.get("bandwidth_kbps") is None
    assert isinstance(row["unknown"], dict) and row["unknown"]["bandwidth_kbps"] == "too-short"


@pytest.mark.parametrize("control", CONTROLS)
def test_a_paced_flow_is_bounded_by_its_pace(
    control: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as peer,
    ):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
        peer.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, PACE)
        over = threading.Event()

        def send() -> None:
            while not over.is_set():
                peer.sendall(bytes(1 << 16))

        def receive() -> None:
            while not over.is_set():
                client.recv(1 << 20)

        threads = [threading.Thread(target=work, daemon=True) for work in (send, receive)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        row = row_of(server.getsockname()[1], tmp_path, capsys)
        over.set()
        for thread in threads:
            thread.join(2)
    context = row["context"]
    assert isinstance(context, dict) and context["bandwidth_kbps"] <= PACE * 8 / 1e3
    assert row["bounded"] is True
