# SPDX-License-Identifier: MIT
"""Which rules were in force when: what an import of outcomes asks for the configuration that a client had then.

A row has rules whole, compressed, or as the changes since an earlier row that has them whole: one changed prefix among
a hundred thousand is a row of a hundred bytes.
"""

from __future__ import annotations

import json
from typing import NamedTuple
from zlib import compress, decompress

from configtron.db.act_rules import ActRules
from configtron.model.records import Json, canonical
from configtron.model.tuning import Rules
from configtron.model.tuning_json import changes_of, rules_of, rules_text
from configtron.tune.journal import IN_FORCE, UNDOING, UNDONE, WRITING, Transaction
from configtron.tune.rules import after

# Changes of what is in force that are remembered: years of daily ones.
DEPLOYMENTS = 2000
# Of `zlib`, whose fastest level makes rules a tenth larger in half the time.
FASTEST = 1
# The first byte of changes, which are JSON as it is; compressed rules begin with another.
OBJECT = b"{"


class Deployed(NamedTuple):
    """Rules in force from one moment to another, ns since the epoch (until None: still); None: half written."""

    since: int
    until: int | None
    rules: Rules | None


class DeploymentRows(ActRules):
    """The database as the history of rules in force."""

    def _deploy(self, act: Transaction) -> None:
        """Keep from when to when an act's rules are in force, and when they are half written: an import asks."""
        now = round(self._clock().timestamp() * 1e6) * 1000
        ask = "SELECT id, rules IS NOT NULL FROM deployment WHERE act = ? AND until_ns IS NULL"
        open_ = self._connection.execute(ask, (act.id,)).fetchone()
        wholly, moving = act.status in IN_FORCE, act.status in (WRITING, UNDOING)
        if open_ is not None and (not (wholly or moving) or bool(open_[1]) != wholly):
            # in force and then over without having been undone: the host was restarted at an unknown time
            lost = ", rules = NULL" if open_[1] and act.status == UNDONE else ""
            self._connection.execute(f"UPDATE deployment SET until_ns = ?{lost} WHERE id = ?", (now, open_[0]))
            open_ = None
        if open_ is None and (wholly or moving):
            rules = self._deployed(act.id) if wholly else None
            self._connection.execute("INSERT INTO deployment (act, since_ns, rules) VALUES (?, ?, ?)",
                                     (act.id, now, rules))  # fmt: skip
            query = "DELETE FROM deployment WHERE id <= (SELECT max(id) FROM deployment) - ?"
            self._connection.execute(query, (DEPLOYMENTS,))

    def _deployed(self, act: int) -> bytes:
        """Return an act's rules for its row: the changes since another row, if it was begun so (`begin_over`)."""
        changes = [json.loads(text) for text in self._changes(act)]
        root = self._root(act)
        if root and changes:
            return canonical({"after": root, "changes": changes}).encode()
        text = self._rules_text(act)
        if changes:
            text = rules_text(_after_all(rules_of(text), changes))
        return compress(text.encode(), FASTEST)

    def _root(self, act: int) -> int:
        """Return the row whose rules an act was begun with; 0: none is here."""
        query = "SELECT value FROM tuning WHERE name = 'begun-over'"
        found = self._connection.execute(query).fetchone()
        begun, root = map(int, found[0].split()) if found else (0, 0)
        there = "SELECT EXISTS (SELECT 1 FROM deployment WHERE id = ? AND rules IS NOT NULL)"
        return root if begun == act and self._connection.execute(there, (root,)).fetchone()[0] else 0

    def _begin_over(self, act: int, base: int) -> None:
        """Keep by which row's rules an act begins: those of its base, or the row that these begin with."""
        query = (
            "SELECT id, CASE WHEN substr(rules, 1, 1) = ? THEN rules END FROM deployment"
            " WHERE act = ? AND rules IS NOT NULL ORDER BY id DESC LIMIT 1"
        )
        found = self._connection.execute(query, (OBJECT, base)).fetchone()
        if found is not None:
            root = json.loads(found[1])["after"] if found[1] else found[0]
            row = "INSERT OR REPLACE INTO tuning VALUES ('begun-over', ?)"
            self._connection.execute(row, (f"{act} {root}",))

    def history(self) -> tuple[list[Deployed], int]:
        """What was in force when, oldest first; and since when all of it is kept, ns since the epoch, 0: ever."""
        gaps = "SELECT EXISTS (SELECT 1 FROM act WHERE id NOT IN (SELECT act FROM deployment) AND status <> 'begun')"
        with self._clear():
            query = "SELECT id, since_ns, until_ns, rules FROM deployment ORDER BY id"
            rows = self._connection.execute(query).fetchall()
            (older,) = self._connection.execute(gaps).fetchone()
        whole: dict[int, Rules] = {}
        history = [Deployed(since, until, _rules(number, rules, whole)) for number, since, until, rules in rows]
        if older or (rows and rows[0][0] > 1):
            return history, rows[0][1] if rows else 2**63 - 1
        return history, 0


def _rules(number: int, stored: bytes | None, whole: dict[int, Rules]) -> Rules | None:
    """Return a row's rules; None: half written, or changes of a row that is no longer there. `whole`: by row."""
    if stored is None:
        return None
    if not stored.startswith(OBJECT):
        whole[number] = rules_of(decompress(stored).decode())
        return whole[number]
    form = json.loads(stored)
    if form["after"] not in whole:
        return None
    return _after_all(whole[form["after"]], form["changes"])


def _after_all(rules: Rules, changes: list[Json]) -> Rules:
    """Return the rules after changes in their order."""
    for each in changes:
        rules = after(rules, changes_of(canonical(each)))
    return rules
