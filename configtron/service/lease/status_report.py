# SPDX-License-Identifier: MIT
"""Status, verify and history: the journal, and how the rules in it differ from those in the kernel. Write nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from configtron.db.read_only import read_only
from configtron.db.tuning import Frozen, Tuning
from configtron.model.draw import PARTS
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Value
from configtron.model.protocols import Asker, PlanReader, RefusalCounter
from configtron.model.tuning import Answers, Rules, prefix_counts
from configtron.model.tuning_json import place_of
from configtron.service.lease.context import LeaseContext, context_of
from configtron.service.lease.kernel_rules import in_force, unjournaled, usable
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.processes import alive
from configtron.service.lease.recovery import finish_rollback
from configtron.tune.drivers import FOR_TRIALS
from configtron.tune.drivers.witness import witness
from configtron.tune.journal import IN_FORCE, LEASED, OPEN, UNDOING, Transaction
from configtron.tune.plan import advise
from configtron.tune.rules import prefix_changes

# Transactions of which something is in force; nothing should be of one whose rollback was killed.
SEEN = (*IN_FORCE, UNDOING)
HALF_UNDONE = "its rollback has not ended; end what is still in force: configtron tune rollback"
GONE = "nothing of it is in force: another program took it away (configtron tune verify)"


@dataclass(frozen=True, slots=True)
class TransactionStatus:
    """An open transaction, compared with the kernel.

    watchdog      number of the process that will undo it; "" if none is alive
    lease_left_s  s until its lease ends; 0: also where another program took all of it away; None: it has none
    in_force      prefixes that read back as applied and whose clients get it, as far as asked; None: not compared
    about         the difference or the obstacle, and the next step
    """

    transaction: Transaction
    watchdog: str
    lease_left_s: float | None
    in_force: int | None
    about: str


@dataclass(frozen=True, slots=True)
class StatusReport:
    """transactions: open ones; unjournaled: (driver, what, owner or "") with our marks at the place and in no journal;
    frozen: scopes that another program changed, each with whether a transaction is open there; last: the transaction
    that ended last in this boot."""

    transactions: tuple[TransactionStatus, ...]
    unjournaled: tuple[tuple[str, str, str], ...]
    frozen: tuple[tuple[Frozen, bool], ...]
    last: LoggedTransaction | None = None


def status(options: LeaseOptions) -> StatusReport:
    """Return the transactions in force, their leases, and frozen scopes. Only `unjournaled` depends on the place."""

    def read(journal: Tuning) -> StatusReport:
        context = context_of(journal)
        transactions = tuple(_status_of(context, each) for each in journal.acts(*OPEN))
        found = tuple((one.driver.name, one.what, one.owner) for one in unjournaled(context, options.place))
        ours = {(each.driver, each.place, each.space) for each in journal.acts(*OPEN, bare=True)}
        frozen = tuple((one, (one.driver, place_of(one.place), one.space) in ours) for one in journal.frozen())
        # the transaction that ended last in this boot, the newest of several
        ended = [each for each in history_of(journal) if each.ended_s_ago is not None]
        last = min(ended, key=lambda each: each.ended_s_ago or 0.0, default=None)
        return StatusReport(transactions, found, frozen, last)

    finish_rollback(options.database)
    return read_only(options.database, read)


def _status_of(context: LeaseContext, transaction: Transaction) -> TransactionStatus:
    watchdog = transaction.watchdog.split()[0] if alive(transaction.watchdog) else ""
    left = round(max(transaction.expires_s - context.now_s(), 0.0), 1) if transaction.status == LEASED else None
    about = _about(context, transaction, left, watchdog)
    found, differs = _compared(context, transaction)
    if differs == GONE and left is not None:
        left = 0.0
    notes = (differs, _plan_in_force(context, transaction), about)
    return TransactionStatus(transaction, watchdog, left, found, "; ".join(filter(None, notes)))


def _about(context: LeaseContext, transaction: Transaction, left: float | None, watchdog: str) -> str:
    """Return remarks on a transaction for the operator, beside its comparison with the kernel."""
    if transaction.boot != context.boot:
        return "of an earlier boot: nothing of it is in force"
    if not context.is_within(transaction):
        end = "a reboot ends it" if left is None else "after its lease: configtron tune recover"
        there = f"roll it back there (configtron tune rollback); if that is gone, {end}"
        return f"in another network namespace, {transaction.space}; {there}"
    if transaction.status not in IN_FORCE:
        return transaction.why or "under way, or left behind: configtron tune recover"
    if left is not None and not watchdog:
        return "nobody will undo it: configtron tune recover"
    return transaction.why


def _compared(context: LeaseContext, transaction: Transaction) -> tuple[int | None, str]:
    """Return the number of prefixes that read back as applied (None: not compared), and the differences."""
    if not context.is_here(transaction) or transaction.status not in SEEN:
        return None, ""
    rules = transaction.rules
    notes, lost = list[str](), set[str]()
    try:
        driver = context.load(transaction.driver, transaction.place)
        if lack := driver.missing():
            return None, f"not compared with the kernel: {lack}"
        found = in_force(driver, [rules])
        differences = len(advise(transaction.driver, rules, found))
        for answers in client_answers(context, transaction, pause=False):
            differences += len(answers.differences)
            notes += answers.unasked
            lost |= {each.scope for each in answers.differences}
    except (ConfigtronError, OSError) as error:
        return None, f"not compared with the kernel: {error}"
    same = {name for name, profile in rules.profiles.items() if found.profiles.get(name) == profile}
    differing, _ = prefix_changes(found.prefixes, rules.prefixes)
    counts, lacking = prefix_counts(rules.prefixes), prefix_counts(differing)
    count = sum(number - lacking.get(name, 0) for name, number in counts.items() if name in same)
    count -= sum(found.prefixes.get(one) == rules.prefixes.get(one) in same for one in lost)
    if transaction.status == UNDOING:
        return count, HALF_UNDONE if found.prefixes or found.default else ""
    if not (found.prefixes or found.default) and (rules.prefixes or rules.default):
        return count, GONE
    if differences:
        notes.append(f"{differences} differences in the kernel: configtron tune verify")
    return count, "; ".join(notes)


def _plan_in_force(context: LeaseContext, transaction: Transaction) -> str:
    """Return the plan that the driver draws by, in a few words; "" where none is in force or it cannot be read."""
    if not context.is_here(transaction) or transaction.status not in IN_FORCE:
        return ""
    try:
        driver = context.load(transaction.driver, transaction.place)
        state = driver.plan_state() if isinstance(driver, PlanReader) and not driver.missing() else None
    except (ConfigtronError, OSError):
        return ""
    if state is None:
        return ""
    left_s = (state.not_after - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / 1e9
    lease = (
        f"its lease ends in {left_s:.1f} s" if left_s > 0.0 else "its lease has passed, new connections are untouched"
    )
    return f"epoch {state.epoch}: {state.classes} classes assigned, control group {state.holdback / PARTS:.1%}, {lease}"


class ReadBackDifference(NamedTuple):
    """A knob that does not read back as applied. scope "connections": the kernel refused it there."""

    transaction: int
    driver: str
    scope: str
    knob: str
    applied: Value | None
    found: Value | None


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The number of transactions and prefixes read back, the differences, and what is known of clients."""

    transactions: int
    prefixes: int
    differences: tuple[ReadBackDifference, ...]
    answers: tuple[tuple[Transaction, Answers], ...]


