"""One turn of a watch: mend what is due, renew leases, follow routes, see other hands."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from configtron.cli.tune.acting import in_force, recover
from configtron.cli.tune.desk import Desk, sole
from configtron.errors import ConfigtronError, Refused
from configtron.records import Json
from configtron.tune.journal import KEPT, Act
from configtron.tune.plan import advise
from configtron.tune.text import value_text

if TYPE_CHECKING:
    from configtron.ports import Driver

log = logging.getLogger("configtron.tune")
# A lease is renewed when a third of it is gone: a watch may miss many turns before it ends.
RENEW_BELOW = 2 / 3


class Event(NamedTuple):
    """What happened: foreign (another hand), undone, failed (a driver did not answer)."""

    event: str
    act: Act
    scope: str = ""
    was: str = ""
    found: str = ""

    @property
    def text(self) -> str:
        """In one line."""
        whose = f"act {self.act.id} ({self.act.driver})"
        if self.event == "foreign":
            return f"{whose}: {self.scope}: {self.was or 'none'} became {self.found or 'none'} by another hand; frozen"
        return f"{whose}: {self.event}: {self.found}"

    def form(self) -> dict[str, Json]:
        """As a row."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {"kind": "event", "at": now, "event": self.event, "act": self.act.id, "driver": self.act.driver,
                "scope": self.scope, "was": self.was, "found": self.found}  # fmt: skip


class Watcher:
    """Watches over what is in force here. Acts are read again only when the journal says that they changed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._acts: dict[int, Act] = {}
        self._drivers: dict[int, Driver] = {}
        self._failing: set[int] = set()

    def turn(self) -> list[Event]:
        """Do all of it once. While somebody else acts, nothing: what he changes is no foreign change."""
        try:
            with sole(self._desk.book.path, 0):
                events = [Event("undone", act, found=act.why) for act in recover(self._desk)]
                self._reread()
                for act in self._acts.values():
                    events += self._look(act)
                return events
        except Refused:
            return []

    def _reread(self) -> None:
        book = self._desk.book
        for number, (status, mark) in book.in_force().items():
            known = self._acts.get(number)
            if known is None or (known.status, known.mark) != (status, mark):
                act = book.act(number)
                if act is not None and act.boot == self._desk.boot and act.space in ("", self._desk.space):
                    self._acts[number] = act
                    self._drivers[number] = self._desk.load(act.driver, act.place)
        for number in self._acts.keys() - book.in_force().keys():
            del self._acts[number], self._drivers[number]

    def _look(self, act: Act) -> list[Event]:
        now_s = self._desk.now_s()
        if act.status != KEPT:
            _, expires_s = self._desk.book.state(act.id)
            if expires_s - now_s < act.lease_s * RENEW_BELOW:
                self._desk.book.renew(act.id, now_s + act.lease_s)
        driver = self._drivers[act.id]
        try:
            if driver.mark() == act.mark:
                return []
            events = self._foreign(act, driver)
            self._failing.discard(act.id)
            return events
        except (ConfigtronError, OSError) as error:
            if act.id in self._failing:
                return []
            self._failing.add(act.id)
            log.error("act %d (%s): %s", act.id, act.driver, error)
            return [Event("failed", act, found=str(error))]

    def _foreign(self, act: Act, driver: Driver) -> list[Event]:
        """Somebody was here: see what differs, and keep our hands off it."""
        mark = driver.mark()
        known = {frozen.scope for frozen in self._desk.book.frozen() if frozen.driver == act.driver}
        differ = [one for one in advise(act.driver, act.rules, in_force(driver, [act.rules])) if one.scope not in known]
        scopes: dict[str, tuple[str, str]] = {}
        for one in differ:
            was, found = (f"{one.knob}={value_text(value)}" if value is not None else "" for value in (one.was, one.to))
            before = scopes.get(one.scope, ("", ""))
            scopes[one.scope] = (f"{before[0]} {was}".strip(), f"{before[1]} {found}".strip())
        self._desk.book.freeze(act, scopes)
        self._desk.book.marked(act.id, mark)
        for scope, (was, found) in scopes.items():
            log.warning("act %d (%s): %s: %s became %s by another hand; frozen", act.id, act.driver, scope, was, found)
        return [Event("foreign", act, scope, was, found) for scope, (was, found) in scopes.items()]
