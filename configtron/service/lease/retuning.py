# SPDX-License-Identifier: MIT
"""Re-tune open connections of some prefixes, journaled socket by socket, and put them back.

Question   A prefix has another class: what do its open connections get, and how is that taken back?
Method     Each connection gets what a new one of its client would get. What stands on a socket is journaled before it
           is changed; a rollback, the end of a lease or the prefix's way back to its former class sets it again. A
           setting that the program has changed since stays the program's. A connection is known by its cookie, so one
           that took over an address, a port or an inode is not touched.
Stop when  all are done, or the time is over: the rest is for the next call.
Reads as   `RetuneCount`.
Fails as   Counted: what the kernel refused, and connections that ended. Errors of the journal end the call with every
           socket as the journal has it.
Source     pidfd_getfd(2), sock_diag(7)
"""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from configtron.db.retuned import RetunedPlace
from configtron.db.tuning import Tuning
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile, Value
from configtron.model.protocols import Driver, Mover, RecordMarker, SocketAssigner
from configtron.model.socket_changes import SocketChange
from configtron.model.tuning import Place
from configtron.model.tuning_json import place_text
from configtron.service.lease.context import LeaseContext, context_of, exclusive_lock
from configtron.service.lease.kernel_rules import usable
from configtron.service.lease.options import LeaseOptions
from configtron.tune.drivers.pidfd_options import OpenClient, OptionChanger, beyond, lent, open_clients, put
from configtron.tune.drivers.socket_options import CONTROL, option_value
from configtron.tune.journal import IN_FORCE, Transaction

log = logging.getLogger("configtron.tune")

# Sockets that are borrowed at a time; they are journaled by one transaction.
BATCH = 128
# What the journal calls the profile of a driver that gives profiles to sockets (`SocketAssigner`).
ASSIGNED = "profile"


class SocketTarget(NamedTuple):
    """What a connection is to have: its prefix, the class that this had before and has now, its client's profile."""

    prefix: str
    former: str
    now: str
    profile: Profile


# Chooses the targets of open connections by cookie; those that it leaves out are not touched.
Choice = Callable[[Sequence[OpenClient]], Mapping[int, SocketTarget]]


@dataclass(slots=True)
class RetuneCount:
    """What became of open connections.

    connections   that were to be changed, of them `changed` and `put_back` (to what they had before an earlier change)
    left          why -> how many: a knob without a socket option or that the kernel refused; "not reached"
    later         cookies of those for which the time was too short
    """

    connections: int = 0
    changed: int = 0
    put_back: int = 0
    left: Counter[str] = field(default_factory=Counter)
    later: frozenset[int] = frozenset()

    @property
    def text(self) -> str:
        """One line; "" if there were none."""
        if not self.connections:
            return ""
        parts = [f"{self.changed} of {self.connections} open connections re-tuned"]
        parts += [f"{self.put_back} put back"] if self.put_back else []
        parts += [f"{len(self.later)} to come"] if self.later else []
        parts += [f"{count} {why} left" for why, count in sorted(self.left.items())]
        return ", ".join(parts)


