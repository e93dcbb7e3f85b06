# SPDX-License-Identifier: MIT
"""Counts of a run, kept as its results are."""

from __future__ import annotations

import logging

from configtron.db.store import Store
from configtron.model.records import Result
from configtron.report.progress import CampaignCounts, Progress

LOG = logging.getLogger("configtron.probe")


class Tally:
    """Counts of a run, from the results as they come."""

    def __init__(self, total: int, store: Store, run: int, progress: Progress, calls_each: int = 0) -> None:
        """`calls_each`: about how many connections a target will see; 0: nobody knows."""
        self._total, self._store, self._run, self._progress = total, store, run, progress
        self._steps = total * calls_each
        self._calls = self._failed = self._ended = 0

    def keep(self, results: list[Result]) -> None:
        """A batch of results, perhaps empty: into the database, and counted."""
        if results:
            self._store.record(self._run, results)
        for result in results:
            LOG.debug("%s: %s", result.trace_id, result.ending)
        self._calls += sum(1 for result in results if result.frames)
        # A target that may not be probed has a result, and no connection that could have an answer.
        self._failed += sum(1 for result in results if result.frames and result.ending != "done")
        self._show()

    def ended(self, journeys: int) -> None:
        """So many targets (times vantages) are finished."""
        self._ended = journeys
        self._show()

    def _show(self) -> None:
        self._progress.update(self._counts())

    def last(self) -> None:
        """Show the final counts."""
        self._progress.update(self._counts(), last=True)

    def _counts(self) -> CampaignCounts:
        return CampaignCounts(self._total, self._ended, self._calls, self._failed, self._steps)
