# SPDX-License-Identifier: MIT
"""Progress as people see it: a bar on a terminal, plain lines elsewhere. Subclasses supply the counts.

All of it on stderr; never on stdout, which is for data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class ProgressDisplay:
    """A context manager, so that the terminal is left tidy; on a terminal that may be written on in colour, and unless
    quiet, it has a bar, which moves the cursor."""

    # Whether the bar's parts are things that people count.
    counted = True

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
        self._began = clock()
        self._bar: Bar | None = None
        if not quiet and color and err.isatty():
            self._bar = _bar(err, counted=self.counted)
            self._task = self._bar.add_task(what, total=None, note="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """One line, above the bar if there is one."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            self._err.write(f"{text}\n")
            self._err.flush()

    def _drawn(self, total: int, done: int, note: str) -> bool:
        """The bar is there, and is so now."""
        if self._bar is None:
            return False
        self._bar.update(self._task, total=total or None, completed=done, note=note)
        return True


def _bar(err: TextIO, *, counted: bool) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    count = (MofNCompleteColumn(),) if counted else ()
    columns = (TextColumn("{task.description}"), BarColumn(), *count, TextColumn("{task.fields[note]}"))
    return Bar(*columns, TimeElapsedColumn(), console=Console(file=err), transient=True)
