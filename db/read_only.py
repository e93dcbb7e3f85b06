# SPDX-License-Identifier: MIT
"""A read-only connection to what tuning keeps that leaves no trace in the file system: `plan`, `status`, watchdogs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from configtron.db.tuning import Tuning
from configtron.model.bounds import check_text
from configtron.model.errors import BadInput

T = TypeVar("T")
# The schema that first had a journal: an older database was never tuned. A later one may have rules in force.
FIRST_TUNED = 3


def read_only(path: Path, read: Callable[[Tuning], T]) -> T:
    """Return what `read` finds in a database; one that is absent, or never tuned, is empty. Errors: `BadInput`.

    A file without a log is read as it stands, so it is read again if another process wrote meanwhile.
    """
    check_text("database", path)
    while True:
        before = _stamp(path)
        with _opened(path) as tuning:
            found = read(tuning)
        if _stamp(path) == before:
            return found


def _opened(path: Path) -> Tuning:
    if not path.is_file():
        return EmptyTuning(path)
    try:
        return Tuning(path, traceless=True)
    except BadInput:
        if 0 < _version(path) < FIRST_TUNED:
            return EmptyTuning(path)
        raise


def _version(path: Path) -> int:
    # In the file's header (sqlite.org/fileformat.html section 1.3): big-endian, at byte 60.
    with path.open("rb") as file:
        return int.from_bytes(file.read(64)[60:], "big")


class EmptyTuning(Tuning):
    """A database in memory, without rules, journal or frozen scopes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)

    def _connect(self, manner: str) -> sqlite3.Connection:
        return sqlite3.connect(":memory:", isolation_level=None)


def _stamp(path: Path) -> tuple[int, ...]:
    """Return a value that differs once a file without a log was written; with a log, readers see one state of it."""
    log = path.with_name(path.name + "-wal")
    if not path.exists() or (log.exists() and log.stat().st_size):
        return ()
    return (path.stat().st_size, path.stat().st_mtime_ns)
