# SPDX-License-Identifier: MIT
"""Ended connections, and the classifiers of them, as SQL: columns in, columns out. One call is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from configtron.db.connection import Database
from configtron.learner.initial.end_states import NAMES, TEXTS, TRUTHS, EndStates

INSERT_END_STATE = f"INSERT OR IGNORE INTO end_state ({', '.join(NAMES)}) VALUES (?{', ?' * (len(NAMES) - 1)})"
SELECT_END_STATES = f"SELECT {', '.join(NAMES)} FROM end_state ORDER BY at_s, id"

# The latest of each prefix, among so many times the rows that are wanted.
LOOKED_THROUGH = 4
SELECT_LATEST = (
    f"SELECT {', '.join(NAMES)} FROM end_state WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY"
    " prefix ORDER BY id DESC) AS place FROM (SELECT id, prefix FROM end_state ORDER BY id DESC LIMIT ?))"
    " WHERE place <= ? ORDER BY id DESC LIMIT ?) ORDER BY at_s"
)


class EndStateRows(Database):
    """The database as classifiers of end states see it."""

    def add(self, states: EndStates) -> int:
        """Keep connections, each once; return how many are new. Rows are `checked`."""
        rows = end_state_values(states)
        with self._clear(), self._transaction():
            before = self._count()
            self._connection.executemany(INSERT_END_STATE, rows)
            return self._count() - before

    def _count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM end_state").fetchone()[0])

    def every(self) -> EndStates:
        """Return all connections, in order of their beginning."""
        rows = self._read(SELECT_END_STATES)
        return _states(rows)

    def latest(self, most: int, of_prefix: int) -> EndStates:
        """Return the latest connections that were added, so many of a prefix at most, in order of their beginning."""
        asked = (LOOKED_THROUGH * most, of_prefix, most)
        rows = self._read(SELECT_LATEST, *asked)
        return _states(rows)

    def save_models(self, states: dict[str, str], learned: int) -> None:
        """Keep classifiers by name, in place of all earlier ones; learned: connections."""
        now = self._now()
        with self._clear(), self._transaction():
            self._connection.execute("DELETE FROM initial_model")
            rows = [(name, now, learned, state) for name, state in states.items()]
            self._connection.executemany("INSERT INTO initial_model VALUES (?, ?, ?, ?)", rows)

    def models(self) -> dict[str, str]:
        """Return the state of each classifier by name; none where nothing was learned."""
        return dict(self._read("SELECT name, state FROM initial_model"))


def end_state_values(states: EndStates) -> list[tuple[object, ...]]:
    """Return rows as `INSERT_END_STATE` takes them."""
    return list(zip(*(_values(states, name) for name in NAMES), strict=True))


def _values(states: EndStates, name: str) -> list[object]:
    column = getattr(states, name)
    if name in TEXTS or name in TRUTHS:
        return column.tolist()  # type: ignore[no-any-return]
    return [None if unknown else value for value, unknown in zip(column.tolist(), np.isnan(column), strict=True)]


def _states(rows: Sequence[tuple[object, ...]]) -> EndStates:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(NAMES)
    return EndStates(**{name: _column(name, values) for name, values in zip(NAMES, columns, strict=True)})


def _column(name: str, values: tuple[object, ...]) -> Any:
    kind = np.str_ if name in TEXTS else np.bool_ if name in TRUTHS else np.float64
    return np.array(values, dtype=kind)
