# SPDX-License-Identifier: MIT
"""A program that accepts connections and is no scheduler is refused within the time; a client of Dask would wait."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from configtron.fleet.transport.dask_client import connect
from configtron.model.errors import BadInput

ANSWERS = (b"", b"HTTP/1.0 400 Bad Request\r\n\r\n")


@pytest.fixture(params=ANSWERS, ids=["silent", "http"])
def stranger(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return the port of a server that sends a text to each connection and holds it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    held.append(listener.accept()[0])
                    held[-1].sendall(request.param)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        for each in held:
            each.close()


def test_a_program_that_is_no_scheduler_is_refused(stranger: int) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(BadInput, match=rf"--cluster tcp://127.0.0.1:{stranger}: no scheduler answers \(.+\)"):
        connect(f"tcp://127.0.0.1:{stranger}", 1.0)
