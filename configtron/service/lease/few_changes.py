# SPDX-License-Identifier: MIT
"""Plan a few changed prefixes without reading all the others: neither those that are wanted nor the kernel's.

Question   One prefix among a hundred thousand was changed. What does an apply have to read?
Method     After an apply that left in force exactly what is wanted, the journal keeps a base (`db.changed_prefixes`):
           the transaction and the driver's stamp of the kernel. While the stamp is the same, no program has written
           to the kernel, and the journal knows which wanted prefixes were written: the plan is made of these alone.
Reads as   A `Planned` whose rules are a part of those in force (`over`); the journal begins its transaction over the
           one in force.
Fails as   None, and all is read: no base; another program's write (the stamp differs); a removal, which no driver
           reads back by itself; a profile that comes or goes; shares of prefixes, frozen scopes, acknowledged advice;
           too many steps since a transaction that has its rules whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from configtron.db.changed_prefixes import AppliedState
from configtron.db.tuning import Tuning
from configtron.model.errors import Refused
from configtron.model.protocols import Driver, Stamper
from configtron.model.tuning import Rules, prefix_counts
from configtron.service.lease.context import LeaseContext
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.planner import NAMED, Planned, chosen, frozen_scopes
from configtron.service.lease.planner import planned as read_all
from configtron.tune.guard import Limits, why_not
from configtron.tune.journal import IN_FORCE, Transaction
from configtron.tune.plan import advise
from configtron.tune.pools import for_kernel

# Changes over one transaction's whole rules: reading it back takes a step each.
MOST_STEPS = 64


def planned(context: LeaseContext, options: LeaseOptions) -> Planned | None:
    """Return the plan from what is in force to what is wanted; None where all must be read. Errors: as `plan`."""
    found = context.journal.applied() if _is_whole(options) else None
    if found is None:
        return None
    base, expected = found
    if not base.prefixes or context.journal.prefix_count() > options.limits.max_prefixes:
        return None
    driver = chosen(context, options, Rules())
    current = context.journal.open_act(driver.name, options.place, context.namespace_of(options.place), bare=True)
    if current is None or not _is_as_applied(context, base, current, driver):
        return None
    if frozen_scopes(context, options, driver) or context.journal.acknowledged():
        return None
    part = _planned(context.journal, base, driver)
    return part and replace(part, expected=expected)


def _is_whole(options: LeaseOptions) -> bool:
    """Return whether all that is wanted is to come into force."""
    return not options.holdback and options.canary >= 1


def _is_as_applied(context: LeaseContext, base: AppliedState, current: Transaction, driver: Driver) -> bool:
    """Return whether a transaction in force is the base's, and the kernel as it was then."""
    if current.id != base.act or current.status not in IN_FORCE or current.boot != context.boot:
        return False
    return isinstance(driver, Stamper) and driver.stamp() == base.stamp


def _planned(journal: Tuning, base: AppliedState, driver: Driver) -> Planned | None:
    now, profiles = journal.wanted_profile_of(base.was), for_kernel(journal.wanted_profiles())
    counts = base.with_profiles(now)
    used = {name for name, count in counts.items() if count} | {profiles.default} - {""}
    if base.was.keys() - now.keys() or base.profiles.keys() != used or journal.steps(base.act) >= MOST_STEPS:
        return None
    before = {prefix: name for prefix, name in base.was.items() if name is not None}
    have = replace(profiles, profiles={name: profiles.profiles[name] for name in base.profiles}, prefixes=before)
    target = replace(have, prefixes=now)
    advices = advise(driver.name, have, target)
    return Planned(driver, have, target, advices, 0, {}, journal.measured_damage(), base.act,
                   journal.prefix_count(), users=counts)  # fmt: skip


def guard(_: Driver, target: Rules, limits: Limits) -> None:
    """Ask the guard. The driver has these very profiles in force, so it reaches them: the operator's limits may be
    others. Errors: `Refused`, with its first reasons."""
    wrong = [why for profile in target.profiles.values() for why in why_not(profile, limits)]
    if wrong:
        raise Refused("; ".join(wrong[:NAMED]) + (f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""))


def remember(context: LeaseContext, found: Planned, transaction: Transaction) -> None:
    """Keep a base, if a transaction has in force exactly what was wanted, and the driver has a stamp."""
    if found.expected and not found.waiting and isinstance(found.driver, Stamper) and transaction.status in IN_FORCE:
        counts = found.users or prefix_counts(found.target.prefixes)
        users = {name: counts.get(name, 0) for name in found.target.profiles}
        base = AppliedState(transaction.id, found.driver.stamp(), users, found.prefixes, {})
        context.journal.set_applied(base, found.expected)


def with_rules(context: LeaseContext, found: Planned, transaction: Transaction) -> Transaction:
    """Return a transaction with its rules; after a plan of few changes, prefixes that are read when they are used."""
    if found.over:
        prefixes = StoredPrefixes(context.journal.path, transaction.id, found.prefixes)
        return replace(transaction, rules=replace(found.target, prefixes=prefixes))
    return transaction if transaction.rules.profiles else context.journal.act(transaction.id) or transaction


def whole(context: LeaseContext, options: LeaseOptions) -> Planned:
    """Return the plan by reading all. Errors: as `plan`."""
    expected = context.journal.expect_applied() if _is_whole(options) else ""
    return replace(read_all(context, options), expected=expected)


@dataclass(frozen=True, eq=False)
class StoredPrefixes(Mapping[str, str]):
    """The prefixes of a transaction, so many, which are read from its database at their first use."""

    database: Path
    transaction: int
    count: int

    @cached_property
    def _read(self) -> Mapping[str, str]:
        with Tuning(self.database, read_only=True) as journal:
            found = journal.act(self.transaction)
        return found.rules.prefixes if found else {}

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __getitem__(self, prefix: str) -> str:
        return self._read[prefix]
