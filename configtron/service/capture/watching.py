# SPDX-License-Identifier: MIT
"""A watch of local connections, from its start to its end: where sightings go, and when it is over."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from configtron.db.store import LiveFingerprint, Store
from configtron.fingerprint.features import Sighting
from configtron.model.bounds import check_text
from configtron.model.errors import BadInput, ConfigtronError
from configtron.model.records import Json, canonical
from configtron.report.contexts import closing
from configtron.service.progress import Cancelled, Event, Progress, never, unheard

# How long a wait may last before a cancellation is noticed.
TURN_S = 0.25
DONE, INTERRUPTED, FAILED = "done", "interrupted", "failed"
# Described by `configtron/report/watches.schema.json`.
WATCHES_SCHEMA = "configtron.watches/1"
WATCHES_COLUMNS = ("watch", "begun", "source", "status", "contexts")
Sink = Callable[[Sequence[Sighting]], None]


@dataclass(frozen=True, slots=True)
class WatchProgress(Event):
    """A moment of a watch: `done` connections reported, `total` with those still open.

    number     of the watch in the database
    source     "live" or "socket"
    counts     what was read and lost, by name
    elapsed_s  since the watch began
    last       whether the watch has ended
    """

    number: int = 0
    source: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    elapsed_s: float = 0.0
    last: bool = False

    @property
    def open(self) -> int:
        """Return how many connections are open."""
        return self.total - self.done

    def closing(self) -> dict[str, Json]:
        """Return the last line of the watch's JSON Lines."""
        return closing(self.number, self.source, self.elapsed_s, self.counts)


@dataclass(frozen=True, slots=True)
class WatchResult:
    """A watch that has ended: its number in the database, its status, and its counts."""

    number: int
    status: str
    counts: Mapping[str, int]

    @property
    def cancelled(self) -> bool:
        """Return whether the watch was ended by its caller."""
        return self.status == INTERRUPTED


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a watch stores and reports.

    ready   called once the packets or sockets can be read, before the watch is stored
    sink    gets sightings once they are stored
    """

    db: Path
    ready: Callable[[], None] = lambda: None
    sink: Sink = lambda seen: None
    progress: Progress = unheard
    cancelled: Cancelled = never


class ContextWatch:
    """One watch: it stores sightings, reports them, and knows when it is over."""

    def __init__(self, source: str, what: str, span_s: float | None, config: str, store: Store, to: Outputs) -> None:
        self._source, self._what, self._span_s = source, what, span_s
        self._store, self._to = store, to
        self.counts: Counter[str] = Counter()
        self._cancelled = False
        self.status = DONE
        self._began = time.monotonic()
        self.number = store.begin_watch(source, config)

    def over(self) -> bool:
        """Return whether it is time to stop."""
        self._cancelled = self._cancelled or self._to.cancelled()
        return self._cancelled or (self._span_s is not None and self.elapsed_s >= self._span_s)

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the watch began."""
        return time.monotonic() - self._began

    def wait_s(self, until_s: float) -> float:
        """Return how long to wait at most for input before that second of the watch."""
        end = until_s if self._span_s is None else min(until_s, self._span_s)
        return min(max(end - self.elapsed_s, 0), TURN_S)

    def keep(self, seen: Sequence[Sighting]) -> None:
        """Store sightings, then report them."""
        if seen:
            self._store.record_contexts(self.number, seen)
            self._to.sink(seen)

    def report(self, going_on: int, *, last: bool = False) -> None:
        """Report the counts. `going_on`: connections that have not been reported."""
        done = self.counts["connections"]
        event = WatchProgress(
            done, done + going_on, self._what, self.number, self._source, dict(self.counts), self.elapsed_s, last
        )
        if last:
            self._store.finish_watch(self.number, self.status, canonical(event.closing()))
        self._to.progress(event)

    def close(self, status: str = "") -> WatchResult:
        """Store and report how the watch ended."""
        self.status = status or (INTERRUPTED if self._cancelled or self._to.cancelled() else DONE)
        self.report(0, last=True)
        return WatchResult(self.number, self.status, dict(self.counts))

    def abandon(self) -> None:
        """Store that the watch was interrupted, without its counts."""
        self._store.finish_watch(self.number, INTERRUPTED, "{}")


@contextmanager
def watching(source: str, what: str, span_s: float | None, config: str, to: Outputs) -> Iterator[ContextWatch]:
    """Begin a watch; if its work fails, close it. The caller closes a watch that ends well."""
    to.ready()
    with Store(to.db) as store:
        watch = ContextWatch(source, what, span_s, config, store, to)
        try:
            watch.report(0)
            yield watch
        except ConfigtronError:
            # What came before the error is kept; the error itself is the caller's.
            with suppress(ConfigtronError):
                watch.close(FAILED)
            raise
        except BaseException:
            with suppress(ConfigtronError):
                watch.abandon()
            raise


def open_watches(db: Path) -> Store:
    """Open the database for reading; a context manager. Errors: `BadInput` if there is none."""
    check_text("database", db)
    if not db.is_file():
        raise BadInput(
            f"{db}: no database here; `configtron fingerprint live` and `socket` make it, `--db FILE` names another"
        )
    return Store(db, read_only=True)


def watch_rows(store: Store) -> list[tuple[int, str, str, str, int]]:
    """Return a row of `WATCHES_COLUMNS` for each watch. A watch that never ended is "unfinished": whether its process
    still runs is unknown."""
    return [
        (one.id, one.begun_at, one.source, "unfinished" if one.status == "running" else one.status, one.contexts)
        for one in store.watches()
    ]


def find_watch(store: Store, number: int) -> LiveFingerprint:
    """Return the watch of that number; -1 is the last one. Errors: `BadInput`."""
    every = store.watches()
    found = every[-1:] if number < 0 else [one for one in every if one.id == number]
    if not found:
        name = "last" if number < 0 else number
        raise BadInput(f"watch {name}: not in {store.path}; `configtron fingerprint contexts` lists them")
    return found[0]
