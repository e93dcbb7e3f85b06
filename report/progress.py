"""How a run goes, while it goes: a bar on a terminal, a line now and then elsewhere, JSON lines for programs.

All of it on stderr or in a file of its own; never on stdout, which is for data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TextIO

from configtron.records import canonical

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

# A status line each second, as zmap does; a plain line rarely, since it stays in logs.
STATUS_EVERY_S = 1.0
PLAIN_EVERY_S = 10.0


class Counts(NamedTuple):
    """A moment of a run: targets (times vantages) in all and finished; connections made, and those without answer."""

    total: int = 0
    done: int = 0
    calls: int = 0
    failed: int = 0


class Progress:
    """Show counts. Call `update` as often as you like; use as a context manager, so that the terminal is left tidy."""

    def __init__(
        self,
        what: str,
        err: TextIO,
        *,
        quiet: bool = False,
        color: bool = True,
        status: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._err, self._quiet, self._status, self._clock = what, err, quiet, status, clock
        self._began = clock()
        self._plain_at = self._status_at = self._began
        self._told: Counts | None = None
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if not quiet and err.isatty():
            self._bar = _bar(err, color)
            self._task = self._bar.add_task(what, total=None, note="")

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """One line above the bar: what is being done now."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            self._err.write(f"{text}\n")
            self._err.flush()

    def update(self, counts: Counts, *, last: bool = False) -> None:
        """The newest counts; `last` shows them in any case."""
        now = self._clock()
        if self._status is not None and (last or now >= self._status_at):
            self._status_at = now + STATUS_EVERY_S
            form = {"elapsed_s": round(now - self._began, 3), "what": self._what, **counts._asdict()}
            self._status.write(canonical(form) + "\n")
            self._status.flush()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=counts.total or None, completed=counts.done, note=_note(counts))
        elif not self._quiet and (now >= self._plain_at or last and counts != self._told):
            self._plain_at, self._told = now + PLAIN_EVERY_S, counts
            self.say(f"{self._what}: {counts.done}/{counts.total} targets, {_note(counts)}, {now - self._began:.0f} s")


def _note(counts: Counts) -> str:
    return f"{counts.calls} connections, {counts.failed} without answer"


def _bar(err: TextIO, color: bool) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    return Bar(*columns, TimeElapsedColumn(), console=Console(file=err, no_color=not color), transient=True)
