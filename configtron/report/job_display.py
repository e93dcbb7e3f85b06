# SPDX-License-Identifier: MIT
"""Progress of long jobs on standard error: lines now and then, or a bar on a terminal; JSON lines for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from configtron.model.errors import cannot_write
from configtron.model.progress import Event, StepProgress
from configtron.report.pace import JobPace
from configtron.report.progress import CampaignCounts, Moment, Progress

CountsOf = Callable[[Event], tuple[CampaignCounts | Moment, bool] | None]


class EventLines:
    """Print notices as they are, and now and then how far each job is. say: prints a line; closing: a line at the end
    of a job too."""

    def __init__(self, say: Callable[[str], None], *, closing: bool = True) -> None:
        self._say, self._closing = say, closing
        self._paces: dict[str, JobPace] = {}

    def __call__(self, event: Event) -> None:
        """Show an event."""
        pace = self._paces.get(event.what)
        if not isinstance(event, StepProgress):
            self._say(event.what)
        elif pace is None or event.done <= pace.begun:
            self._paces[event.what] = JobPace(event.what, event.things, event.total, event.done, self._say)
        else:
            pace(event.done, last=self._closing and event.done == event.total)


class BarDisplay:
    """Show the events of one job: a bar that the first step makes, notices above it, a line a second in a status file.

    counts_of  what the bar shows of an event, and whether it is the last; None for a notice
    say, hint  print a line; name the database in commands of a line
    how        `counted`, `quiet` and `color` of `Progress`

    Errors: `BadInput` if the status file cannot be opened.
    """

    def __init__(
        self, counts_of: CountsOf, status_file: Path | None, *, say: Callable[[str], None], hint: Callable[[str], str],
        **how: Any,
    ) -> None:  # fmt: skip
        self._counts_of, self._status_file, self._say, self._hint = counts_of, status_file, say, hint
        self._how = how
        self._stack = ExitStack()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if (step := self._counts_of(event)) is not None:
            if self._bar is None:
                self._bar = self._stack.enter_context(self._begun(event.what))
            self._bar.update(step[0], last=step[1])
        elif self._bar is not None:
            self._bar.say(self._hint(event.what))
        else:
            self._say(event.what)

    def _begun(self, what: str) -> Progress:
        path, status = self._status_file, None
        if path is not None:
            try:
                status = sys.stderr if str(path) == "-" else self._stack.enter_context(path.open("w"))
            except OSError as error:
                raise cannot_write(path, error) from error
        return Progress(what, sys.stderr, status=status, **self._how)
