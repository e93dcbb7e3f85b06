# SPDX-License-Identifier: MIT
"""An agent's spool as a file: encoded outcomes that wait for their manager's receipt, within a bound.

It is a database of its own, as the process that has it may not open the one of the root applier. Rows that `append`
took stay until they are forgotten, or until the bound makes the oldest batch go, whole and counted. A full disk refuses
new rows, counted too, and loses none that were taken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from configtron.db.connection import NO_ROOM
from configtron.db.private import folder_made, owned
from configtron.model.errors import BadInput, ConfigtronError, Unwritten, cannot_write

# Of the file; a later one is refused.
SPOOL_VERSION = 1
SPOOL_TABLES = (
    "CREATE TABLE IF NOT EXISTS batch (id INTEGER PRIMARY KEY AUTOINCREMENT, boot TEXT NOT NULL,"
    " first INTEGER NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL) STRICT",
    # Which batches a receipt covers is found without reading the others.
    "CREATE INDEX IF NOT EXISTS batch_first ON batch (boot, first)",
    "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
)
# s; only this process has the file open, but a backup may read it.
PATIENCE_S = 5.0
# What helps, by SQLite's words.
MOVE = "move it away, and a new one is made"
_OWN = "the agent's user must be able to write the folder and all in it: ls -la its folder"
REMEDIES = (("readonly", _OWN), ("unable to open", _OWN), ("locked", "another agent uses this folder; end one of them"))


class SpooledBatch(NamedTuple):
    """Rows `first` to `first + number - 1` of a boot, encoded one after another."""

    boot: str
    first: int
    number: int
    data: bytes


class SpoolFile:
    """An open spool. Errors of opening it: `BadInput`, `Unwritten`.

    most_bytes   of encoded rows
    dropped      rows that were dropped by the bound, or refused by a full disk, since the file was made
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path, self._most = path, most_bytes
        try:
            folder_made(path.parent)
            owned(path)
            self._connection = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
            self._open()
            number, size = self._connection.execute("SELECT sum(number), sum(length(data)) FROM batch").fetchone()
            self.waiting, self._bytes = number or 0, size or 0
            self.dropped = int(self.fact("dropped") or 0)
        except (sqlite3.Error, ValueError) as error:
            raise self._unusable(error) from error
        except OSError as error:
            raise cannot_write(path, error) from error
        self._forgotten: list[tuple[str, int]] = []

    def _open(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, SPOOL_VERSION):
            raise BadInput(f"{self.path}: written by a newer configtron; upgrade configtron")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        for statement in SPOOL_TABLES:
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA user_version = {SPOOL_VERSION}")

    def _unusable(self, error: Exception) -> ConfigtronError:
        """Return the error of a file that is damaged, not this user's, or without room."""
        if any(sign in str(error) for sign in NO_ROOM):
            return Unwritten(f"{self.path}: no room on the disk ({error}); make room: the outcomes in it are kept")
        remedy = next((remedy for sign, remedy in REMEDIES if sign in str(error)), MOVE)
        return BadInput(f"{self.path}: no spool ({error}); {remedy}")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn SQLite's complaints into one line. Errors: `BadInput`, `Unwritten`."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def append(self, batch: SpooledBatch) -> bool:
        """Keep a batch; False: the disk is full, and its rows are counted as dropped. Errors: `BadInput`."""
        if len(batch.data) > self._most:
            return self._refuse(batch.number)
        with self._reading():
            oldest = self._to_drop(len(batch.data))
        return self._exchange(oldest, batch) or self._refuse(batch.number)

    def _exchange(self, gone: Sequence[tuple[int, int, int]], new: SpooledBatch | None = None) -> bool:
        """Delete batches, whose rows count as dropped, and add one; False: the disk is full, and all is as it was.
        gone: their ids, rows and bytes. Errors: `BadInput`."""
        rows = sum(number for _, number, _ in gone)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("DELETE FROM batch WHERE id = ?", ((each,) for each, _, _ in gone))
            if new is not None:
                self._connection.execute("INSERT INTO batch (boot, first, number, data) VALUES (?, ?, ?, ?)", new)
            if gone:
                self._put_fact("dropped", str(self.dropped + rows))
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo(error)
            return False
        self.dropped += rows
        self.waiting += (new.number if new else 0) - rows
        self._bytes += (len(new.data) if new else 0) - sum(size for _, _, size in gone)
        return True

    def _refuse(self, number: int) -> bool:
        self.dropped += number
        return False

    def _to_drop(self, needed: int) -> list[tuple[int, int, int]]:
        """Return (id, rows, bytes) of the oldest batches that make room."""
        found, over = [], self._bytes + needed - self._most
        rows = self._connection.execute("SELECT id, number, length(data) FROM batch ORDER BY id") if over > 0 else ()
        for row in rows:
            if over <= 0:
                break
            found.append(row)
            over -= row[2]
        return found

    def oldest(self, most_rows: int, most_bytes: int) -> SpooledBatch | None:
        """Return the oldest rows, of one boot and in sequence, at most so many; None: there are none. Errors: those of
        opening."""
        self._forget_again()
        with self._reading():
            return self._oldest(most_rows, most_bytes)

    def _oldest(self, most_rows: int, most_bytes: int) -> SpooledBatch | None:
        found: SpooledBatch | None = None
        parts: list[bytes] = []
        size = 0
        for row in self._connection.execute("SELECT boot, first, number, data FROM batch ORDER BY id"):
            each = SpooledBatch(*row)
            if (each.boot, each.first + each.number - 1) in self._forgotten:
                continue
            if found is None:
                found = each
            elif (each.boot, each.first) != (found.boot, found.first + found.number):
                break
            elif found.number + each.number > most_rows or size + len(each.data) > most_bytes:
                break
            else:
                found = found._replace(number=found.number + each.number)
            parts.append(each.data)
            size += len(each.data)
        return found._replace(data=b"".join(parts)) if found else None

    def forget(self, boot: str, through: int) -> None:
        """Delete the batches of a boot that end by that number; on a full disk, later."""
        self._forgotten.append((boot, through))
        self._forget_again()

    def drop(self, boot: str, through: int, is_damaged: Callable[[SpooledBatch], bool]) -> int:
        """Drop the batches of a boot that end by a number and are damaged; return how many rows, counted as dropped. On
        a full disk none is. Errors: `BadInput`."""
        where = "WHERE boot = ?1 AND first <= ?2 AND first + number - 1 <= ?2"
        with self._reading():
            found = [(row[0], SpooledBatch(*row[1:])) for row in self._connection.execute(
                f"SELECT id, boot, first, number, data FROM batch {where}", (boot, through))]  # fmt: skip
        bad = [(number, one.number, len(one.data)) for number, one in found if is_damaged(one)]
        return sum(number for _, number, _ in bad) if self._exchange(bad) else 0

    def _forget_again(self) -> None:
        while self._forgotten:
            boot, through = self._forgotten[0]
            where = "FROM batch WHERE boot = ?1 AND first <= ?2 AND first + number - 1 <= ?2"
            try:
                number, size = self._connection.execute(
                    f"SELECT coalesce(sum(number), 0), coalesce(sum(length(data)), 0) {where}", (boot, through)
                ).fetchone()
                self._connection.execute(f"DELETE {where}", (boot, through))
            except sqlite3.Error as error:
                self._undo(error)
                return
            self.waiting -= number
            self._bytes -= size
            del self._forgotten[0]

    def fact(self, name: str) -> str:
        """Return what was remembered under that name; "": nothing."""
        with self._reading():
            row = self._connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return row[0] if row else ""

    def remember(self, name: str, value: str) -> None:
        """Keep a text under a name. On a full disk nothing is kept, and nothing is lost."""
        try:
            self._put_fact(name, value)
        except sqlite3.Error as error:
            self._undo(error)

    def _put_fact(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))

    def _undo(self, error: sqlite3.Error) -> None:
        """Leave a failed transaction. Errors: `BadInput` for what is no want of room."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        if not any(sign in str(error) for sign in NO_ROOM):
            raise self._unusable(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
