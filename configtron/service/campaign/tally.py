# SPDX-License-Identifier: MIT
"""Counts of a run, made as its results are stored, and reported as progress events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from configtron.db.store import Store
from configtron.fingerprint.merge import merge
from configtron.model.nouns import Observation
from configtron.model.records import Result
from configtron.probe.wire.replay import UNSENDABLE
from configtron.report.progress import CampaignCounts
from configtron.service.progress import Cancelled, Event, Progress, never

LOG = logging.getLogger("configtron.probe")
# Results stored at once, and how long one waits for others, s: less than a hundredth of a second of work, and so few
# transactions that workers seldom wait for the database's lock.
BATCH, BATCH_S = 64, 0.25
# Endings of a connection without an answer; a port that is closed answers with a reset.
UNANSWERED = ("no-synack", "no-data", UNSENDABLE)
# s; a name server answers in tens of milliseconds, and is asked again after two seconds.
SILENT_S = 4.0
NO_NAMES = "no name server (DNS, /etc/resolv.conf) answers yet; without the Internet, probe the lab: --lab"
# Targets (times vantages) from which on a run shows its first verdict: fewer end within a minute.
LONG = 100


@dataclass(frozen=True, slots=True)
class RunProgress(Event):
    """A moment of a run: `done` of `total` targets (times vantages).

    calls   connections made
    failed  those of them without answer
    steps   about how many connections there will be; 0: unknown
    last    whether the run has ended
    """

    calls: int = 0
    failed: int = 0
    steps: int = 0
    last: bool = False

    def counts(self) -> CampaignCounts:
        """Return the counts that a progress bar shows."""
        return CampaignCounts(self.total, self.done, self.calls, self.failed, self.steps)


class RunTally:
    """Store results of a run, count them, report the counts; between two batches, ask for cancellation."""

    def __init__(
        self,
        total: int,
        store: Store,
        run: int,
        progress: Progress,
        calls_each: int = 0,
        cancelled: Cancelled = never,
        clock: Callable[[], float] = time.monotonic,
        silent_s: float = SILENT_S,
    ) -> None:
        """`calls_each`: about how many connections a target will see; 0: unknown. `silent_s`: how long no result may
        come before that is worth a notice."""
        self._total, self._store, self._run, self._progress = total, store, run, progress
        self._steps, self._cancelled = total * calls_each, cancelled
        self._calls = self._failed = self._ended = 0
        # When the notice of silence is due, unless a result came before.
        self._clock, self._silent_until = clock, clock() + silent_s
        # Windows read of each target and vantage, until the first verdict.
        self._windows: dict[tuple[str, str], list[Observation]] | None = {} if total >= LONG else None

    def keep(self, results: list[Result]) -> None:
        """Store and count a batch of results, perhaps empty. Errors: `KeyboardInterrupt` if cancelled."""
        self.store(results)
        if self._clock() >= self._silent_until:
            # not even a name was looked up
            self._silent_until = inf
            self._progress(Event(0, 0, NO_NAMES))
        if self._cancelled():
            raise KeyboardInterrupt

    def store(self, results: list[Result]) -> None:
        """Store and count a batch of results."""
        if results:
            self._store.record(self._run, results)
            self._silent_until = inf
        for result in results:
            LOG.debug("%s: %s", result.trace_id, result.ending)
        self._calls += sum(1 for result in results if result.frames)
        self._failed += sum(1 for result in results if result.ending.startswith(UNANSWERED))
        self.report()
        self._show_first(results)

    def stored(self, vantage: str, sites: Sequence[str]) -> Iterable[Result]:
        """Return the results of sites from a vantage."""
        return self._store.results_of(self._run, vantage, sites)

    def _show_first(self, results: list[Result]) -> None:
        """Report the first initial window that trials agree on: no target has ended by then."""
        if (windows := self._windows) is None:
            return
        for result in results:
            read = windows.setdefault((result.site, result.vantage), [])
            read += [one for one in result.observations if one.knob == "icw"]
            if read and (verdict := merge(read)).grade in "AB":
                self._windows = None
                about = f"{result.site} from {result.vantage}: icw {verdict.text} {verdict.unit}, grade {verdict.grade}"
                self._progress(Event(0, 0, f"first verdict: {about}"))
                return

    def ended(self, sessions: int) -> None:
        """Count so many targets (times vantages) as finished."""
        self._ended = sessions
        self.report()

    @property
    def done_text(self) -> str:
        """Return how many targets (times vantages) are finished, in words."""
        return f"{self._ended} of {self._total} done"

    def report(self, *, last: bool = False) -> None:
        """Report the counts; `last`: the run has ended."""
        counts = (self._calls, self._failed, self._steps)
        self._progress(RunProgress(self._ended, self._total, f"run {self._run}", *counts, last))


class ResultBatches:
    """Results gathered for the database, whose transactions have a price; the journal has each result at once."""

    def __init__(self, keep: Callable[[list[Result]], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._keep, self._clock, self._batch, self._kept_s = keep, clock, list[Result](), clock()

    def take(self, results: Sequence[Result]) -> None:
        """Keep results, now or soon; without any, those that have waited."""
        self._batch += results
        if len(self._batch) >= BATCH or self._clock() - self._kept_s >= BATCH_S:
            self.flush()

    def flush(self) -> None:
        """Keep what waits."""
        batch, self._batch, self._kept_s = self._batch, [], self._clock()
        self._keep(batch)
