# SPDX-License-Identifier: MIT
"""Put an applier's rules in force on this host as one apply transaction, which changes are journaled to.

The transaction is leased, and renewed each second; its watchdog undoes it when the lease ends, whatever becomes of the
agent, and a kernel that draws ends it by itself. A change is journaled before it is written. The driver stays open.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from configtron.db.agent_journal import AgentJournal
from configtron.model.draw import Mix, Plan
from configtron.model.errors import BadInput, ConfigtronError, Mismatch, Missing, Refused, Unwritten
from configtron.model.nouns import Profile
from configtron.model.protocols import Drawing, Driver, PerListener, RecordMarker, RecordStopper
from configtron.model.tuning import Changes, Rules
from configtron.service.fleet.applier import LeaseOver
from configtron.service.fleet.map_journal import DrawnPlace
from configtron.service.lease import watchdog_process
from configtron.service.lease.apply_transaction import apply_rules
from configtron.service.lease.context import LeaseContext, context_of, exclusive_lock
from configtron.service.lease.kernel_rules import in_force, usable
from configtron.service.lease.options import AUTO, LeaseOptions
from configtron.service.lease.planner import reach_of
from configtron.service.lease.recovery import recover_due
from configtron.service.lease.undo import JournalBehind, undo
from configtron.tune.drivers import load
from configtron.tune.guard import why_not
from configtron.tune.journal import LEASED, Transaction
from configtron.tune.listeners import listeners_of, listeners_text
from configtron.tune.plan import PLACE, advise, lost_together, recognised

if TYPE_CHECKING:
    from configtron.service.lease.retuning import Choice, RetuneCount

log = logging.getLogger("configtron.fleet")

# Changes that are journaled until the rules are written whole again.
MOST_CHANGES = 500


class JournaledEnforcement:
    """Rules of one place, by one driver, through the journal of one database.

    marker   the reader of connections' ends where the driver has no records: it learns which were re-tuned
    """

    def __init__(self, options: LeaseOptions, journal: AgentJournal, driver: Driver) -> None:
        self._options, self._journal, self._driver = options, journal, usable(driver)
        self._context: LeaseContext = context_of(journal)
        self._transaction: Transaction | None = None
        self.marker: RecordMarker | None = None
        self._mark = self._unselected = ""
        # Of a place that another program changed: whether nothing is left of ours, and the mark by which that is known.
        self._gone = False, ""
        self._changes = 0
        self._inherits_plan = False
        self._reach = reach_of(driver)

    @property
    def driver(self) -> Driver:
        """Return the driver, held open."""
        return self._driver

    def drawing(self) -> Drawing:
        """Return the driver, which draws: another one once a map names other ports."""
        assert isinstance(self._driver, Drawing)
        return self._driver

    @property
    def draws(self) -> bool:
        """Whether the kernel draws."""
        return isinstance(self._driver, Drawing)

    def human_rules(self) -> Rules:
        """Return the rules that a human has in force here, which stay."""
        current = self._current()
        if current is None:
            return Rules()
        mine = self._journal.fleet_act()
        if current.id == mine:
            below = self._journal.act(current.over) if current.over else None
            return below.rules if below else Rules()
        return current.rules

    def _current(self) -> Transaction | None:
        place = self._driver.place
        return self._journal.open_act(self._driver.name, place, self._context.namespace_of(place))

    def _driver_of(self, ports: tuple[int, ...]) -> Driver:
        """Return the driver for connections to these ports. Errors: `Missing`, `Refused` where it cannot select them.

        A route is the same for every port. It is used where the operator named its driver, and never by default.
        """
        place = replace(self._options.place, listen=selected(self._options.place.listen, ports))
        driver = load(self._driver.name, place)
        if isinstance(self._driver, PerListener):
            return self._driver if place == self._driver.place else usable(driver)
        why = driver.missing()
        if why and self._options.driver == AUTO:
            raise Refused(f"driver {driver.name} cannot select ports {place.listen}: connections to every port, sshd's"
                          f" too, would be tuned ({why}); to allow that, name it: --driver {driver.name}")  # fmt: skip
        if why and place.listen != self._unselected:
            self._unselected = place.listen
            log.warning("driver %s cannot select ports %s: connections of the map's clients to every port are tuned",
                        driver.name, place.listen)  # fmt: skip
        return self._driver

    def barred(self, profile: Profile) -> str:
        """Return why the driver, the operator's bounds or the guard refuse a profile; ""."""
        return next(why_not(profile, self._options.limits, self._reach), "")

    def begin(self, rules: Rules, lease_s: float, ports: tuple[int, ...] = ()) -> None:
        """Put rules in force as a transaction; one of an earlier start of the agent is taken over as it stands.

        ports  local ports whose connections are meant; none: those of the options' place

        Errors: the driver's; `Refused` while another process applies, and where the driver cannot select the ports;
        `Mismatch`.
        """
        driver = self._driver_of(ports) if ports else self._driver
        if self._transaction is not None and driver.place != self._driver.place:
            self.release()
        if driver is not self._driver and isinstance(self._driver, RecordStopper):
            # The module keeps records for each reader.
            self._driver.stop_records()
        self._driver = driver
        with exclusive_lock(self._options.database):
            self._recover()
            current = self._current()
            if current is not None and current.id != self._journal.fleet_act() and driver.place != self._options.place:
                listen = driver.place.listen
                raise Refused(f"transaction {current.id}, which this agent did not begin, is in force for"
                              f" {listen}; start the agent with --listen {listen} to keep its rules, or roll it back:"
                              " configtron tune rollback")  # fmt: skip
            have = in_force(self._driver, [current.rules, rules] if current else [rules])
            if current is not None and current.status == LEASED and not advise(self._driver.name, rules, have):
                self._transaction = current
                self._renew(lease_s)
            else:
                place = self._driver.place
                # the plan of an earlier start draws profiles that the new rules may not have
                if current is not None and isinstance(self._driver, Drawing):
                    with suppress(Missing):
                        self._driver.drop_plan()
                self._transaction = apply_rules(self._context, self._driver, place, have, rules, lease_s)
                if current is not None:
                    watchdog_process.dismiss(current)
            self._journal.set_fleet_act(self._transaction.id)
            self._inherits_plan = current is not None
        self._mark, self._changes = self._driver.mark(), 0

    def _recover(self) -> None:
        """Close what is due. Errors: `Unwritten` for a journal without room: then another try may succeed."""
        try:
            recover_due(self._context)
        except JournalBehind as error:
            raise Unwritten(str(error.__cause__ or error)) from error

    def change(self, changes: Changes, target: Rules) -> None:
        """Journal changes, write them, and compare what reads back. Errors: the driver's; `Mismatch`; `Refused`."""
        transaction = self._held()
        with exclusive_lock(self._options.database):
            self._check_leased(transaction)
            self._journal.add_change(transaction.id, changes)
            try:
                back = recognised(self._driver.apply(changes), [target])
                wanted = Rules(changes.profiles, changes.prefixes, back.default)
                if wrong := advise(self._driver.name, wanted, back):
                    raise Mismatch(f"driver {self._driver.name}: does not read back as written: {wrong[0].text}")
            except BaseException as error:
                self._take_back(transaction, error)
                raise
            self._changes += 1
            if self._changes >= MOST_CHANGES:
                self._journal.fold_changes(transaction.id, target)
                self._changes = 0
        self._mark = self._driver.mark()

    def _take_back(self, transaction: Transaction, error: BaseException) -> None:
        """Leave what was in force before a change that failed, or else nothing of ours. Errors: the driver's."""
        self._journal.drop_change(transaction.id)
        before = self._journal.act(transaction.id)
        if before is not None and advise(self._driver.name, before.rules, in_force(self._driver, [before.rules])):
            self._transaction = None
            undo(self._context, transaction, str(error) or type(error).__name__)

    def turn(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        """Load a plan and turn to it. Errors: the driver's."""
        assert isinstance(self._driver, Drawing)
        try:
            self._driver.load_plan(plan, mixes)
        except BadInput:
            if not self._inherits_plan:
                raise
            # An earlier start of the agent had other mixes in this epoch.
            self._driver.drop_plan()
            self._driver.load_plan(plan, mixes)
        self._inherits_plan = False
        self._driver.turn()
        self._mark = self._driver.mark()

    def renew(self, lease_s: float) -> None:
        """Let the lease last that long from now. Errors: `LeaseOver` where it has ended; the driver's."""
        with exclusive_lock(self._options.database):
            self._renew(lease_s)

    def _renew(self, lease_s: float) -> None:
        transaction = self._watched(self._held())
        until_s = self._context.now_s() + lease_s
        if not self._journal.renew(transaction.id, until_s, lease_s):
            self._transaction = None
            raise LeaseOver(f"transaction {transaction.id} of the agent is over; the map is put in force anew")
        if isinstance(self._driver, Drawing):
            self._driver.renew(round(until_s * 1e9))

    def _watched(self, transaction: Transaction) -> Transaction:
        """Start another watchdog where a transaction's has ended. Errors: `Refused` where none starts; then the
        transaction is undone, as its lease would end nothing."""
        if watchdog_process.is_watched(transaction):
            return transaction
        log.warning("the watchdog of transaction %d has ended, and another one is started: should this agent end too,"
                    " it puts back what stood before", transaction.id)  # fmt: skip
        try:
            watchdog = watchdog_process.start(self._context, transaction.id)
        except (ConfigtronError, OSError) as error:
            self._transaction = None
            undo(self._context, transaction, "it has no watchdog")
            raise Refused(f"Default applies, as no watchdog of the agent's rules starts: {error}") from error
        self._transaction = replace(transaction, watchdog=watchdog)
        return self._transaction

    def retune(self, choose: Choice, profiles: Iterable[Profile], until_s: float = float("inf")) -> RetuneCount:
        """Give open connections what `choose` wants, as `OpenRetuner.retune`. Errors: its own; `LeaseOver`."""
        from configtron.service.lease.retuning import OpenRetuner

        transaction = self._held()
        with exclusive_lock(self._options.database):
            self._check_leased(transaction)
            here = OpenRetuner(self._context, self._driver, self._driver.place, self.marker)
            return here.retune(choose, profiles, until_s)

    def foreign(self) -> str:
        """Return what another program changed, in one line, and freeze the place; "": nothing."""
        if self._transaction is None or (mark := self._driver.mark()) == self._mark:
            return ""
        current = self._journal.act(self._transaction.id)
        if current is None or current.status != LEASED:
            self._mark = mark
            return ""
        found = recognised(self._driver.read(), [current.rules])
        wrong = advise(self._driver.name, current.rules, found)
        if not wrong:
            self._mark = mark
            return ""
        whole = bool(lost_together(current.rules, found))
        line = "all of it is gone" if whole else f"{wrong[0].text}" + (f" and {len(wrong) - 1} more" * (len(wrong) > 1))
        self._journal.freeze(current, {PLACE: (f"{len(current.rules.prefixes)} prefixes", line)})
        # Not before: without room for the freeze, the change is news still.
        self._mark, self._gone = mark, (not (found.prefixes or found.default), mark)
        return line

    def gone(self) -> bool:
        """Return whether nothing is left of ours where another program changed it: as of the last time it was quiet."""
        if self._transaction is None:
            return True
        with suppress(ConfigtronError, OSError):
            before, self._mark = self._mark, self._driver.mark()
            # A table is read once the other program is done with it: a large one takes a second.
            if self._mark == before and self._mark != self._gone[1]:
                found = self._driver.read()
                self._gone = not (found.prefixes or found.default), self._mark
        return self._gone[0]

    def frozen(self) -> str:
        """Return why this place is frozen; "": it is not."""
        rows = (each for each in self._journal.frozen() if each.driver == self._driver.name and each.scope == PLACE)
        return next((each.found for each in rows), "")

    def keep(self, document: bytes, term: int, version: int) -> None:
        """Journal a document that was accepted."""
        self._journal.keep_document(document, term, version)

    def turned(self, drawn: DrawnPlace) -> None:
        """Journal which map is drawn from in which epoch; documents before it are not needed any more."""
        self._journal.set_drawn(*drawn)

    def dropped(self, place: tuple[int, int]) -> None:
        """Journal that the documents after this one were given up."""
        self._journal.drop_documents(place)

    def drawn(self) -> DrawnPlace:
        """Return which map an earlier start drew from last."""
        return DrawnPlace(*self._journal.drawn())

    def documents(self) -> list[bytes]:
        """Return the documents of an earlier start, in order."""
        return self._journal.documents()

    def release(self) -> None:
        """Put back what stood before, at the agent's orderly end. Errors: the driver's."""
        if self._transaction is not None:
            with exclusive_lock(self._options.database):
                status, _ = self._journal.state(self._transaction.id)
                if status == LEASED:
                    undo(self._context, self._transaction, "the agent was stopped")
                    watchdog_process.dismiss(self._transaction)
            self._transaction = None
        if isinstance(self._driver, RecordStopper):
            self._driver.stop_records()

    def _held(self) -> Transaction:
        if self._transaction is None:
            raise ConfigtronError("nothing of the fleet's map is in force")
        return self._transaction

    def _check_leased(self, transaction: Transaction) -> None:
        status, _ = self._journal.state(transaction.id)
        if status != LEASED:
            self._transaction = None
            raise LeaseOver(f"transaction {transaction.id} of the agent is {status}; the map is put in force anew")


def selected(allowed: str, ports: tuple[int, ...]) -> str:
    """Return the listeners of a map's ports that the operator allows, as `Place` names them; allowed "": all.

    Errors: `Refused` where none is left.
    """
    if not allowed:
        return listeners_text(map(str, ports))
    kept = [one.text for one in listeners_of(allowed) if one.port in ports]
    if not kept:
        raise Refused(f"the map tunes ports {listeners_text(map(str, ports))}, and --listen allows {allowed} alone")
    return listeners_text(kept)
