# SPDX-License-Identifier: MIT
"""Progress of long jobs on standard error: lines now and then, or a bar on a terminal; JSON lines for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from configtron.cli.output import say
from configtron.cli.settings import hint, settings
from configtron.model.errors import cannot_write
from configtron.report.pace import JobPace
from configtron.service.progress import Event, StepProgress


class EventLines:
    """Print notices as they are, and now and then how far each job is. closing: a line at the end of a job too."""

    def __init__(self, *, closing: bool = True) -> None:
        self._closing = closing
        self._paces: dict[str, JobPace] = {}

    def __call__(self, event: Event) -> None:
        """Show an event."""
        pace = self._paces.get(event.what)
        if not isinstance(event, StepProgress):
            say(event.what)
        elif pace is None or event.done <= pace.begun:
            self._paces[event.what] = JobPace(event.what, event.things, event.total, event.done, say)
        else:
            pace(event.done, last=self._closing and event.done == event.total)


class BarDisplay:
    """Show the events of one job: a bar that the first step makes, notices above it, a line a second in a status file.

    make       the bar: `Progress` or `Filling` of `configtron.report`
    counts_of  what the bar shows of an event, and whether it is the last; None for a notice

    Errors: `BadInput` if the status file cannot be opened.
    """

    def __init__(
        self, make: Callable[..., Any], counts_of: Callable[[Event], tuple[Any, bool] | None], status_file: Path | None
    ) -> None:
        self._make, self._counts_of, self._status_file = make, counts_of, status_file
        self._stack = ExitStack()
        self._bar: Any = None

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
            self._bar.say(hint(event.what))
        else:
            say(event.what)

    def _begun(self, what: str) -> Any:
        given, path = settings(), self._status_file
        status = None
        if path is not None:
            try:
                status = sys.stderr if str(path) == "-" else self._stack.enter_context(path.open("w"))
            except OSError as error:
                raise cannot_write(path, error) from error
        return self._make(what, sys.stderr, quiet=given.loudness < 0, color=given.color, status=status)
