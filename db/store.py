# SPDX-License-Identifier: MIT
"""Runs and watches as SQL: with `tuning.py` all that speak it, but for `schema.py`, which makes the tables.

One `record()` is one transaction: after `kill -9` at any moment the database holds every batch whose `record()`
returned, and none by half. Write-ahead log with synchronous=NORMAL: readers never wait; a power cut (not a kill) may
lose the last transactions, never the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from configtron.db.connection import Database
from configtron.db.rows import (
    CONTEXT_COLUMNS,
    OBSERVATION_COLUMNS,
    TRACE_COLUMNS,
    context_row,
    observation_row,
    result_of,
    sighting_of,
    trace_row,
)
from configtron.fingerprint.features import Sighting
from configtron.model.errors import BadInput
from configtron.model.nouns import Observation
from configtron.model.records import Result

INSERT_TRACE = (
    f"INSERT INTO trace (run, {', '.join(TRACE_COLUMNS)}) VALUES (?{', ?' * len(TRACE_COLUMNS)})"
    " ON CONFLICT (run, trace_id) DO NOTHING"
)
INSERT_OBSERVATION = (
    f"INSERT INTO observation (trace, {', '.join(OBSERVATION_COLUMNS)}) VALUES (?{', ?' * len(OBSERVATION_COLUMNS)})"
)
INSERT_CONTEXT = f"INSERT INTO context (watch, {', '.join(CONTEXT_COLUMNS)}) VALUES (?{', ?' * len(CONTEXT_COLUMNS)})"
SELECT_CONTEXTS = f"SELECT {', '.join(CONTEXT_COLUMNS)} FROM context WHERE watch = ? ORDER BY at_ns, rowid"
SELECT_RESULTS = (
    f"SELECT trace.id, {', '.join(TRACE_COLUMNS)}, {', '.join('observation.' + name for name in OBSERVATION_COLUMNS)}"
    " FROM trace LEFT JOIN observation ON observation.trace = trace.id"
    " WHERE run = ? ORDER BY site, vantage, trace_id, trace.id, position"
)
SELECT_OF_FILE = SELECT_RESULTS.replace(
    "WHERE run = ?", "WHERE run = ? AND (evidence_file = ? OR frames = 0 AND vantage = ?)"
)


class Run(NamedTuple):
    """One run as kept; `config` is the JSON it was begun with."""

    id: int
    begun_at: str
    finished_at: str
    status: str
    version: str
    config: str
    traces: int


class LiveFingerprint(NamedTuple):
    """One look at local connections as kept; `config` and `counts` are JSON."""

    id: int
    begun_at: str
    finished_at: str
    status: str
    version: str
    source: str
    config: str
    counts: str
    contexts: int


class Store(Database):
    """The database as runs and watches see it."""

    def begin_run(self, config: str) -> int:
        """Keep a run with its whole configuration (JSON). Returns its number."""
        return self._begin_job("run", config=config)

    def resume_run(self, run: int) -> Run:
        """Mark a run as running again."""
        found = self.run(run)
        self._resume_job("run", run)
        return found

    def finish_run(self, run: int, status: str) -> None:
        """Say how a run ended: done, partial, interrupted, failed."""
        self._finish_job("run", run, status)

    def record(self, run: int, results: Sequence[Result]) -> int:
        """Keep results, all or none. A trace that is already kept stays as it is. Returns how many were new."""
        with self._clear(), self._transaction():
            return sum(self._record_one(run, result) for result in results)

    def _record_one(self, run: int, result: Result) -> bool:
        cursor = self._connection.execute(INSERT_TRACE, (run, *trace_row(result)))
        if cursor.rowcount == 0:
            return False
        trace = cursor.lastrowid
        self._connection.executemany(
            INSERT_OBSERVATION, [(trace, n, *observation_row(o)) for n, o in enumerate(result.observations)]
        )
        return True

    def runs(self) -> tuple[Run, ...]:
        """Return all runs, oldest first."""
        return tuple(Run(*row) for row in self._read(SELECT_RUNS))

    def run(self, number: int) -> Run:
        """Return the run of that number."""
        for found in self.runs():
            if found.id == number:
                return found
        raise BadInput(f"run {number}: not in {self.path}; `configtron probe show` lists the runs")

    def first_trace(self, run: int) -> tuple[str, int]:
        """Return the name and beginning (ns) of the run's trace that was stored first; ("", 0) without any."""
        query = "SELECT trace_id, started_at FROM trace WHERE run = ? ORDER BY id LIMIT 1"
        row: tuple[str, int] | None = self._row(query, run)
        return row or ("", 0)

    def evidence_files(self, run: int) -> list[str]:
        """Return the names of the files that a run's packets are in."""
        query = "SELECT DISTINCT evidence_file FROM trace WHERE run = ? AND frames > 0 ORDER BY evidence_file"
        return [name for (name,) in self._read(query, run)]

    def results(self, run: int, file: str = "", vantage: str = "") -> Iterator[Result]:
        """A run's results, ordered by site, vantage, trace; of one file only, and its vantage's without packets."""
        query, named = (SELECT_OF_FILE, (run, file, vantage)) if file else (SELECT_RESULTS, (run,))
        # No `closing`: a reader may stop half-way, and be collected after the connection is closed.
        with self._clear():
            rows = self._connection.execute(query, named)
            for _, group in groupby(rows, key=itemgetter(0)):
                yield result_of([row[1:] for row in group])

    def results_of(self, run: int, vantage: str, sites: Sequence[str]) -> list[Result]:
        """Return a run's results on some sites from one vantage."""
        marks = ", ".join("?" * len(sites))
        query = SELECT_RESULTS.replace("WHERE run = ?", f"WHERE run = ? AND vantage = ? AND site IN ({marks})")
        with self._clear():
            rows = self._connection.execute(query, (run, vantage, *sites))
            return [result_of([row[1:] for row in group]) for _, group in groupby(rows, key=itemgetter(0))]

    def done(self, run: int) -> dict[str, tuple[Observation, ...]]:
        """Return the observations that need no new trial, by trace id."""
        return {result.trace_id: result.observations for result in self.results(run)}

    def begin_watch(self, source: str, config: str) -> int:
        """Keep that local connections are being looked at ("live", "socket"), and how (JSON). Returns its number."""
        return self._begin_job("watch", source=source, config=config)

    def record_contexts(self, watch: int, seen: Sequence[Sighting]) -> None:
        """Keep what was seen, all or none."""
        with self._clear(), self._transaction():
            self._connection.executemany(INSERT_CONTEXT, [(watch, *context_row(one)) for one in seen])

    def has_context(self, seen: Sighting) -> bool:
        """Return whether a watch keeps that sighting."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM watch CROSS JOIN context ON context.watch = watch.id"
            " AND at_ns BETWEEN ? AND ? WHERE local_port = ? AND prefix = ? AND bytes_out = ?)"
        )
        with self._clear():
            # lines have dates as floating point, which differ from the kept ones by a quarter of a microsecond
            row = (seen.at_ns - 1000, seen.at_ns + 1000, seen.local_port, seen.context.prefix, seen.bytes_out)
            return bool(self._connection.execute(query, row).fetchone()[0])

    def finish_watch(self, watch: int, status: str, counts: str) -> None:
        """Say how a watch ended (done, interrupted, failed), and what was read and lost (JSON)."""
        self._finish_job("watch", watch, status, counts=counts)

    def watches(self) -> tuple[LiveFingerprint, ...]:
        """Return all watches, oldest first."""
        return tuple(LiveFingerprint(*row) for row in self._read(SELECT_WATCHES))

    def contexts(self, watch: LiveFingerprint) -> Iterator[Sighting]:
        """Return the contexts of a watch, in order of time."""
        with self._clear():
            for row in self._connection.execute(SELECT_CONTEXTS, (watch.id,)):
                yield sighting_of(watch.source, row)


SELECT_RUNS = """
    SELECT id, begun_at, coalesce(finished_at, ''), status, version, config,
           (SELECT count(*) FROM trace WHERE trace.run = run.id AND trace.frames > 0)
    FROM run ORDER BY id
"""

SELECT_WATCHES = """
    SELECT id, begun_at, coalesce(finished_at, ''), status, version, source, config, counts,
           (SELECT count(*) FROM context WHERE context.watch = watch.id)
    FROM watch ORDER BY id
"""