def verify(options: LeaseOptions) -> VerifyReport:
    """Read back from the kernel all rules in force here. Errors: `Missing` where a driver cannot."""

    def read(journal: Tuning) -> VerifyReport:
        context = context_of(journal)
        here = list(filter(context.is_here, journal.acts(*SEEN)))
        differences = tuple(found for each in here for found in _differences(context, each))
        answers = tuple((each, found) for each in here for found in client_answers(context, each))
        return VerifyReport(len(here), sum(len(each.rules.prefixes) for each in here), differences, answers)

    finish_rollback(options.database)
    return read_only(options.database, read)


def client_answers(context: LeaseContext, transaction: Transaction, *, pause: bool = True) -> Iterator[Answers]:
    """Yield the kernel's answers about clients, and what connections show. pause: as `witness` has it."""
    if transaction.status == UNDOING:
        yield Answers(unasked=(HALF_UNDONE,))
        return
    driver = context.load(transaction.driver, transaction.place)
    if isinstance(driver, Asker):
        yield driver.ask(transaction.rules)
    if driver.name != FOR_TRIALS:
        yield from witness(driver, transaction.rules, context.journal.newest_sockets(), pause=pause)


def _differences(context: LeaseContext, transaction: Transaction) -> Iterator[ReadBackDifference]:
    number, name = transaction.id, transaction.driver
    driver = usable(context.load(name, transaction.place), f"transaction {number}: ")
    intent = transaction.rules if transaction.status in IN_FORCE else Rules()
    for wrong in advise(name, intent, in_force(driver, [transaction.rules])):
        yield ReadBackDifference(number, name, wrong.scope, wrong.knob, wrong.was, wrong.to)
    if isinstance(driver, RefusalCounter):
        for knob, (count, why) in driver.refusals().items():
            yield ReadBackDifference(number, name, "connections", knob, None, f"refused {count} times: {why}")


class LoggedTransaction(NamedTuple):
    """A transaction, without its rules. ended_s_ago: None while it is open, and where the end is not known: that of an
    earlier boot."""

    transaction: Transaction
    ended_s_ago: float | None


def history(database: Path) -> list[LoggedTransaction]:
    """Return all transactions, newest first. Write nothing."""
    finish_rollback(database)
    return read_only(database, history_of)


def history_of(journal: Tuning) -> list[LoggedTransaction]:
    """Return all transactions of an open journal, newest first."""
    context = context_of(journal)
    boot, now_s = context.boot, context.now_s()
    return [LoggedTransaction(each, _ended_s_ago(each, boot, now_s)) for each in reversed(journal.acts(bare=True))]


def _ended_s_ago(transaction: Transaction, boot: str, now_s: float) -> float | None:
    is_known = transaction.status not in OPEN and transaction.boot == boot and 0 < transaction.expires_s <= now_s
    return round(now_s - transaction.expires_s, 1) if is_known else None
