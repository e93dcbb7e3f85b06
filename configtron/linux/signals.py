# SPDX-License-Identifier: MIT
"""Signals that end a job: as Ctrl-C, or as a request that the job asks for where it can stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

# After so long without a place to stop, work that can be resumed is interrupted, and goes on later from what was kept
# before. Some updates, and every study's world, take a minute from one such place to the next.
GRACE_S = 0.5
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def handled(handlers: Mapping[int, Any]) -> Iterator[dict[int, Any]]:
    """Set handlers of signals until the block ends; yield those before."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handle a signal as Ctrl-C."""
    raise KeyboardInterrupt


@contextmanager
def terminated() -> Iterator[None]:
    """Until the block ends, SIGTERM and SIGHUP raise KeyboardInterrupt in it."""
    with handled({signal.SIGTERM: interrupt, signal.SIGHUP: interrupt}):
        yield


@contextmanager
def asked_to_stop(begun: Callable[[], bool] = lambda: True) -> Iterator[Callable[[], bool]]:
    """Yield whether Ctrl-C, SIGTERM or SIGHUP asked for the end. A second signal, or one before the work has begun,
    raises KeyboardInterrupt."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked or not begun():
            raise KeyboardInterrupt
        asked.append(number)

    with handled(dict.fromkeys(ENDING, ask)):
        yield lambda: bool(asked)


@contextmanager
def stop_signals(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Yield whether Ctrl-C or SIGTERM asked to stop. If the work does not stop within `GRACE_S`, KeyboardInterrupt is
    raised in it; a second signal of the same kind has its usual effect."""
    asked: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, before[number])
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        say("stopping where it can be resumed; once more, and it ends at once")

    with handled({signal.SIGINT: note, signal.SIGTERM: note, signal.SIGALRM: interrupt}) as before:
        try:
            yield lambda: bool(asked)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
