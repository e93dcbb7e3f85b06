# SPDX-License-Identifier: MIT
"""Runs of other databases, kept in this one under numbers of its own."""

from __future__ import annotations

from typing import cast

from configtron.db.store import Run, Store


class MergedRuns(Store):
    """The database as a merge sees it."""

    def add_run(self, run: Run, config: str) -> int:
        """Keep a run that began elsewhere, with that configuration, as running. Returns its number."""
        with self._clear():
            cursor = self._connection.execute(
                "INSERT INTO run (begun_at, version, config) VALUES (?, ?, ?)", (run.begun_at, run.version, config)
            )
        return cast(int, cursor.lastrowid)

    def set_config(self, number: int, config: str) -> None:
        """Replace the configuration of a run."""
        with self._clear():
            self._connection.execute("UPDATE run SET config = ? WHERE id = ?", (config, number))

    def end_run(self, number: int, run: Run) -> None:
        """Give a run the end that it had elsewhere."""
        with self._clear():
            self._connection.execute(
                "UPDATE run SET finished_at = ?, status = ? WHERE id = ?",
                (run.finished_at or None, run.status, number),
            )

    def __enter__(self) -> MergedRuns:
        return self
