# SPDX-License-Identifier: MIT
"""Recover: undo transactions that a killed process, a reboot or the end of a lease left behind.

An apply that was killed while it wrote leaves its transaction in `writing`: its watchdog undoes it, or the next apply,
rollback, watch or recover, or the systemd timer. One in `begun` wrote nothing and is closed.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from configtron.db.read_only import read_only
from configtron.db.tuning import Tuning
from configtron.model.errors import ConfigtronError
from configtron.service.lease import watchdog_process
from configtron.service.lease.context import LeaseContext, context_of, exclusive_lock, is_gone, is_held
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.undo import NOT_YET, JournalBehind, forget, note_obstacle, undo
from configtron.tune.journal import FORGET, GUARD, OPEN, UNDO, UNDOING, WRITING, Transaction, due

GONE = "its network namespace is gone"
log = logging.getLogger("configtron.tune")


@dataclass(frozen=True, slots=True)
class Recovered:
    """ended: transactions that were closed; left: those that could not be undone, each with the reason."""

    ended: tuple[Transaction, ...] = ()
    left: tuple[Transaction, ...] = ()


def recover(options: LeaseOptions) -> Recovered:
    """Undo incomplete transactions and those whose lease has ended; restart watchdogs that have died.

    Errors: `Refused` while another process applies; `JournalBehind`.
    """
    if not options.database.is_file():
        return Recovered()
    with Tuning(options.database) as journal:
        context = context_of(journal)
        with exclusive_lock(options.database):
            ended = tuple(recover_due(context))
            half = tuple(filter(context.is_within, journal.acts(WRITING, UNDOING)))
            return Recovered(ended, half)


def finish_rollback(database: Path) -> None:
    """Finish a rollback that was killed. A command that reads only calls it first; nothing is written otherwise.

    Without the right to, or while another process acts, the transaction stays as it is.
    """
    if read_only(database, lambda journal: any(map(context_of(journal).is_here, journal.acts(UNDOING, bare=True)))):
        with suppress(ConfigtronError, OSError), exclusive_lock(database, 0), Tuning(database) as journal:
            for done in recover_due(context_of(journal)):
                log.warning("transaction %d (%s): its rollback was killed; it is finished now", done.id, done.driver)


def recover_due(context: LeaseContext) -> list[Transaction]:
    """Take the due step of each transaction that no process works on; return those that ended. Callers hold the lock.

    Leave a transaction of another network namespace to commands there; if that is gone, end it after its lease. Where a
    driver fails, write its transaction to log and journal, and go on with the others. Errors: `JournalBehind`, after
    all were tried.
    """
    ended: list[Transaction] = []
    behind: JournalBehind | None = None
    # Read without rules: a watch calls this four times a second, and rules may be megabytes.
    for transaction in context.journal.acts(*OPEN, bare=True):
        try:
            done = _recover_one(context, transaction)
        except JournalBehind as error:
            behind = error
            continue
        if done is not None:
            ended.append(done)
    if behind is not None:
        raise behind
    return ended


def _recover_one(context: LeaseContext, transaction: Transaction) -> Transaction | None:
    """Take the due step of one transaction; return it if that ended it. Errors: `JournalBehind`."""
    rebooted = transaction.boot != context.boot
    expired = bool(transaction.lease_s) and context.now_s() >= transaction.expires_s
    step = due(transaction.status, rebooted=rebooted, expired=expired)
    gone = is_gone(transaction.place) and step != FORGET
    if step == FORGET:
        return forget(context, transaction, "reboot" if rebooted else "killed before it wrote")
    if not context.is_within(transaction):
        return None if step != UNDO or is_held(transaction.space) else forget(context, transaction, GONE)
    if step == UNDO or gone:
        return _undo_one(context, transaction, _reason(transaction, gone))
    if step == GUARD and not watchdog_process.is_watched(transaction):
        watchdog_process.start(context, transaction.id)
    return None


def _reason(transaction: Transaction, gone: bool) -> str:
    why = transaction.why.partition(NOT_YET)[0]
    return why or (GONE if gone else "killed while it wrote" if transaction.status == WRITING else "lease ended")


def _undo_one(context: LeaseContext, transaction: Transaction, why: str) -> Transaction | None:
    """Undo one transaction; None, with a line in log and journal, where its driver fails. Errors: `JournalBehind`."""
    try:
        return undo(context, transaction, why)
    except JournalBehind:
        raise
    except (ConfigtronError, OSError) as error:
        log.error("transaction %d (%s) is not undone: %s", transaction.id, transaction.driver, error)
        note_obstacle(context, transaction, why, error)
        return None
