# SPDX-License-Identifier: MIT
"""Undo apply transactions: revert the driver, restore open connections, close the journal (`tune/journal.py`).

Callers hold `exclusive_lock`. Each function commits a step to the journal before it takes the step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from configtron.model.errors import BadInput, ConfigtronError, Mismatch, Unwritten
from configtron.model.protocols import Driver, Mover
from configtron.model.tuning import Place, Rules
from configtron.service.lease import ownership, watchdog_process
from configtron.service.lease.context import LeaseContext, is_gone
from configtron.service.lease.kernel_rules import write
from configtron.tune.journal import KEPT, UNDOING, UNDONE, Transaction

if TYPE_CHECKING:
    from configtron.tune.drivers.open_connections import Leaving, Restored

# Reason of an undo that the operator asked for.
REQUESTED = "rollback"
# Separates, in the journal, the reason of an undo from the error that blocks it.
NOT_YET = "; not undone yet: "
# Errors of a journal that cannot be written: damaged or not ours, or without room on the disk.
UNJOURNALED = (BadInput, Unwritten)
log = logging.getLogger("configtron.tune")


class JournalBehind(Mismatch):
    """The earlier state is restored, but the journal could not be written (a full disk): a later undo repeats it."""


def undo(
    context: LeaseContext,
    transaction: Transaction,
    why: str,
    *,
    wholly: bool = False,
    watched: bool = False,
    connections: dict[int, Restored] | None = None,
) -> Transaction:
    """Restore the state before a transaction: the kept one below it, or (`wholly`, or if none) the untouched stack.

    With `watched` a watchdog process goes on with it if this process is killed; one that still reads `kept` would end
    at once. Restore open connections too; `connections` gets the result under the transaction's number. The undo goes
    on where the journal cannot be written. Errors: the driver's; `JournalBehind`.
    """
    base = context.journal.act(transaction.over) if transaction.over and not wholly else None
    dropped = context.journal.act(transaction.over) if transaction.over and wholly else None
    transaction = replace(transaction, status=UNDOING, over=base.id if base else 0, why=why)
    closed = [dropped.closed(UNDONE, why, context.now_s())] if dropped else []
    with suppress(*UNJOURNALED):
        context.journal.put(transaction, *closed)
    with suppress(ConfigtronError, OSError):
        if watched and not watchdog_process.is_watched(transaction):
            watchdog_process.start(context, transaction.id)
    restored, base = _revert(context, transaction, base)
    if connections is not None:
        connections[transaction.id] = restored
    done = transaction.closed(UNDONE, why, context.now_s())
    try:
        context.journal.put(done, *([base] if base else []), *closed)
    except UNJOURNALED as error:
        behind = f"transaction {transaction.id}: what stood before is back, but not in the journal: {error}"
        raise JournalBehind(behind) from error
    _release(context)
    # A requested rollback logs at INFO.
    level = logging.INFO if why == REQUESTED else logging.WARNING
    log.log(level, "transaction %d (%s) undone: %s", transaction.id, transaction.driver, why)
    return done


def _revert(
    context: LeaseContext, transaction: Transaction, base: Transaction | None
) -> tuple[Restored, Transaction | None]:
    """Revert the driver of a transaction and write the kept transaction below it; return that one as it is now.

    Errors: the driver's.
    """
    driver = context.load(transaction.driver, transaction.place)
    is_taken = ownership.taken_over(context, transaction)
    gone = is_taken or is_gone(transaction.place)
    if not gone:
        # Set connections that were re-tuned while open to what they had before; then they are like all others.
        # No import of BPF and netlink clients where no connection was re-tuned.
        if context.journal.has_retuned(transaction.driver):
            from configtron.service.lease.retuning import put_back_all

            put_back_all(context, driver, transaction.place)
    leaving = None if gone else _leaving(driver, transaction.place, lambda: _rules_of(context, transaction))
    if not is_taken:
        # Most settings ended with the namespace, and the driver finds none; a pinned program remains.
        with suppress(*([BadInput] if gone else [])):
            driver.revert(transaction.before)
    if base is not None and not gone:
        write(driver, Rules(), base.rules)
        base = replace(base, status=KEPT)
    return _restored(leaving, driver, base), base


def revert_unjournaled(driver: Driver, place: Place, before: str) -> Restored:
    """Revert a driver for which no journal can be written, open connections too. Errors: the driver's."""
    leaving = _leaving(driver, place, driver.read)
    driver.revert(before)
    return _restored(leaving, driver, None)


def _leaving(driver: Driver, place: Place, rules: Callable[[], Rules]) -> Leaving | None:
    """Read the open connections with these rules' profiles before their driver reverts; None if that fails."""
    # These imports load BPF and netlink clients, which a transaction without open connections never needs.
    from configtron.tune.drivers.open_connections import Leaving

    try:
        leaving = Leaving(driver, place, rules())
        leaving.before()
    except (ConfigtronError, OSError) as error:
        log.warning("%s: open connections were not read: %s", driver.name, error)
        return None
    return leaving


def _restored(leaving: Leaving | None, driver: Driver, base: Transaction | None) -> Restored:
    """Restore open connections after the driver has reverted, or count those that keep their profiles."""
    from configtron.tune.drivers.open_connections import Restored

    if leaving is None:
        return Restored()
    try:
        restored = leaving.after(base.rules if base else Rules())
        if base is not None and isinstance(driver, Mover):
            driver.move()
    except (ConfigtronError, OSError) as error:
        log.warning("%s: open connections keep their profiles: %s", driver.name, error)
        return Restored()
    if restored.left:
        log.warning("%s: %s", driver.name, restored.text)
    return restored


def _rules_of(context: LeaseContext, transaction: Transaction) -> Rules:
    """Return a transaction's rules, also of one that was read without them."""
    return (transaction if transaction.rules.profiles else context.journal.act(transaction.id) or transaction).rules


def note_obstacle(context: LeaseContext, transaction: Transaction, why: str, error: Exception) -> None:
    """Record the error that blocks a transaction's end, where the journal can be written."""
    with suppress(*UNJOURNALED):
        context.journal.note(transaction.id, f"{why}{NOT_YET}{error}")


def forget(context: LeaseContext, transaction: Transaction, why: str) -> Transaction:
    """Close a transaction that has nothing on the host."""
    done = transaction.closed(UNDONE, why, context.now_s())
    context.journal.put(done)
    _release(context)
    return done


def _release(context: LeaseContext) -> None:
    """Remove ownership records that no longer count. One that stays keeps no database out: not worth an error."""
    with suppress(*UNJOURNALED):
        ownership.release(context)
