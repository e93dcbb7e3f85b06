# SPDX-License-Identifier: MIT
"""Reapply: give connections that are open already the profile of their client."""

from __future__ import annotations

from dataclasses import dataclass

from configtron.db.tuning import Tuning
from configtron.model.protocols import Mover
from configtron.service.lease.context import LeaseContext, context_of
from configtron.service.lease.lock import exclusive_lock
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.planner import usable
from configtron.tune.journal import IN_FORCE, Transaction


@dataclass(frozen=True, slots=True)
class Reapplied:
    """A transaction in force; `connections`: (open ones of clients, those with a profile), None: out of reach."""

    transaction: int
    driver: str
    connections: tuple[int, int] | None


def reapply(options: LeaseOptions) -> list[Reapplied]:
    """Apply each transaction in force here to open connections. Errors: `Missing` where a driver cannot act."""
    with Tuning(options.database) as journal:
        context = context_of(journal)
        with exclusive_lock(options.database):
            here = [each for each in journal.acts(*IN_FORCE)
                    if each.boot == context.boot and each.space in ("", context.namespace)]  # fmt: skip
            return [_reapply(context, each) for each in here]


def _reapply(context: LeaseContext, transaction: Transaction) -> Reapplied:
    driver = usable(context.load(transaction.driver, transaction.place), f"transaction {transaction.id}: ")
    moved = driver.move() if isinstance(driver, Mover) else None
    return Reapplied(transaction.id, transaction.driver, moved)
