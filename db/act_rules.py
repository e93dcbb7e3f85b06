# SPDX-License-Identifier: MIT
"""Store the rules of an act: short ones in its row of `act`, long ones and their changes in `act_change`.

Question   Two acts have a million prefixes and differ in one. How is the second stored without a copy of the first?
Method     Rows of `act_change` have a number. Row `FULL_TEXT` has all rules as JSON; it is written once. In its place,
           row `SHARED_TEXT` has the number of another act, whose full text this act uses. Rows from 1 on are changes to
           that text, in order.
Reads as   `_rules_text(act)`, and `_changes(act)` to apply to them.
Stop when  `_forget_rules(act)`: the act is over. Its full text stays while another act uses it.
"""

from __future__ import annotations

from configtron.db.retuned import RetunedRows
from configtron.model.tuning import Changes, Rules
from configtron.model.tuning_json import changes_text, rules_text

# Numbers of the rows that are not changes; changes have greater numbers.
FULL_TEXT, SHARED_TEXT = 0, -1
# Longer rules are not stored in the row of `act`: SQLite rewrites a whole row when the act's status changes.
LONG_BYTES = 1 << 16
# The end of a `Changes` as JSON that drops nothing: with it the JSON of rules is a change from no rules to them.
NONE_DROPPED = ',"dropped_prefixes":[],"dropped_profiles":[]}'
NO_RULES = rules_text(Rules())
PUT_ROW = "INSERT INTO act_change VALUES (?, ?, ?)"
ADD_CHANGE = (
    f"INSERT INTO act_change SELECT ?, max(coalesce(max(number), {FULL_TEXT}), {FULL_TEXT}) + 1, ?"
    " FROM act_change WHERE act = ?"
)
# Copies the rows of another act; its full text becomes a reference to it.
COPY_ROWS = (
    f"INSERT INTO act_change SELECT ?, CASE number WHEN {FULL_TEXT} THEN {SHARED_TEXT} ELSE number END,"
    f" CASE number WHEN {FULL_TEXT} THEN CAST(act AS TEXT) ELSE changes END FROM act_change WHERE act = ?"
)
# Deletes full texts of acts that are over and whose text no other act uses.
DROP_UNUSED_TEXTS = (
    f"DELETE FROM act_change WHERE number = {FULL_TEXT} AND act IN (SELECT id FROM act WHERE before = '')"
    f" AND act NOT IN (SELECT CAST(changes AS INTEGER) FROM act_change WHERE number = {SHARED_TEXT})"
)


class ActRules(RetunedRows):
    """Rules of acts in the database; each method runs inside its caller's transaction."""

    def _put_full_text(self, act: int, text: str) -> None:
        """Store rules (JSON) as the full text of an act that has no row in `act_change`."""
        self._connection.execute(PUT_ROW, (act, FULL_TEXT, text[:-1] + NONE_DROPPED))

    def _share_full_text(self, act: int, base: int, changes: Changes) -> None:
        """Store an act's rules as those of the act `base`, by reference, and these changes to them."""
        self._connection.execute(COPY_ROWS, (act, base))
        self._add_change(act, changes)

    def _add_change(self, act: int, changes: Changes) -> None:
        self._connection.execute(ADD_CHANGE, (act, changes_text(changes), act))

    def _rules_text(self, act: int) -> str:
        """Return the rules of an act before its changes, as JSON."""
        query = (
            f"SELECT coalesce((SELECT changes FROM act_change WHERE number = {FULL_TEXT} AND act = coalesce((SELECT"
            f" CAST(changes AS INTEGER) FROM act_change WHERE number = {SHARED_TEXT} AND act = act.id), act.id)),"
            " rules) FROM act WHERE id = ?"
        )
        return str(self._connection.execute(query, (act,)).fetchone()[0])

    def _changes(self, act: int) -> list[str]:
        """Return the changes of an act, each as JSON, in order."""
        query = f"SELECT changes FROM act_change WHERE act = ? AND number > {FULL_TEXT} ORDER BY number"
        return [text for (text,) in self._connection.execute(query, (act,))]

    def _forget_rules(self, act: int) -> None:
        """Delete the changes of an act that is over, and full texts that no act uses any more."""
        self._connection.execute(f"DELETE FROM act_change WHERE act = ? AND number <> {FULL_TEXT}", (act,))
        self._connection.execute(DROP_UNUSED_TEXTS)
