# SPDX-License-Identifier: MIT
"""The history of apply transactions, from the journal."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from configtron.db.read_only import read_only
from configtron.db.tuning import Tuning
from configtron.service.lease.context import context_of
from configtron.tune.journal import OPEN, Transaction


class LoggedTransaction(NamedTuple):
    """A transaction, without its rules. ended_s_ago: None while it is open, and where the end is not known: that of an
    earlier boot."""

    transaction: Transaction
    ended_s_ago: float | None


def history(database: Path) -> list[LoggedTransaction]:
    """Return all transactions, newest first. Write nothing."""
    return read_only(database, history_of)


def history_of(journal: Tuning) -> list[LoggedTransaction]:
    """Return all transactions of an open journal, newest first."""
    context = context_of(journal)
    boot, now_s = context.boot, context.now_s()
    return [LoggedTransaction(each, _ended_s_ago(each, boot, now_s)) for each in reversed(journal.acts(bare=True))]


def last_ended(journal: Tuning) -> LoggedTransaction | None:
    """Return the transaction that ended last in this boot, the newest of several; None if none did."""
    ended = [each for each in history_of(journal) if each.ended_s_ago is not None]
    return min(ended, key=lambda each: each.ended_s_ago or 0.0, default=None)


def _ended_s_ago(transaction: Transaction, boot: str, now_s: float) -> float | None:
    is_known = transaction.status not in OPEN and transaction.boot == boot and 0 < transaction.expires_s <= now_s
    return round(now_s - transaction.expires_s, 1) if is_known else None
