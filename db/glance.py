# SPDX-License-Identifier: MIT
"""A look at what tuning keeps that leaves no trace in the file system: for `plan`, `status`, and keepers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from configtron.db.schema import VERSION
from configtron.db.tuning import Tuning
from configtron.model.errors import BadInput

T = TypeVar("T")


def glance(path: Path, look: Callable[[Tuning], T]) -> T:
    """Look at a database without leaving a trace in the file system; one that is not there, or never tuned, is empty.

    A file without a log is read as it stands, so it is read again if somebody wrote meanwhile.
    """
    while True:
        before = _stamp(path)
        with _opened(path) as tuning:
            seen = look(tuning)
        if _stamp(path) == before:
            return seen


def _opened(path: Path) -> Tuning:
    if not path.is_file():
        return Nothing(path)
    try:
        return Tuning(path, traceless=True)
    except BadInput:
        # Of an older schema there is nothing to see: whoever tunes brings it up to date.
        if 0 < _version(path) < VERSION:
            return Nothing(path)
        raise


def _version(path: Path) -> int:
    # In the file's header (sqlite.org/fileformat.html section 1.3): big-endian, at byte 60.
    with path.open("rb") as file:
        return int.from_bytes(file.read(64)[60:], "big")


class Nothing(Tuning):
    """The database of somebody who has never tuned: empty, and in memory."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)

    def _connect(self, manner: str) -> sqlite3.Connection:
        return sqlite3.connect(":memory:", isolation_level=None)


def _stamp(path: Path) -> tuple[int, ...]:
    """What differs once a file without a log was written to; with a log, readers see one state of it."""
    log = path.with_name(path.name + "-wal")
    if not path.exists() or (log.exists() and log.stat().st_size):
        return ()
    return (path.stat().st_size, path.stat().st_mtime_ns)
