# SPDX-License-Identifier: MIT
"""A database file is made, brought up to date, or refused: `schema.sql` and the numbered files of `migrations/`.

Whatever is done is done whole: a script and the version it makes are one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from configtron.model.errors import BadInput

HERE = Path(__file__).resolve().parent
# What schema.sql makes. A database with a higher number was written by a newer configtron.
VERSION = 14


def bring_up(connection: sqlite3.Connection, path: Path, *, read_only: bool, traceless: bool = False) -> None:
    """Make or migrate the schema; refuse what a newer configtron wrote."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise BadInput(
            f"{path}: written by a newer configtron (schema {version}, this one knows {VERSION}); upgrade configtron"
        )
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
        raise BadInput(f"{path}: a database of another program; name another file by `--db FILE`")
    if read_only:
        if version == 0:
            raise BadInput(f"{path}: an empty file; `configtron probe` fills it, `--db FILE` names another")
        if version < VERSION and traceless:
            raise BadInput(
                f"{path}: an older schema ({version}), and this command writes nothing;"
                " any command that may write brings it up to date: `configtron probe show`"
            )
        if version < VERSION:
            _bring_up_first(path, version)
        return
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if version == 0:
        apply(connection, (HERE / "schema.sql").read_text(), VERSION)
    elif version < VERSION:
        migrate(connection, HERE / "migrations", VERSION)


def _bring_up_first(path: Path, version: int) -> None:
    """Bring an older configtron's schema up to date first, so that its rows can be read."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            bring_up(writer, path, read_only=False)
    except sqlite3.OperationalError as error:
        if "readonly" not in str(error) and "unable to open" not in str(error):
            raise
        raise BadInput(
            f"{path}: an older schema ({version}), which cannot be brought up to date here ({error});"
            " copy the file to where it can be written, and name the copy by `--db FILE`"
        ) from error


def migrate(connection: sqlite3.Connection, folder: Path, version: int) -> None:
    """Apply the numbered files above the database's own version, up to `version`."""
    (current,) = connection.execute("PRAGMA user_version").fetchone()
    files = {int(path.name[:4]): path for path in folder.glob("[0-9][0-9][0-9][0-9]_*.sql")}
    for number in range(current + 1, version + 1):
        apply(connection, files[number].read_text(), number)


def apply(connection: sqlite3.Connection, script: str, version: int) -> None:
    """Run a script and set the version, both or neither. If another process was faster, do nothing."""
    connection.execute("BEGIN EXCLUSIVE")
    (current,) = connection.execute("PRAGMA user_version").fetchone()
    if current >= version:
        connection.execute("ROLLBACK")
        return
    try:
        for statement in statements(script):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version:d}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script one by one, since `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
