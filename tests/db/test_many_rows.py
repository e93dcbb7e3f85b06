# SPDX-License-Identifier: MIT
"""Rows by statements of many: all, once, in their order, whatever their number; a clash is dropped alone."""

from __future__ import annotations

import sqlite3

import pytest

from configtron.db.many_rows import TOGETHER, Insertion, insert_rows

INTO = Insertion("row", ("number", "word"), "ON CONFLICT (number) DO NOTHING")


@pytest.mark.parametrize("number", [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 3 * TOGETHER + 2])
def test_each_row_is_inserted_once_in_its_order(number: int) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE row (id INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER UNIQUE, word TEXT)")
    rows = [(7 * at % 1009, f"word {at}") for at in range(number)]
    insert_rows(connection, INTO, rows)
    assert connection.execute("SELECT id, number, word FROM row ORDER BY id").fetchall() == [
        (at, *row) for at, row in enumerate(rows, 1)
    ]


def test_of_a_statement_only_the_row_that_clashes_is_dropped() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE row (number INTEGER UNIQUE, word TEXT)")
    insert_rows(connection, INTO, [(3, "first")])
    insert_rows(connection, INTO, [(at, "second") for at in range(TOGETHER)])
    words = dict(connection.execute("SELECT number, word FROM row"))
    assert len(words) == TOGETHER and words.pop(3) == "first" and set(words.values()) == {"second"}
