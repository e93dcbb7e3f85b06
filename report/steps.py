"""How a study goes, while it goes: a bar on a terminal, a line a part elsewhere. All of it on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from configtron.report.filling import lasting

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


class Steps:
    """Show how far a study is; a context manager, so that the terminal is left tidy."""

    def __init__(
        self,
        what: str,
        err: TextIO,
        *,
        quiet: bool = False,
        color: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._err, self._quiet, self._clock = what, err, quiet, clock
        self._began, self._before = clock(), -1
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if not quiet and err.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            note = TextColumn("{task.fields[note]}")
            text = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), note)
            self._bar = Progress(*text, console=Console(file=err, no_color=not color), transient=True)
            self._task = self._bar.add_task(what, total=None, note="")

    def __enter__(self) -> Steps:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, parts: int, now: str = "") -> None:
        """So many of so many parts are done; `now`: the last one, or what is done now."""
        if self._before < 0:
            # parts of an earlier run took no time of this one
            self._before, self._began = done, self._clock()
        here, elapsed = done - self._before, self._clock() - self._began
        left = lasting(elapsed * (parts - done) / here if here else None)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=parts, completed=done, note=f"{left} {now}")
        elif not self._quiet:
            self._err.write(f"{self._what}: {done}/{parts} parts, {left}{f' ({now})' if now else ''}\n")
            self._err.flush()
