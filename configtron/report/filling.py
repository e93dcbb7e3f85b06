# SPDX-License-Identifier: MIT
"""Progress of filling a tensor: a bar on a terminal, a line now and then elsewhere, JSON lines.

All of it on stderr or in a file of its own; never on stdout, which is for data. The time left follows from the cells
that are done, and not before enough of them are: shards are done in an order drawn by chance, so that it holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TextIO

from configtron.model.records import canonical
from configtron.report.progress import PLAIN_EVERY_S, STATUS_EVERY_S
from configtron.report.progress_display import ProgressDisplay

# Until a twentieth is done the time left is not shown: the first shards are no sample.
LEAST_SHARE = 0.05


class Moment(NamedTuple):
    """A moment of a measurement. done: of `cells`, those kept or begun; before: those that an earlier run had done."""

    cells: int = 0
    done: int = 0
    before: int = 0
    loads: int = 0
    shards: int = 0
    shards_done: int = 0
    shards_failed: int = 0


def left_s(moment: Moment, elapsed_s: float) -> float | None:
    """Seconds that are left; None until known."""
    here = moment.done - moment.before
    if not here or moment.done < LEAST_SHARE * moment.cells:
        return None
    return elapsed_s * (moment.cells - moment.done) / here


def lasting(seconds: float | None) -> str:
    """A time to come as people say it."""
    if seconds is None:
        return "time left unknown"
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s left" if seconds < 120 else f"{minutes // 60} h {minutes % 60:02} min left"


class Filling(ProgressDisplay):
    """Show how far it is. Call `update` as often as you like."""

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
        self._plain_at = self._began + PLAIN_EVERY_S
        self._status_at = self._began
        self._shown: Moment | None = None

    def update(self, moment: Moment, *, last: bool = False) -> None:
        """Show the progress; `last` shows it in any case."""
        now = self._clock()
        elapsed = now - self._began
        left = left_s(moment, elapsed)
        if self._status is not None and (last or now >= self._status_at):
            self._status_at = now + STATUS_EVERY_S
            times = {"elapsed_s": round(elapsed, 3), "left_s": None if left is None else round(left, 1)}
            self._status.write(canonical({"what": self._what, **times, **moment._asdict()}) + "\n")
            self._status.flush()
        note = f"{moment.loads} loads, {lasting(left)}"
        if not self._drawn(moment.cells, moment.done, note) and (
            now >= self._plain_at or last and moment != self._shown
        ):
            self._plain_at, self._shown = now + PLAIN_EVERY_S, moment
            self.say(f"{self._what}: {moment.done}/{moment.cells} cells, {note}, {elapsed:.0f} s")
