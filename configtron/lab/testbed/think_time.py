# SPDX-License-Identifier: MIT
"""A server's own time before each answer: a socket that answers "204 No Content" so long after it was asked."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ANSWER = b"HTTP/1.0 204 No Content\r\nContent-Length: 0\r\n\r\n"
HEAD_END, MOST_HEAD_BYTES = b"\r\n\r\n", 1 << 16
# All requests of one load at once, and more.
BACKLOG = 4096


class DelayedServer(socketserver.ThreadingUnixStreamServer):
    """Answers each request `think_s` after its head came."""

    request_queue_size, daemon_threads, block_on_close = BACKLOG, True, False

    def __init__(self, path: Path, think_s: float) -> None:
        self.think_s = think_s
        super().__init__(str(path), DelayedAnswer)


class DelayedAnswer(socketserver.BaseRequestHandler):
    """One request."""

    server: DelayedServer

    def handle(self) -> None:
        began, head = time.monotonic(), b""
        while HEAD_END not in head and len(head) < MOST_HEAD_BYTES:
            data = self.request.recv(MOST_HEAD_BYTES)
            if not data:
                return
            head += data
        time.sleep(max(0.0, began + self.server.think_s - time.monotonic()))
        self.request.sendall(ANSWER)


@contextmanager
def thinking(path: Path, think_ms: float) -> Iterator[None]:
    """Answer at that socket until the block ends; without a think time there is none."""
    if not think_ms:
        yield
        return
    with DelayedServer(path, think_ms / 1e3) as server:
        path.chmod(0o666)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            path.unlink(missing_ok=True)
