# SPDX-License-Identifier: MIT
"""SIGTERM and SIGHUP taken as Ctrl-C is, for commands that have something to keep or to close."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminated() -> Iterator[None]:
    """Until the block ends, SIGTERM and SIGHUP raise KeyboardInterrupt in it."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
