# SPDX-License-Identifier: MIT
"""Watch: recover what is due, renew leases, follow the host's routes, and yield to external changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from configtron.db.tuning import Tuning
from configtron.model.bounds import check_number
from configtron.model.errors import ConfigtronError, Refused
from configtron.model.protocols import Asker, Driver, Follower, Listener
from configtron.model.records import Json
from configtron.model.tuning import Rules
from configtron.model.tuning_json import value_text
from configtron.service.lease.context import LeaseContext, context_of, exclusive_lock
from configtron.service.lease.options import LeaseOptions, Notice, OnNotice, ignore
from configtron.service.lease.recovery import recover_due
from configtron.tune.journal import LEASED, Transaction
from configtron.tune.plan import IPV4, IPV6, PLACE, SINGLY, advise, holds_scope, lost_together, recognised

log = logging.getLogger("configtron.tune")
# A lease is renewed when a third of it is gone: a watch may miss many turns before it ends.
RENEW_BELOW = 2 / 3
# s; an external change is reported within a second: after this wait, three quarters of a second are left for reading a
# hundred thousand routes back. A turn without news costs 3 ms.
TURN_S = 0.25


class WatchEvent(NamedTuple):
    """What happened: foreign (an external change), undone, failed (a driver did not answer)."""

    event: str
    transaction: Transaction
    scope: str = ""
    was: str = ""
    found: str = ""

    @property
    def text(self) -> str:
        """Return the event in one line."""
        name = f"transaction {self.transaction.id} ({self.transaction.driver})"
        if self.event == "foreign":
            ends = f"{self.was or 'none'} became {self.found or 'none'}"
            return f"{name}: {self.scope}: {ends} by an external change; frozen"
        return f"{name}: {self.event}: {self.found}"

    def form(self) -> dict[str, Json]:
        """Return the event as a row."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {"kind": "event", "at": now, "event": self.event, "act": self.transaction.id,
                "driver": self.transaction.driver, "scope": self.scope, "was": self.was,
                "found": self.found}  # fmt: skip


def watch(
    options: LeaseOptions,
    on_events: Callable[[list[WatchEvent]], None],
    on_notice: OnNotice = ignore,
    *,
    stop: Callable[[], bool] = lambda: False,
    span_s: float | None = None,
) -> None:
    """Watch what is in force here, four times a second, until `stop` returns true or for `span_s`.

    A turn that has begun is finished, so nothing is done by half. A notice says what is watched at the beginning.
    Errors: `BadInput` for a journal that cannot be read; a driver that fails is an event.
    """
    check_number("span_s", span_s, 0, beside=", or None until it is stopped", absent=True)
    until = None if span_s is None else time.monotonic() + span_s
    with Tuning(options.database) as journal:
        watcher = Watcher(context_of(journal))
        watched = "watching " + ", ".join(f"transaction {number}" for number in _to_watch(journal))
        none = "nothing of ours is in force; waiting for: configtron tune apply"
        on_notice(Notice(watched if _to_watch(journal) else none))
        while not stop() and (until is None or time.monotonic() < until):
            began = time.monotonic()
            if events := watcher.turn():
                on_events(events)
            time.sleep(max(TURN_S - (time.monotonic() - began), 0))


def _to_watch(journal: Tuning) -> dict[int, str]:
    """Return the status of the transactions in force, by number, but for that of a fleet's agent, which watches it."""
    numbers = journal.in_force()
    numbers.pop(journal.fleet_act(), None)
    return numbers


