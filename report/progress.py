"""How a run goes, while it goes: a bar on a terminal, a line now and then elsewhere, JSON lines for programs.

All of it on stderr or in a file of its own; never on stdout, which is for data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TextIO

from configtron.records import canonical
from configtron.report.shown import Shown

# A status line each second, as zmap does; a plain line rarely, since it stays in logs.
STATUS_EVERY_S = 1.0
PLAIN_EVERY_S = 10.0


class Counts(NamedTuple):
    """A moment of a run: targets (times vantages) in all and finished; connections made, and those without answer."""

    total: int = 0
    done: int = 0
    calls: int = 0
    failed: int = 0


class Progress(Shown):
    """Show counts. Call `update` as often as you like."""

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
        super().__init__(what, err, quiet=quiet, color=color, clock=clock)
        self._status = status
        self._plain_at = self._status_at = self._began
        self._told: Counts | None = None

    def update(self, counts: Counts, *, last: bool = False) -> None:
        """The newest counts; `last` shows them in any case."""
        now = self._clock()
        if self._status is not None and (last or now >= self._status_at):
            self._status_at = now + STATUS_EVERY_S
            form = {"elapsed_s": round(now - self._began, 3), "what": self._what, **counts._asdict()}
            self._status.write(canonical(form) + "\n")
            self._status.flush()
        if not self._drawn(counts.total, counts.done, _note(counts)) and (
            now >= self._plain_at or last and counts != self._told
        ):
            self._plain_at, self._told = now + PLAIN_EVERY_S, counts
            self.say(f"{self._what}: {counts.done}/{counts.total} targets, {_note(counts)}, {now - self._began:.0f} s")


def _note(counts: Counts) -> str:
    return f"{counts.calls} connections, {counts.failed} without answer"
