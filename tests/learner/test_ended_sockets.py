# SPDX-License-Identifier: MIT
"""Connections by inet_diag: when one began that no dump had."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

from configtron.learner.receiving.ended_sockets import EndedSockets, boottime_ns
from configtron.linux.sock_diag import Destroyed, DiagSocket
from configtron.model.close_records import CloseRecord

EVERY_NS = 50_000_000


class Late:
    """The kernel's reports, each of which comes one dump after the socket was removed."""

    def __init__(self, inner: Destroyed) -> None:
        self._inner, self.held, self.lost = inner, True, 0

    def read(self) -> Iterator[DiagSocket]:
        if not self.held:
            yield from self._inner.read()

    def close(self) -> None:
        self._inner.close()


def test_a_connection_that_is_reported_after_the_next_dump_did_not_begin_with_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = EndedSockets((server.getsockname()[1],), every_ns=EVERY_NS)
        late = Late(source._destroyed)
        source._destroyed = late  # type: ignore[assignment]
        try:
            list(source.records())
            time.sleep(2 * EVERY_NS / 1e9)
            assert not list(source.records())
            began_ns = boottime_ns()
            with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
                client.sendall(b"x")
                assert accepted.recv(1) == b"x"
                accepted.close()
                assert client.recv(1) == b""
            time.sleep(2 * EVERY_NS / 1e9)
            assert not list(source.records()), "no dump has it"
            late.held = False
            (record,) = source.records()
            assert isinstance(record, CloseRecord) and 0 < record.opened.start_ns <= began_ns
        finally:
            source.close()
