# SPDX-License-Identifier: MIT
"""The journal of an agent's applier: changes of its transaction's rules, and the documents that they came from."""

from __future__ import annotations

from configtron.db.tuning import Tuning
from configtron.model.tuning import Changes, Rules
from configtron.model.tuning_json import rules_text

# KiB of the database that stay in memory. The end of a lease lies behind its rules, 2.5 MB of a hundred thousand
# prefixes, which are read for each renewal, once a second; SQLite's own 2 MB do not hold them.
CACHE_KIB = 8192


class AgentJournal(Tuning):
    """The database as an agent's applier sees it."""

    def __enter__(self) -> AgentJournal:
        self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        return self

    # Changes of a transaction's rules.

    def add_change(self, number: int, changes: Changes) -> None:
        """Journal a change of the rules of a transaction in force, before it is written to the host."""
        with self._clear():
            self._add_change(number, changes)

    def drop_change(self, number: int) -> None:
        """Forget the last change of a transaction: it was not written."""
        last = "SELECT max(number) FROM act_change WHERE act = ?"
        with self._clear():
            query = f"DELETE FROM act_change WHERE act = ? AND number = ({last})"
            self._connection.execute(query, (number, number))

    def fold_changes(self, number: int, rules: Rules) -> None:
        """Write the rules of a transaction whole, in place of its changes."""
        with self._clear(), self._transaction():
            self._connection.execute("UPDATE act SET rules = ? WHERE id = ?", (rules_text(rules), number))
            self._connection.execute("DELETE FROM act_change WHERE act = ?", (number,))

    # Documents of the fleet's map.

    def keep_document(self, document: bytes, term: int, version: int) -> None:
        """Keep a document that was accepted, in place of another of that version."""
        row = (term, version, self._now(), document)
        with self._clear(), self._transaction():
            self._connection.execute("DELETE FROM fleet_applied WHERE term = ? AND version = ?", (term, version))
            query = "INSERT INTO fleet_applied (term, version, applied_at, document) VALUES (?, ?, ?, ?)"
            self._connection.execute(query, row)

    def drop_documents(self, after: tuple[int, int]) -> None:
        """Forget the documents after that (term, version)."""
        self._write("DELETE FROM fleet_applied WHERE (term, version) > (?, ?)", *after)

    def set_drawn(self, term: int, version: int, epoch: int, keys: str = "") -> None:
        """Keep which map is drawn from in which epoch, and by which keys, one word; documents before it go."""
        with self._clear(), self._transaction():
            query = "INSERT OR REPLACE INTO tuning VALUES ('fleet-drawn', ?)"
            self._connection.execute(query, (f"{term} {version} {epoch} {keys}",))
            self._connection.execute("DELETE FROM fleet_applied WHERE (term, version) < (?, ?)", (term, version))

    def drawn(self) -> tuple[int, int, int, str]:
        """Return (term, version, epoch, keys) of the map that was drawn from last; (0, 0, 0, ""): none was."""
        with self._clear():
            term, version, epoch, *keys = (self._fact("fleet-drawn") or "0 0 0").split()
            return int(term), int(version), int(epoch), "".join(keys)

    def set_fleet_act(self, number: int) -> None:
        """Keep which transaction is the fleet's, so that a later start of the agent distinguishes it from a human's."""
        self._write("INSERT OR REPLACE INTO tuning VALUES ('fleet-act', ?)", str(number))

    def documents(self) -> list[bytes]:
        """Return the documents in force, in the order in which they were applied."""
        return [document for (document,) in self._read("SELECT document FROM fleet_applied ORDER BY id")]
