# SPDX-License-Identifier: MIT
"""Roll back: restore the stack from before the first apply; or keep the rules in force, without a lease."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from configtron.db.read_only import read_only
from configtron.db.tuning import Tuning
from configtron.model.errors import BadInput, ConfigtronError, Mismatch, Refused
from configtron.model.protocols import Follower
from configtron.model.tuning import Place
from configtron.model.tuning_json import place_text
from configtron.service.lease import watchdog_process
from configtron.service.lease.apply_transaction import keep_transaction
from configtron.service.lease.context import LeaseContext, context_of, exclusive_lock, is_gone
from configtron.service.lease.kernel_rules import others, unjournaled
from configtron.service.lease.options import AUTO, LeaseOptions, Notice, OnNotice, ignore
from configtron.service.lease.ownership import taken_over
from configtron.service.lease.recovery import recover_due
from configtron.service.lease.undo import REQUESTED, UNJOURNALED, JournalBehind, note_obstacle, revert_unjournaled, undo
from configtron.tune.drivers import load
from configtron.tune.journal import KEPT, LEASED, OPEN, Transaction

if TYPE_CHECKING:
    from configtron.tune.drivers.open_connections import Restored


class Closed(NamedTuple):
    """A transaction before and after, with the result for open connections where it was undone."""

    before: Transaction
    after: Transaction
    connections: Restored | None = None


@dataclass(frozen=True)
class RolledBack:
    """The result of a rollback, or of `keep`.

    closed       transactions that were undone or kept
    unjournaled  (driver, state) with our marks that no journal recorded and that the rollback removed
    left         (driver, line): entries of other programs among the removed state; they stay
    frozen       scopes that stay frozen, among those undone
    failed       transactions that could not be undone, one line each; watchdogs and later commands try again
    needs_watch  numbers of kept transactions whose routes follow a change of gateway only while a watch runs
    """

    closed: tuple[Closed, ...] = ()
    unjournaled: tuple[tuple[str, str], ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    frozen: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    needs_watch: tuple[int, ...] = ()


@dataclass
class _Progress:
    """The result so far: one failure prevents no other rollback."""

    closed: list[Closed] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def rollback(options: LeaseOptions, *, last: bool = False, on_notice: OnNotice = ignore) -> RolledBack:
    """Restore the stack, by every driver at the place of the options; any number of times.

    last       undo only transactions that are not kept, as the end of a lease does; without it, remove unjournaled
               state too
    on_notice  gets a notice of state that stays since another database owns it

    Errors: `Refused` while another process applies; `Mismatch` where all is back but the journal cannot be written.
    """
    try:
        journal = Tuning(options.database)
    except UNJOURNALED as error:
        if last:
            raise
        raise Mismatch(_rollback_without_journal(options, error)) from error
    with journal:
        context, progress = context_of(journal), _Progress()
        with exclusive_lock(options.database):
            _undo_all(context, options, last, progress)
            unknown = [] if last else _revert_unknown(context, options, progress.failed, on_notice)
        undone = {(each.before.driver, place_text(each.before.place), each.before.space) for each in progress.closed}
        frozen = [one.scope for one in journal.frozen() if (one.driver, one.place, one.space) in undone]
        for each in progress.closed:
            watchdog_process.dismiss(each.before)
        left = [] if last else _left(context, options.place, progress.closed, unknown)
    return RolledBack(tuple(progress.closed), tuple(unknown), tuple(left), tuple(frozen), tuple(progress.failed))


def keep(options: LeaseOptions) -> RolledBack:
    """Keep the rules in force at the place of the options, without a lease, until a rollback or the next boot."""
    with Tuning(options.database) as journal:
        context, progress = context_of(journal), _Progress()
        needs_watch = []
        with exclusive_lock(options.database):
            for each in _recovered(context, options, progress):
                if each.status == LEASED:
                    progress.closed.append(Closed(each, keep_transaction(context, each)))
                    if isinstance(context.load(each.driver, each.place), Follower):
                        needs_watch.append(each.id)
        for closed in progress.closed:
            watchdog_process.dismiss(closed.before)
    return RolledBack(tuple(progress.closed), failed=tuple(progress.failed), needs_watch=tuple(needs_watch))


def _recovered(context: LeaseContext, options: LeaseOptions, progress: _Progress) -> Iterator[Transaction]:
    """Recover due transactions; yield the open ones at the place of the options."""
    try:
        recover_due(context)
    except JournalBehind as error:
        progress.failed.append(str(error))
    for each in context.journal.acts(*OPEN):
        if context.is_within(each) and _is_meant(each, options):
            yield each


def _is_meant(transaction: Transaction, options: LeaseOptions) -> bool:
    """Return whether driver and place of a transaction match the options; an open option matches all."""
    asked, found = astuple(options.place), astuple(transaction.place)
    return options.driver in (AUTO, transaction.driver) and all(
        word in ("", at) for word, at in zip(asked, found, strict=True)
    )


def _undo_all(context: LeaseContext, options: LeaseOptions, last: bool, progress: _Progress) -> None:
    connections: dict[int, Restored] = {}
    for each in _recovered(context, options, progress):
        if last and each.status == KEPT:
            continue
        try:
            done = undo(context, each, REQUESTED, wholly=not last, watched=True, connections=connections)
            progress.closed.append(Closed(each, done, connections.get(each.id)))
        except (ConfigtronError, OSError) as error:
            note_obstacle(context, each, REQUESTED, error)
            progress.failed.append(f"transaction {each.id} ({each.driver}): {error}")


def _rollback_without_journal(options: LeaseOptions, error: ConfigtronError) -> str:
    """Undo the transactions of a journal that cannot be written (full disk, read-only); return the text to report.

    Errors: `error` itself, where the journal cannot be read, or has nothing in force.
    """
    if not (transactions := _readable(options)):
        raise error
    done, failed = list[str](), list[str]()
    with ExitStack() as stack:
        # Where not even the lock can be opened, no other process can act either.
        with suppress(OSError):
            stack.enter_context(exclusive_lock(options.database))
        for each in transactions:
            name = f"transaction {each.id} ({each.driver})"
            try:
                with suppress(*([BadInput] if is_gone(each.place) else [])):
                    revert_unjournaled(load(each.driver, each.place), each.place, each.before)
                done.append(name)
            except (ConfigtronError, OSError) as why:
                failed.append(f"{name}: {why}")
    back = f"what stood before is back, but not in the journal ({error}); once it can be written, do it again"
    return "; ".join([*failed, *([f"{', '.join(done)}: {back}"] if done else [])])


def _readable(options: LeaseOptions) -> list[Transaction]:
    """Return the open transactions here that a read-only connection sees."""

    def read(journal: Tuning) -> list[Transaction]:
        context = context_of(journal)
        ours = filter(context.is_here, journal.acts(*OPEN, bare=True))
        return [each for each in ours if _is_meant(each, options) and not taken_over(context, each)]

    try:
        return read_only(options.database, read)
    except ConfigtronError:
        return []


def _revert_unknown(
    context: LeaseContext, options: LeaseOptions, failed: list[str], on_notice: OnNotice
) -> list[tuple[str, str]]:
    """Revert state with our marks that no journal records; return (driver, state) of each.

    Errors: `Refused`, where it is another database's and its driver was named.
    """
    reverted: list[tuple[str, str]] = []
    named = "" if options.driver == AUTO else options.driver
    for driver, what, owner in unjournaled(context, options.place, named):
        if owner and named:
            raise Refused(owner)
        if owner:
            on_notice(Notice(f"{driver.name}: {what} stay: {owner}", logging.WARNING))
            continue
        try:
            # A driver that is pinned for some listeners has a narrower place than the options.
            restored = revert_unjournaled(driver, driver.place, driver.before())
            reverted.append((driver.name, f"{what}; {restored.text}" if restored.text else what))
        except (ConfigtronError, OSError) as error:
            failed.append(f"{driver.name}, in no journal: {error}")
    return reverted


def _left(
    context: LeaseContext, place: Place, closed: Iterable[Closed], unknown: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return (driver, entry) of other programs among the removed state; these entries stay."""
    places = {(each.before.driver, each.before.place) for each in closed} | {(driver, place) for driver, _ in unknown}
    return [(name, line) for name, at in sorted(places, key=str) for line in others(context.load(name, at))]
