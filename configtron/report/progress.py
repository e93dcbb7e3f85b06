# SPDX-License-Identifier: MIT
"""Progress of a job: a bar on a terminal, a line now and then elsewhere, JSON lines for programs.

All of it on stderr or in a file of its own; never on stdout, which is for data. What a job counts (`CampaignCounts`,
`Moment`) says itself how far it is and in which words.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Self, TextIO

from configtron.model.records import Json, canonical

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

# A status line each second, as zmap does; a plain line rarely, since it stays in logs.
STATUS_EVERY_S = 1.0
PLAIN_EVERY_S = 10.0
# A campaign's bar in parts, and how far it may go by an estimate alone.
PARTS, NEARLY = 1000, 0.99
# A time left is shown after so long, and so much of the run: before, it would be a guess.
LEFT_AFTER_S, LEFT_FROM = 5.0, 0.02
# Of a tensor a twentieth: its shards are done in an order drawn by chance, but the first ones are no sample.
LEAST_SHARE = 0.05


class CampaignCounts(NamedTuple):
    """A moment of a run: targets (times vantages) in all and finished; connections made, and those without answer;
    about how many connections there will be (0: unknown)."""

    total: int = 0
    done: int = 0
    calls: int = 0
    failed: int = 0
    steps: int = 0

    @property
    def share(self) -> float:
        """Return how much of the run is done, 0 to 1: by connections, since targets end together, and late."""
        if self.done >= self.total:
            return 1.0 if self.total else 0.0
        return max(self.done / self.total, min(self.calls / self.steps, NEARLY) if self.steps else 0.0)

    @property
    def bar(self) -> tuple[int, int]:
        """Return thousandths."""
        return PARTS, round(PARTS * self.share)

    def status(self, elapsed_s: float) -> dict[str, Json]:
        """Return the fields of a status line: a program that reads the counts estimates as well."""
        return self._asdict()

    def words(self, elapsed_s: float, still_s: float, *, last: bool) -> tuple[str, str, str]:
        """Return what a line says first, what the bar says too, and what follows the time; still_s: without a step."""
        ahead = self.done < self.total and self.calls < self.steps
        calls = f"{self.calls} of about {self.steps} connections" if ahead else f"{self.calls} connections"
        note = f"{self.done}/{self.total} targets, {calls}, {self.failed} without answer"
        return "", note, "" if last else self._left(elapsed_s, still_s)

    def _left(self, elapsed_s: float, still_s: float) -> str:
        """About how long it will take yet, once enough has been seen to say so; nothing where the last connections are
        the slow ones: more came than were expected, or none has ended for longer than what would be left."""
        share = self.share
        if elapsed_s < LEFT_AFTER_S or share < LEFT_FROM or share >= NEARLY:
            return ""
        seconds = elapsed_s * (1 - share) / share
        if still_s > seconds:
            return ""
        return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"


class Moment(NamedTuple):
    """A moment of a measurement. done: of `cells`, those kept or begun; before: those that an earlier run had done."""

    cells: int = 0
    done: int = 0
    before: int = 0
    loads: int = 0
    shards: int = 0
    shards_done: int = 0
    shards_failed: int = 0

    @property
    def share(self) -> float:
        """Return how many of the cells are done, as a share."""
        return self.done / self.cells if self.cells else 0.0

    @property
    def bar(self) -> tuple[int, int]:
        """Return cells."""
        return self.cells, self.done

    def left_s(self, elapsed_s: float) -> float | None:
        """Return seconds that are left; None until known."""
        here = self.done - self.before
        if not here or self.share < LEAST_SHARE:
            return None
        return elapsed_s * (self.cells - self.done) / here

    def status(self, elapsed_s: float) -> dict[str, Json]:
        """Return the fields of a status line."""
        left = self.left_s(elapsed_s)
        return {"left_s": None if left is None else round(left, 1), **self._asdict()}

    def words(self, elapsed_s: float, still_s: float, *, last: bool) -> tuple[str, str, str]:
        """Return what a line says first and what the bar says too: cells; loads and the time left."""
        return f"{self.done}/{self.cells} cells, ", f"{self.loads} loads, {lasting(self.left_s(elapsed_s))}", ""


def lasting(seconds: float | None) -> str:
    """A time to come as people say it."""
    if seconds is None:
        return "time left unknown"
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s left" if seconds < 120 else f"{minutes // 60} h {minutes % 60:02} min left"


class Progress:
    """Show counts. Call `update` as often as you like. A context manager, so that the terminal is left tidy.

    On a terminal that may be written on in colour, and unless quiet, it has a bar, which moves the cursor. counted: the
    bar's parts are things that people count; else the first line comes with the first counts.
    """

    def __init__(
        self, what: str, err: TextIO, *, quiet: bool = False, color: bool = True, status: TextIO | None = None,
        counted: bool = False, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._what, self._err, self._quiet, self._status, self._clock = what, err, quiet, status, clock
        self._began = self._status_at = self._moved_at = clock()
        self._plain_at = self._began + (PLAIN_EVERY_S if counted else 0.0)
        self._share = 0.0
        self._shown: CampaignCounts | Moment | None = None
        self._bar: Bar | None = None
        if not quiet and color and err.isatty():
            self._bar = _bar(err, counted=counted)
            self._task = self._bar.add_task(what, total=None, note="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, counts: CampaignCounts | Moment, *, last: bool = False) -> None:
        """The newest counts; `last` shows them in any case."""
        now = self._clock()
        elapsed = now - self._began
        if counts.share != self._share:
            self._share, self._moved_at = counts.share, now
        if self._status is not None and (last or now >= self._status_at):
            self._status_at = now + STATUS_EVERY_S
            form: Json = {"elapsed_s": round(elapsed, 3), "what": self._what, **counts.status(elapsed)}
            self._status.write(canonical(form) + "\n")
            self._status.flush()
        first, note, left = counts.words(elapsed, now - self._moved_at, last=last)
        if not self._drawn(*counts.bar, note + left) and (now >= self._plain_at or last and counts != self._shown):
            self._plain_at, self._shown = now + PLAIN_EVERY_S, counts
            self.say(f"{self._what}: {first}{note}, {elapsed:.0f} s{left}")

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
