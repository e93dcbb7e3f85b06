# SPDX-License-Identifier: MIT
"""Insert many rows by few statements: each statement costs SQLite about as much as a row does."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

# Rows of a statement: 40 of 26 columns are 1040 values, and SQLite takes 32 766. More rows gain nothing.
TOGETHER = 40


class Insertion(NamedTuple):
    """What goes into which columns of a table; `clause`: what follows the values."""

    table: str
    columns: tuple[str, ...]
    clause: str = ""


@cache
def statement(into: Insertion, number: int) -> str:
    """Return the statement that inserts so many rows."""
    row = f"({', '.join('?' * len(into.columns))})"
    head = f"INSERT INTO {into.table} ({', '.join(into.columns)}) VALUES"
    return f"{head} {', '.join([row] * number)} {into.clause}".rstrip()


def insert_rows(connection: sqlite3.Connection, into: Insertion, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows in their order, within the caller's transaction. Errors: `sqlite3.Error`."""
    insert_values(connection, into, list(chain.from_iterable(rows)))


def insert_values(connection: sqlite3.Connection, into: Insertion, values: Sequence[Any]) -> None:
    """Insert rows whose values stand in one list, within the caller's transaction. Errors: `sqlite3.Error`."""
    width = len(into.columns)
    together = TOGETHER * width
    whole = len(values) - len(values) % together
    connection.executemany(statement(into, TOGETHER), (values[at : at + together] for at in range(0, whole, together)))
    rest = range(whole, len(values), width)
    connection.executemany(statement(into, 1), (values[at : at + width] for at in rest))
