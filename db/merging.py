# SPDX-License-Identifier: MIT
"""Runs of other databases, kept in this one under numbers of its own."""

from __future__ import annotations

from configtron.db.store import Run, Store


class MergedRuns(Store):
    """The database as a merge sees it."""

    def add_run(self, run: Run, config: str) -> int:
        """Keep a run that began elsewhere, with that configuration, as running. Returns its number."""
        return self._begin_job("run", begun_at=run.begun_at, version=run.version, config=config)

    def set_config(self, number: int, config: str) -> None:
        """Replace the configuration of a run."""
        self._write("UPDATE run SET config = ? WHERE id = ?", config, number)

    def end_run(self, number: int, run: Run) -> None:
        """Give a run the end that it had elsewhere."""
        self._finish_job("run", number, run.status, finished_at=run.finished_at or None)
