# SPDX-License-Identifier: MIT
"""Apply: put the wanted rules in force as one transaction, under a lease that a watchdog ends.

Question   One prefix among a hundred thousand was changed. What does an apply have to read?
Method     Apply commits each step to the journal before it takes the step (`tune/journal.py`): the whole transaction
           comes into force, or apply restores the earlier state. After an apply that left in force exactly what is
           wanted, the journal keeps a base (`db.changed_prefixes`): the transaction and the driver's stamp of the
           kernel. While the stamp is the same, no program has written to the kernel, and the journal knows which wanted
           prefixes were written: the plan is made of these alone.
Reads as   `Applied`. A plan of a few changes has a part of the rules in force (`Planned.over`); the journal begins its
           transaction over the one in force.
Fails as   The error of a driver, or a refusal. A plan of a few changes is none, and all is read, where there is no
           base; after another program's write (the stamp differs) or a removal, which no driver reads back by itself;
           where a profile comes or goes; for shares of prefixes, frozen scopes, acknowledged advice; after too many
           steps since a transaction that has its rules whole.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from configtron.db.changed_prefixes import AppliedState
from configtron.db.tuning import Tuning
from configtron.model.bounds import check_number
from configtron.model.errors import ConfigtronError, Mismatch, Refused
from configtron.model.protocols import Driver, Follower, Stamper
from configtron.model.tuning import Answers, Place, Rules, prefix_counts
from configtron.service.lease import ownership, watchdog_process
from configtron.service.lease.context import LeaseContext, context_of, exclusive_lock
from configtron.service.lease.kernel_rules import in_force, usable, write
from configtron.service.lease.options import LEASE_S, LeaseOptions, Notice, OnNotice, ignore
from configtron.service.lease.plan_file import saved
from configtron.service.lease.planner import (
    FROZEN,
    NAMED,
    Planned,
    chosen,
    frozen_scopes,
    guard,
    judged,
    planned,
)
from configtron.service.lease.recovery import recover_due
from configtron.service.lease.status_report import client_answers
from configtron.service.lease.undo import note_obstacle, undo
from configtron.tune.drivers.witness import newest_sockets
from configtron.tune.guard import Limits, why_not
from configtron.tune.journal import BEGUN, IN_FORCE, KEPT, LEASED, REPLACED, WRITING, Transaction
from configtron.tune.plan import advise, changes, follow
from configtron.tune.pools import for_kernel

# s; a transaction that is to be kept has no lease, and one that is not complete after so long hangs.
HANG_S = 600.0
# Changes over one transaction's whole rules: reading it back takes a step each.
MOST_STEPS = 64
# Prefixes; to read the rules of more takes longer than the change of one of them.
MOST_ASKED = 10_000
TOO_MANY = f"only some of more than {MOST_ASKED} prefixes changed, so none was looked at; see configtron tune verify"


@dataclass(frozen=True)
class Applied:
    """The result of an apply.

    driver       name of the driver
    transaction  the transaction in force at the place now; None: nothing is in force
    changes      number of changes made
    frozen       number of changes left out, since another program changed their scope
    lost         nothing is in force, and all wanted rules are frozen
    needs_watch  kept rules that follow a change of the host's routes only while a watch runs
    answers      what clients get of kept rules; why not, where some of more than `MOST_ASKED` prefixes changed
    """

    driver: str
    transaction: Transaction | None
    changes: int
    frozen: int
    lost: bool
    needs_watch: bool
    answers: tuple[Answers, ...] = ()


def apply(
    options: LeaseOptions,
    *,
    lease_s: float = LEASE_S,
    plan_file: Path | None = None,
    on_notice: OnNotice = ignore,
) -> Applied:
    """Put the wanted rules, or those of a saved plan, in force: all of them, or none.

    lease_s    s until a watchdog process undoes the rules, unless they are renewed or kept; 0 keeps them until a
               rollback
    plan_file  a plan as `plan_file.lines` writes it; its driver and place override those of the options
    on_notice  gets the rules in force where an interruption comes after the last write

    Apply does not write again the rules that are in force already; it renews their lease. After an exception or an
    interruption it restores the earlier state. Errors: the driver's; `Refused` by the guard, by another database's
    rules, for a plan that is out of date, or while another process applies; `Mismatch` where the rules do not read
    back; `BadInput` for a lease that is no time.
    """
    check_number("lease_s", lease_s, 0, beside=", in seconds; 0 keeps it")
    with Tuning(options.database) as journal:
        context = context_of(journal)
        with exclusive_lock(options.database):
            recover_due(context)
            place, found = _plan(context, options, plan_file)
            lost = bool(found.counts()[FROZEN]) and not (found.due_count() or found.have.prefixes or found.have.default)
            try:
                transaction = None if lost else _apply(context, options, place, found, lease_s)
            except KeyboardInterrupt:
                current = context.journal.open_act(found.driver.name, place, context.namespace_of(place))
                if current is not None:
                    back = "take it back: configtron tune rollback"
                    on_notice(Notice(f"transaction {current.id} is {current.status}; {back}", logging.WARNING))
                raise
        kept = transaction if transaction is not None and not transaction.lease_s else None
        is_asked = kept is not None and (not found.over or found.prefixes <= MOST_ASKED)
        whole = context.journal.act(kept.id) if kept and is_asked else None
        answers = client_answers(context, whole) if whole else [Answers(note=TOO_MANY)] if kept else ()
        return Applied(found.driver.name, transaction, found.due_count(), found.counts()[FROZEN], lost,
                       kept is not None and isinstance(found.driver, Follower), tuple(answers))  # fmt: skip


def _plan(context: LeaseContext, options: LeaseOptions, plan_file: Path | None) -> tuple[Place, Planned]:
    if plan_file is not None:
        return _saved_plan(context, plan_file)
    return options.place, _few_changes(context, options) or _all_changes(context, options)


def _saved_plan(context: LeaseContext, path: Path) -> tuple[Place, Planned]:
    """Return a saved plan, checked against the rules in force now. Errors: `BadInput`, `Missing`, `Refused`."""
    found = saved(path)
    driver = usable(context.load(found.driver, found.place))
    current = context.journal.open_act(found.driver, found.place, context.namespace_of(found.place))
    want = for_kernel(context.journal.wanted())
    have = in_force(driver, [current.rules, want] if current else [want])
    damage = context.journal.measured_damage()
    target = follow(have, found.advices)
    return found.place, Planned(
        driver, have, target, found.advices, found.held, damage=damage, prefixes=len(target.prefixes)
    )


def _apply(
    context: LeaseContext, options: LeaseOptions, place: Place, found: Planned, lease_s: float
) -> Transaction | None:
    """Apply a plan; where nothing is due, renew the lease of the rules in force, if there are any."""
    (_guard_few if found.over else guard)(found.driver, found.target, judged(found, options.limits))
    current = context.journal.open_act(found.driver.name, place, context.namespace_of(place), bare=True)
    if found.due_count():
        transaction = apply_rules(
            context, found.driver, place, found.have, found.target, lease_s, found.held, found.over
        )
        if current is not None:
            watchdog_process.dismiss(current)
    elif current is None:
        return None
    else:
        transaction = _renewed(context, current, lease_s)
    # Keep a base, if a transaction has in force exactly what was wanted, and the driver has a stamp.
    if found.expected and not found.waiting and isinstance(found.driver, Stamper) and transaction.status in IN_FORCE:
        counts = found.users or prefix_counts(found.target.prefixes)
        users = {name: counts.get(name, 0) for name in found.target.profiles}
        base = AppliedState(transaction.id, found.driver.stamp(), users, found.prefixes, {})
        context.journal.set_applied(base, found.expected)
    if found.over:
        prefixes = StoredPrefixes(context.journal.path, transaction.id, found.prefixes)
        return replace(transaction, rules=replace(found.target, prefixes=prefixes))
    return transaction if transaction.rules.profiles else context.journal.act(transaction.id) or transaction


def _renewed(context: LeaseContext, current: Transaction, lease_s: float) -> Transaction:
    """Give the rules in force another lease, or none."""
    if current.status != LEASED:
        return current
    if not lease_s:
        return keep_transaction(context, current)
    context.journal.renew(current.id, context.now_s() + lease_s, lease_s)
    return context.journal.act(current.id, bare=True) or current


def apply_rules(
    context: LeaseContext,
    driver: Driver,
    place: Place,
    have: Rules,
    target: Rules,
    lease_s: float,
    held: int = 0,
    over: int = 0,
) -> Transaction:
    """Change the rules in force to the target, for `lease_s`; 0 keeps it. Callers hold the lock.

    over   as `Planned` has it: then the transaction is returned without its rules

    All rules come into force, or the earlier state is restored. The lease counts from the moment all are in force.
    Errors: the driver's; `Refused` where another database has rules in force at that place; `Mismatch` where the
    written rules do not read back.
    """
    space = context.namespace_of(place)
    current = context.journal.open_act(driver.name, place, space, bare=True)
    before = current.before if current else driver.before()
    below = 0 if current is None else current.id if current.status == KEPT else current.over
    new = Transaction(driver.name, place, space, context.boot, BEGUN, before, target, lease_s=lease_s, over=below,
                      held=held, expires_s=context.now_s() + (lease_s or HANG_S))  # fmt: skip
    with ownership.owned(context, driver.name, place):
        begin = context.journal.begin
        new = context.journal.begin_over(new, over, changes(have, target)) if over else begin(new)
    # A kept transaction has no end, but until it is complete a watchdog must be there to undo it.
    new = replace(new, watchdog=watchdog_process.start(context, new.id), status=WRITING)
    context.journal.put(new, *_replaced(context, current, new))
    try:
        write(driver, have, target, named=bool(over))
    except BaseException as error:
        _take_back(context, new, error)
        raise
    return _complete(context, replace(new, status=LEASED, expires_s=context.now_s() + lease_s))


def _complete(context: LeaseContext, leased: Transaction) -> Transaction:
    """Journal that all of a transaction is in force: leased, or kept if it has no lease."""
    context.journal.note_sockets(newest_sockets())
    if leased.lease_s:
        context.journal.put(leased)
        return leased
    kept = keep_transaction(context, leased)
    watchdog_process.dismiss(leased)
    return kept


def _take_back(context: LeaseContext, failed: Transaction, error: BaseException) -> None:
    """Undo a transaction that failed. Errors: `Mismatch` with both reasons if that fails too; it is then retried."""
    why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
    try:
        undo(context, failed, why)
    except (ConfigtronError, OSError) as second:
        note_obstacle(context, failed, why, second)
        again = "it is tried again: configtron tune status"
        raise Mismatch(f"{why}; and what stood before is not put back yet ({second}); {again}") from error


def _replaced(context: LeaseContext, current: Transaction | None, by: Transaction) -> list[Transaction]:
    """Return the transactions that one replaces. A kept one stays in the journal with its rules, for an undo."""
    if current is None:
        return []
    if current.id == by.over:
        return [replace(current, status=REPLACED)]
    return [current.closed(REPLACED, f"transaction {by.id}", context.now_s())]


def keep_transaction(context: LeaseContext, leased: Transaction) -> Transaction:
    """Keep a transaction without a lease, until a rollback to the untouched stack."""
    kept = replace(leased, status=KEPT, lease_s=0.0, expires_s=0.0, over=0, watchdog="")
    before = context.journal.act(leased.over, bare=True) if leased.over else None
    closed = [before.closed(REPLACED, f"transaction {leased.id}", context.now_s())] if before else []
    context.journal.put(kept, *closed)
    return kept


def _few_changes(context: LeaseContext, options: LeaseOptions) -> Planned | None:
    """Return the plan from what is in force to what is wanted; None where all must be read. Errors: as `plan`."""
    found = context.journal.applied() if _is_whole(options) else None
    if found is None:
        return None
    base, expected = found
    if not base.prefixes or context.journal.prefix_count() > options.limits.max_prefixes:
        return None
    driver = chosen(context, options, Rules())
    current = context.journal.open_act(driver.name, options.place, context.namespace_of(options.place), bare=True)
    # The transaction in force must be the base's, and the kernel as it was then.
    if current is None or current.id != base.act or current.status not in IN_FORCE or current.boot != context.boot:
        return None
    if not isinstance(driver, Stamper) or driver.stamp() != base.stamp:
        return None
    if frozen_scopes(context, options, driver) or context.journal.acknowledged():
        return None
    part = _planned_part(context.journal, base, driver)
    return part and replace(part, expected=expected)


def _is_whole(options: LeaseOptions) -> bool:
    """Return whether all that is wanted is to come into force."""
    return not options.holdback and options.canary >= 1


def _planned_part(journal: Tuning, base: AppliedState, driver: Driver) -> Planned | None:
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


def _guard_few(_: Driver, target: Rules, limits: Limits) -> None:
    """Ask the guard. The driver has these very profiles in force, so it reaches them: the operator's limits may be
    others. Errors: `Refused`, with its first reasons."""
    wrong = [why for profile in target.profiles.values() for why in why_not(profile, limits)]
    if wrong:
        raise Refused("; ".join(wrong[:NAMED]) + (f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""))


def _all_changes(context: LeaseContext, options: LeaseOptions) -> Planned:
    """Return the plan by reading all. Errors: as `plan`."""
    expected = context.journal.expect_applied() if _is_whole(options) else ""
    return replace(planned(context, options), expected=expected)


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
