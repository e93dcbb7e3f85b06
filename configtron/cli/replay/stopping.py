# SPDX-License-Identifier: MIT
"""Ctrl-C and SIGTERM as a wish to stop where the work can be resumed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from configtron.cli.learn.options import say

# After so long without a place to stop, the work is interrupted, and goes on later from what was kept before. Some
# updates, and every study's world, take a minute from one such place to the next.
GRACE_S = 0.5


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield whether a signal asked to stop. If the work does not stop in time, KeyboardInterrupt is raised, wherever it
    is; a second signal of the same kind has its usual effect."""
    asked: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, before[number])
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        say("stopping where it can be resumed; once more, and it ends at once")

    def late(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {int(number): signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    before[int(signal.SIGALRM)] = signal.signal(signal.SIGALRM, late)
    try:
        yield lambda: bool(asked)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, old in before.items():
            signal.signal(number, old)