class _InForce:
    """One transaction in force, its driver, and the driver's mark once all was read back; None before."""

    def __init__(self, transaction: Transaction, driver: Driver) -> None:
        self.transaction, self.driver = transaction, driver
        self.mark: str | None = None
        self.failing = False
        # Whether to ask the kernel where it leads clients: at the turn after all was read, whose events come first.
        self.to_ask = False
        self._frozen: frozenset[str] = frozenset()
        self._untouched = transaction.rules

    def without(self, frozen: frozenset[str]) -> Rules:
        """Return the rules without frozen scopes; computed once for a set, as there may be a hundred thousand."""
        if frozen != self._frozen:
            wide, rules = frozen & {PLACE, IPV4, IPV6}, self.transaction.rules
            others = {prefix: name for prefix, name in rules.prefixes.items() if prefix not in frozen
                      and not any(holds_scope(scope, prefix) for scope in wide)}  # fmt: skip
            self._frozen = frozen
            self._untouched = replace(rules, prefixes=others, default="" if PLACE in wide else rules.default)
        return self._untouched


class Watcher:
    """Watch what is in force here. Rules are read from the journal once; a turn compares the drivers' marks."""

    def __init__(self, context: LeaseContext) -> None:
        self._context = context
        self._watched: dict[int, _InForce] = {}

    def turn(self) -> list[WatchEvent]:
        """Do all of it once; nothing while another process applies, whose changes are not external."""
        try:
            with exclusive_lock(self._context.journal.path, 0):
                events = [WatchEvent("undone", each, found=each.why) for each in recover_due(self._context)]
                self._reread()
                for one in self._watched.values():
                    events += self._look(one)
                return events
        except Refused:
            return []

    def _reread(self) -> None:
        """Add transactions that came into force, and drop those that went."""
        context, numbers = self._context, _to_watch(self._context.journal)
        for number in self._watched.keys() - numbers.keys():
            del self._watched[number]
        for number in numbers.keys() - self._watched.keys():
            each = context.journal.act(number)
            if each is not None and context.is_here(each):
                self._watched[number] = _InForce(each, context.load(each.driver, each.place))

    def _look(self, one: _InForce) -> list[WatchEvent]:
        """Renew the lease of one transaction and return what happened to it since the last turn."""
        journal, now_s = self._context.journal, self._context.now_s()
        status, expires_s = journal.state(one.transaction.id)
        if status == LEASED and expires_s - now_s < one.transaction.lease_s * RENEW_BELOW:
            journal.renew(one.transaction.id, now_s + one.transaction.lease_s)
        try:
            self._follow(one)
            events = self._changes(one)
            one.failing = False
            return events
        except (ConfigtronError, OSError) as error:
            # Changes that were announced meanwhile may be lost with it: the next turn reads all.
            was_failing, one.failing, one.mark = one.failing, True, None
            return [] if was_failing else [WatchEvent("failed", one.transaction, found=str(error))]

    def _changes(self, one: _InForce) -> list[WatchEvent]:
        """Return external changes, by the least reading that shows them."""
        events = self._announced(one)
        if events is None:
            mark = one.driver.mark()
            # A change before the first turn has no mark: then all is read.
            events = self._read_all(one) if mark != one.mark else self._asked(one)
            one.mark = mark
        elif not events:
            events = self._asked(one)
        return events

    def _follow(self, one: _InForce) -> None:
        """Lead routes where the host's own lead now (a gateway changed, a link came back), but for frozen scopes."""
        if not isinstance(one.driver, Follower):
            return
        number, driver = one.transaction.id, one.transaction.driver
        frozen = frozenset(scope.scope for scope in self._context.journal.frozen() if scope.driver == driver)
        if count := one.driver.follow(one.without(frozen)):
            log.info("transaction %d (%s): %d routes follow the host's own", number, driver, count)

    def _announced(self, one: _InForce) -> list[WatchEvent] | None:
        """Return changes among the prefixes that the kernel announced as written; None where all must be read."""
        if one.mark is None or not isinstance(one.driver, Listener) or (news := one.driver.news()) is None:
            return None
        written, found = news
        if not written:
            return []
        rules = one.transaction.rules
        ours = {prefix: rules.prefixes[prefix] for prefix in written if prefix in rules.prefixes}
        if len(ours) == len(rules.prefixes) > 1:
            return None  # all at once: only the whole shows whether they are lost together
        return self._foreign(one, replace(rules, prefixes=ours, default=""), found)

    def _read_all(self, one: _InForce) -> list[WatchEvent]:
        """Return external changes, by reading all."""
        rules, found = one.transaction.rules, recognised(one.driver.read(), [one.transaction.rules])
        wide = lost_together(rules, found)
        one.to_ask = PLACE not in wide
        return self._foreign(one, rules, found, wide)

    def _asked(self, one: _InForce) -> list[WatchEvent]:
        """Ask the kernel where clients are led, where the driver can and it is due."""
        to_ask, one.to_ask = one.to_ask, False
        if not to_ask or not isinstance(one.driver, Asker):
            return []
        differences = one.driver.ask(one.transaction.rules).differences
        alike = self._freeze(one.transaction, ((each.scope, (each.applied, each.found)) for each in differences))
        return [WatchEvent("foreign", one.transaction, _scopes_text(scopes), *ends) for ends, scopes in alike.items()]

    def _foreign(self, one: _InForce, wanted: Rules, found: Rules, wide: Collection[str] = ()) -> list[WatchEvent]:
        """Freeze what another program changed, and return one event a scope; each change is reported once.

        What was lost together is one scope (`wide`): a program detached at a hundred thousand prefixes is one event. So
        are many prefixes that were changed alike: a storm is one event.
        """
        scopes = _changed_scopes(one.transaction, wanted, recognised(found, [one.transaction.rules]), wide)
        alike = self._freeze(one.transaction, scopes.items())
        return [event for ends, each in alike.items() for event in _events(one.transaction, each, ends)]

    def _freeze(
        self, transaction: Transaction, changes: Iterable[tuple[str, tuple[str, str]]]
    ) -> dict[tuple[str, str], list[str]]:
        """Freeze scopes (with what was applied and what is found); return those that are news, by what they share."""
        known = self._context.journal.known(transaction.id)
        fresh = [(scope, ends) for scope, ends in changes if (scope, ends[1]) not in known]
        self._context.journal.freeze(transaction, dict(fresh))
        alike: dict[tuple[str, str], list[str]] = {}
        for scope, ends in fresh:
            alike.setdefault(ends, []).append(scope)
        return alike


