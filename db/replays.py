# SPDX-License-Identifier: MIT
"""Replays under way as SQL: how each was begun, which parts are done with what they found, where the next one stands.

One call is one transaction: after `kill -9` a replay goes on from the last state that was kept, or part that was done.
"""

from __future__ import annotations

from typing import NamedTuple

from configtron.db.connection import Database
from configtron.model.errors import BadInput


class ReplayRow(NamedTuple):
    """One replay as kept; `config` is the JSON it was begun with, `state` the part under way, "" at its beginning."""

    id: int
    begun_at: str
    finished_at: str
    status: str
    version: str
    config: str
    state: str
    parts: int


REPLAY_ROW = "id, begun_at, coalesce(finished_at, ''), status, version, config"


class Replays(Database):
    """The database as replays see it."""

    def begin(self, config: str) -> int:
        """Keep a replay with its whole configuration (JSON). Returns its number."""
        return self._begin_job("replay", config=config)

    def replay(self, number: int | None = None) -> ReplayRow:
        """Return the replay of that number, or the latest that is not done. Errors: `BadInput` if there is none."""
        where = "id = ?" if number is not None else "status <> 'done' AND ? IS NULL"
        count = "(SELECT count(*) FROM replay_part WHERE replay = replay.id)"
        query = f"SELECT {REPLAY_ROW}, state, {count} FROM replay WHERE {where} ORDER BY id DESC LIMIT 1"
        row = self._row(query, number)
        if row is None:
            which = "to go on with" if number is None else f"of number {number}"
            raise BadInput(f"no replay {which} in {self.path}; begin one: configtron replay sessions")
        return ReplayRow(*row)

    def keep(self, number: int, state: str) -> None:
        """Keep where the part under way stands."""
        self._write("UPDATE replay SET state = ? WHERE id = ?", state, number)

    def part(self, number: int, position: int, found: str) -> None:
        """Keep what a part found (JSON); the next one is at its beginning."""
        with self._clear(), self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO replay_part VALUES (?, ?, ?)", (number, position, found))
            self._connection.execute("UPDATE replay SET state = '' WHERE id = ?", (number,))

    def found(self, number: int) -> dict[int, str]:
        """Return the results of the parts that are done, by position."""
        query = "SELECT position, found FROM replay_part WHERE replay = ? ORDER BY position"
        return dict(self._read(query, number))

    def finish(self, number: int, status: str) -> None:
        """Say how it ended: done, interrupted."""
        self._finish_job("replay", number, status)
