# SPDX-License-Identifier: MIT
"""A transaction begins with the rules of another, which stay as long as one needs them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from configtron.db.act_rules import LONG_BYTES
from configtron.db.tuning import Tuning
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.journal import KEPT, REPLACED, UNDONE, Transaction
from configtron.tune.rules import after

# So many that they stand beside their transaction's row; and so few that they stand in it.
COUNTS = (LONG_BYTES // 20, 3)
PROFILES = {name: Profile(name, (("initcwnd", 10),)) for name in ("one", "two")}


def transaction(rules: Rules) -> Transaction:
    return Transaction("memory", Place(), "net:[1]", "boot", KEPT, "{}", rules)


def whole_texts(book: Tuning) -> int:
    """How many bytes of rules stand in the journal."""
    query = "SELECT (SELECT total(length(rules)) FROM act) + (SELECT total(length(changes)) FROM act_change)"
    return int(book._connection.execute(query).fetchone()[0])


@pytest.mark.parametrize("count", COUNTS)
def test_rules_are_written_once_and_outlive_their_transaction(tmp_path: Path, count: int) -> None:
    rules = Rules(PROFILES, {f"10.{n >> 8}.{n & 255}.0/24": "one" for n in range(count)})
    changes = [Changes(prefixes={f"10.0.{n}.0/24": "two"}) for n in range(3)]
    with Tuning(tmp_path / "t.db") as book:
        acts, wanted = [book.begin(transaction(rules))], [rules]
        for change in changes:
            acts.append(book.begin_over(transaction(Rules()), acts[-1].id, change))
            wanted.append(after(wanted[-1], change))
            assert [one.rules for one in book.acts()] == wanted
            assert book.steps(acts[-1].id) == len(acts) - 1
        if count == COUNTS[0]:
            assert whole_texts(book) < 1.1 * (LONG_BYTES + count * 10), "once, not four times"
        for turn, act in enumerate(acts[:-1]):
            book.put(act.closed(REPLACED, ""))
            assert [one.rules for one in book.acts()] == [Rules()] * (turn + 1) + wanted[turn + 1 :]
        book.put(acts[-1].closed(UNDONE, ""))
        assert not book._connection.execute("SELECT * FROM act_change").fetchall()
        assert [one.rules for one in book.acts()] == [Rules()] * 4


def test_a_transaction_that_is_undone_leaves_the_one_below_with_its_rules(tmp_path: Path) -> None:
    rules = Rules(PROFILES, {f"10.{n >> 8}.{n & 255}.0/24": "one" for n in range(COUNTS[0])})
    with Tuning(tmp_path / "t.db") as book:
        below = book.begin(transaction(rules))
        above = book.begin_over(transaction(Rules()), below.id, Changes(prefixes={"10.0.0.0/24": "two"}))
        book.put(replace(below, status=REPLACED), above)
        book.put(above.closed(UNDONE, ""), replace(below, status=KEPT))
        found = book.act(below.id)
        assert found is not None and found.rules == rules
