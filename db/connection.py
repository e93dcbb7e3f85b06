# SPDX-License-Identifier: MIT
"""A database file opened: by its owner, by a reader, or by a reader that must leave no file behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast

from configtron import __version__
from configtron.db.private import folder_made, owned
from configtron.db.schema import bring_up
from configtron.model.bounds import check_text
from configtron.model.errors import BadInput, Busy, ConfigtronError, Unwritten, cannot_write

# Another writer holds the lock for one transaction only, milliseconds; half a minute means that something is wrong.
LOCK_PATIENCE_S = 30.0

# Characters shown of what is no text, a word typed in another encoding say.
SHOWN = 60

# SQLite's words for how to open a file. A reader of a write-ahead log makes or mends files beside it; `TRACELESS`
# does not: with a log, its index is read as it stands; without one, the file itself is all there is to read.
WRITING, READING, TRACELESS, TRACELESS_SETTLED = (
    "mode=rwc", "mode=ro", "mode=ro&readonly_shm=1", "mode=ro&immutable=1",
)  # fmt: skip

# What SQLite says -> what to do about it.
ADVICE = (
    ("not a database", "this is not a database; name another file by `--db FILE`"),
    ("malformed", "the database is damaged; restore a copy, or name another file by `--db FILE`"),
    ("readonly", "the database cannot be written; mend its permissions, or name another file by `--db FILE`"),
    ("unable to open", "cannot be opened; mend the folder's permissions, or name another file by `--db FILE`"),
    ("locked", "another program keeps the database locked; wait for it, or name another file by `--db FILE`"),
    ("full", "no space left on the device; make room, or name another file by `--db FILE`"),
    ("disk I/O error", "the disk cannot be written or read, maybe for want of space; make room, or name another file by"
     " `--db FILE`"),
)  # fmt: skip

# Of these: the disk is full, or fails.
NO_ROOM = ("full", "disk I/O error")
LOCKED = "locked"


class Database:
    """An open database. Made if absent, unless `read_only`; `traceless` is read-only and writes not even a log."""

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        traceless: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        check_text("database", path)
        self.path = path
        self._clock = clock
        read_only = read_only or traceless
        if read_only and not path.is_file():
            raise BadInput(f"{path}: no database here; `configtron probe` makes it, `--db FILE` names another")
        with self._clear():
            self._connection = self._connect(_manner(path, traceless) if read_only else WRITING)
        with self._clear():
            bring_up(self._connection, path, read_only=read_only, traceless=traceless)

    def _connect(self, manner: str) -> sqlite3.Connection:
        if manner == WRITING:
            folder_made(self.path.parent)
            owned(self.path.resolve())
        uri = f"{self.path.resolve().as_uri()}?{manner}"
        connection = sqlite3.connect(uri, uri=True, timeout=LOCK_PATIENCE_S, isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def wait_at_most(self, patience_s: float) -> None:
        """Wait for another program's lock for so long, in place of half a minute; then `Busy`."""
        self._connection.execute(f"PRAGMA busy_timeout = {round(patience_s * 1000)}")

    def outlast_power_cuts(self) -> None:
        """Write each transaction to the disk before it counts as done, not some seconds later."""
        self._connection.execute("PRAGMA synchronous = FULL")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _write(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Execute one statement that writes. Errors: `BadInput`, `Busy`, `Unwritten`."""
        with self._clear():
            return self._connection.execute(statement, values)

    def _read(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a query. Errors: as `_write`."""
        with self._clear():
            return self._connection.execute(query, values).fetchall()

    def _row(self, query: str, *values: object) -> Any:
        """Return the first row of a query; None: there is none. Errors: as `_write`."""
        with self._clear():
            return self._connection.execute(query, values).fetchone()

    def _begin_job(self, table: str, **columns: str) -> int:
        """Add a row of `run`, `watch`, `measurement` or `replay`, which is running from now on; return its number."""
        row = {"begun_at": self._now(), "version": __version__, **columns}
        cursor = self._write(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES (?{', ?' * (len(row) - 1)})", *row.values()
        )
        return cast(int, cursor.lastrowid)

    def _resume_job(self, table: str, number: int) -> None:
        self._write(f"UPDATE {table} SET status = 'running', finished_at = NULL WHERE id = ?", number)

    def _finish_job(self, table: str, number: int, status: str, **columns: str | None) -> None:
        row = {"finished_at": self._now(), "status": status, **columns}
        self._write(
            f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in row)} WHERE id = ?", *row.values(), number
        )

    def _now(self) -> str:
        return self._clock().isoformat(timespec="seconds")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # A full disk may have made SQLite roll back by itself; a second one would hide the reason.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _names_checked(self) -> Iterator[None]:
        """Let a transaction inside write names without a look-up for each row; the caller has checked them all."""
        self._connection.execute("PRAGMA foreign_keys = OFF")
        try:
            yield
        finally:
            self._connection.execute("PRAGMA foreign_keys = ON")

    @contextmanager
    def _clear(self) -> Iterator[None]:
        """SQLite's and the file system's complaints, in one line that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise _kind(str(error))(f"{self.path}: {_advice(str(error))}") from error
        except UnicodeEncodeError as error:
            raise BadInput(f"{error.object[:SHOWN]!r} is no text that can be kept or looked up") from error
        except OSError as error:
            raise cannot_write(self.path, error, "; choose another place by `--db FILE`") from error


def _manner(path: Path, traceless: bool) -> str:
    if not traceless:
        return READING
    log = path.with_name(path.name + "-wal")
    return TRACELESS if log.exists() and log.stat().st_size else TRACELESS_SETTLED


def _kind(complaint: str) -> type[ConfigtronError]:
    if any(sign in complaint for sign in NO_ROOM):
        return Unwritten
    return Busy if LOCKED in complaint else BadInput


def _advice(complaint: str) -> str:
    return next((advice for sign, advice in ADVICE if sign in complaint), f"database error: {complaint}")