class OpenRetuner:
    """Open connections at one place, by one driver, through one journal. Callers hold `exclusive_lock`.

    marker   marks re-tuned connections where the driver does not; None: no records are read
    """

    def __init__(self, context: LeaseContext, driver: Driver, place: Place, marker: RecordMarker | None = None) -> None:
        self._journal, self._driver, self._place = context.journal, driver, place
        self._marker = driver if isinstance(driver, RecordMarker) else marker
        self._at = RetunedPlace(context.boot, driver.name, place_text(place), context.namespace_of(place))

    def retune(self, choose: Choice, profiles: Iterable[Profile], until_s: float = float("inf")) -> RetuneCount:
        """Give open connections their targets until a time of `time.monotonic`.

        profiles  all that the rules in force may give

        Errors: `Missing` without inet_diag or CAP_SYS_PTRACE; `BadInput` where the journal cannot be written.
        """
        found = open_clients(self._place)
        had = self._journal.retuned(self._at)
        if ended := had.keys() - {one.cookie for one in found}:
            self._journal.drop_retuned(self._at, ended)
        targets = choose(found)
        done = RetuneCount(len(targets))
        if not targets:
            return done
        changer = OptionChanger(self._place, profiles, wraps=self._driver.name == "ebpf")
        waiting = {one.cookie: one for one in found if one.cookie in targets}
        batch: list[tuple[OpenClient, socket.socket]] = []
        with ExitStack() as stack:
            for one, lent_socket in lent(list(waiting.values())):
                batch.append((one, stack.enter_context(lent_socket)))
                del waiting[one.cookie]
                if len(batch) == BATCH:
                    self._change(batch, targets, had, changer, done)
                    batch = []
                    stack.close()
                    if time.monotonic() >= until_s:
                        done.later = frozenset(waiting)
                        return done
            self._change(batch, targets, had, changer, done)
        done.left["not reached"] += len(waiting)
        done.left = +done.left
        return done

    def _change(
        self, batch: Sequence[tuple[OpenClient, socket.socket]], targets: Mapping[int, SocketTarget],
        had: Mapping[int, SocketChange], changer: OptionChanger, done: RetuneCount,
    ) -> None:  # fmt: skip
        """Journal a batch, then set it; connections whose prefix is of their former class again are put back."""
        back, changes = list[tuple[socket.socket, SocketChange]](), list[tuple[socket.socket, SocketChange]]()
        for client, one in batch:
            target, earlier = targets[client.cookie], had.get(client.cookie)
            if earlier is not None and earlier.former == target.now:
                back.append((one, earlier))
                continue
            if not isinstance(self._driver, SocketAssigner):
                done.left.update(beyond(self._driver.name, target.profile))
            before, given = self._difference(changer, one, client.port, target.profile)
            if given:
                change = SocketChange(client.cookie, target.prefix, target.former, before, given)
                changes.append((one, change))
        journaled = [had[one.cookie].then(one) if one.cookie in had else one for _, one in changes]
        if journaled:
            self._journal.put_retuned(self._at, journaled)
        for one, change in changes:
            done.left.update(self._set(one, change.given))
        if self._marker is not None:
            # Their page loads had two profiles.
            self._marker.mark_moved({change.cookie: one.fileno() for one, change in changes})
        done.changed += len(changes)
        for one, earlier in back:
            done.left.update(self._set_back(one, earlier))
        done.put_back += len(back)
        if back:
            self._journal.drop_retuned(self._at, [earlier.cookie for _, earlier in back])

    def _difference(
        self, changer: OptionChanger, one: socket.socket, port: int, profile: Profile
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """Return what stands on a socket and what is to be set, where they differ."""
        before, given = changer.difference(one, port, profile)
        if isinstance(self._driver, SocketAssigner):
            held, name = self._driver.assigned(one.fileno()), profile.name if profile.settings else ""
            if held != name:
                before[ASSIGNED], given[ASSIGNED] = held, name
        return before, given

    def _set(self, one: socket.socket, values: Mapping[str, Value]) -> Counter[str]:
        """Set a profile by the driver, where it can, and options; return what was refused.

        With a profile of the driver's the congestion control is the driver's own, of the same name.
        """
        options = dict(values)
        name = options.pop(ASSIGNED, None)
        if name is not None and isinstance(self._driver, SocketAssigner):
            if name:
                options.pop(CONTROL, None)
            try:
                self._driver.assign(one.fileno(), str(name))
            except (ConfigtronError, OSError):
                return Counter((ASSIGNED,))
        return put(one, options)

    def _set_back(self, one: socket.socket, change: SocketChange) -> Counter[str]:
        """Set what a socket had, where it still has what it was given."""
        options = {knob for knob in change.given if knob != ASSIGNED}
        still = {knob for knob in options if option_value(one, knob) == change.given[knob]}
        if ASSIGNED in change.given and isinstance(self._driver, SocketAssigner):
            if self._driver.assigned(one.fileno()) == change.given[ASSIGNED]:
                still.add(ASSIGNED)
        return self._set(one, {knob: value for knob, value in change.before.items() if knob in still})

    def put_back(self) -> RetuneCount:
        """Set every connection that was re-tuned here to what it had before. Errors: those of `retune`."""
        had = self._journal.retuned(self._at)
        done = RetuneCount(len(had))
        if not had:
            return done
        found = [one for one in open_clients(self._place) if one.cookie in had]
        for client, one in lent(found):
            with one:
                done.left.update(self._set_back(one, had[client.cookie]))
                done.put_back += 1
        done.left["not reached"] += len(found) - done.put_back
        done.left = +done.left
        self._journal.drop_retuned(self._at, had.keys())
        return done


def put_back_all(context: LeaseContext, driver: Driver, place: Place) -> None:
    """Put back the connections that were re-tuned there, before the driver's rules go; warn where that fails."""
    try:
        done = OpenRetuner(context, driver, place).put_back()
    except (ConfigtronError, OSError) as error:
        log.warning("%s: open connections that were re-tuned keep their settings: %s", driver.name, error)
        return
    if done.left:
        log.warning("%s: %s", driver.name, done.text)


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
            return [_reapply(context, each) for each in filter(context.is_here, journal.acts(*IN_FORCE))]


def _reapply(context: LeaseContext, transaction: Transaction) -> Reapplied:
    driver = usable(context.load(transaction.driver, transaction.place), f"transaction {transaction.id}: ")
    moved = driver.move() if isinstance(driver, Mover) else None
    return Reapplied(transaction.id, transaction.driver, moved)
