# SPDX-License-Identifier: MIT
"""How fast a long job goes and when it will be done: a line on stderr now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from configtron.cli.learn.options import say
from configtron.service.progress import Event

# Often enough for a reader who waits, rarely enough for a log.
EVERY_S = 5.0
# Below it a rate is shown with two digits: parts of a study take minutes.
SLOW = 10.0


class Pace:
    """Counts of a job of `total` things; `begun` of them were there before (a job that is resumed)."""

    def __init__(self, what: str, things: str, total: int, begun: int = 0, clock: Callable[[], float] = time.monotonic):
        self.what, self.things, self.total, self.begun, self._clock = what, things, total, begun, clock
        self._start = self._told = clock()

    def __call__(self, done: int, *, last: bool = False) -> None:
        """So many are done, those of before included."""
        now = self._clock()
        if not last and now - self._told < EVERY_S:
            return
        self._told = now
        say(self.line(done, now - self._start))

    def line(self, done: int, took_s: float) -> str:
        """Return the line that is shown."""
        rate = (done - self.begun) / max(took_s, 1e-9)
        left = (self.total - done) / rate if rate > 0 else 0.0
        each = f"{rate:.0f}" if rate >= SLOW else f"{rate:.2g}"
        ahead = f", {left:.0f} s left" if done < self.total else f" in {took_s:.1f} s"
        return f"{self.what}: {done}/{self.total} {self.things}, {each}/s{ahead}"


class Shown:
    """Progress events as lines: a notice as it is, of a job's steps now and then how far it is. things: by the job's
    name, the plural of what it does."""

    def __init__(self, things: Mapping[str, str] | None = None) -> None:
        self._things = things or {}
        self._paces: dict[str, Pace] = {}

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if event.what not in self._things:
            say(event.what)
        elif event.done == 0:
            self._paces[event.what] = Pace(event.what, self._things[event.what], event.total)
        else:
            self._paces[event.what](event.done, last=event.done == event.total)