def _changed_scopes(
    transaction: Transaction, wanted: Rules, found: Rules, wide: Collection[str]
) -> dict[str, tuple[str, str]]:
    """Return scope -> (settings as wanted, settings as found) for all that differs."""
    scopes = {scope: (_content(wanted, scope), "") for scope in wide}
    for wrong in advise(transaction.driver, wanted, found):
        if any(holds_scope(lost, wrong.scope) for lost in wide):
            continue
        was, now = (f"{wrong.knob}={value_text(end)}" if end is not None else "" for end in (wrong.was, wrong.to))
        before = scopes.get(wrong.scope, ("", ""))
        scopes[wrong.scope] = (f"{before[0]} {was}".strip(), f"{before[1]} {now}".strip())
    return scopes


def _events(transaction: Transaction, scopes: list[str], ends: tuple[str, str]) -> list[WatchEvent]:
    """Return an event for each scope that was changed alike; for more than `SINGLY` of them one."""
    if len(scopes) > SINGLY:
        return [WatchEvent("foreign", transaction, _scopes_text(scopes), *ends)]
    return [WatchEvent("foreign", transaction, scope, *ends) for scope in scopes]


def _scopes_text(scopes: list[str]) -> str:
    return scopes[0] if len(scopes) == 1 else f"{len(scopes)} prefixes, e.g. {scopes[0]}"


def _content(wanted: Rules, scope: str) -> str:
    """Return what a wide scope had, in a few words."""
    prefixes = sum(1 for prefix in wanted.prefixes if holds_scope(scope, prefix))
    return f"{prefixes} prefixes" + (f", default {wanted.default}" if wanted.default and scope == PLACE else "")
