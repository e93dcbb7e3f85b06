# SPDX-License-Identifier: MIT
"""Programs that run for the length of a block: they obey signals whatever we were started with, and none stays."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support.waiting import PATIENCE_S


def default_signals() -> None:
    """Take back, in a child (`preexec_fn`), what a start in the background hands on: SIGINT ignored, others blocked."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@contextmanager
def child(
    command: Sequence[str],
    end: signal.Signals = signal.SIGKILL,
    prepare: Callable[[], None] = lambda: None,
    **options: Any,
) -> Iterator[subprocess.Popen[Any]]:
    """Run a program meanwhile (`options` of Popen). At the block's end, failed or not, it gets `end` and is waited for.

    `prepare` runs in the child first. After `PATIENCE_S` it is killed.
    """

    def begin() -> None:
        default_signals()
        prepare()

    with subprocess.Popen(command, preexec_fn=begin, **options) as process:
        try:
            yield process
        finally:
            process.send_signal(end)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
