# SPDX-License-Identifier: MIT
"""What open connections had before they were re-tuned, as SQL: written before a socket is."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

from configtron.db.connection import Database
from configtron.model.socket_changes import SocketChange

_PLACE = "boot = ? AND driver = ? AND place = ? AND space = ?"


class RetunedPlace(NamedTuple):
    """Where connections were re-tuned: boot id, driver, place and namespace as an act's row has them."""

    boot: str
    driver: str
    place: str
    space: str


class RetunedRows(Database):
    """The table of re-tuned connections."""

    def retuned(self, at: RetunedPlace) -> dict[int, SocketChange]:
        """Return the changes of open connections at a place by cookie."""
        query = f"SELECT cookie, prefix, former, before, given FROM retuned WHERE {_PLACE}"
        rows = self._read(query, *at)
        return {cookie: SocketChange(cookie, prefix, former, json.loads(before), json.loads(given))
                for cookie, prefix, former, before, given in rows}  # fmt: skip

    def has_retuned(self, driver: str) -> bool:
        """Return whether connections were re-tuned under a driver, anywhere."""
        with self._clear():
            query = "SELECT EXISTS (SELECT 1 FROM retuned WHERE driver = ?)"
            return bool(self._connection.execute(query, (driver,)).fetchone()[0])

    def put_retuned(self, at: RetunedPlace, changes: Iterable[SocketChange]) -> None:
        """Keep changes, all or none; one of the same connection is replaced."""
        rows = [(*at, *one[:3], json.dumps(dict(one.before)), json.dumps(dict(one.given))) for one in changes]
        with self._clear(), self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO retuned VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def drop_retuned(self, at: RetunedPlace, cookies: Collection[int]) -> None:
        """Forget connections that were put back or have ended, and all of earlier boots."""
        rows = [(*at, cookie) for cookie in cookies]
        with self._clear(), self._transaction():
            self._connection.executemany(f"DELETE FROM retuned WHERE {_PLACE} AND cookie = ?", rows)
            self._connection.execute("DELETE FROM retuned WHERE boot <> ?", (at.boot,))
