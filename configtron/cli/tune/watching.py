# SPDX-License-Identifier: MIT
"""One turn of a watch: mend what is due, renew leases, follow routes, see other hands."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from configtron.cli.tune.acting import recover
from configtron.cli.tune.desk import Desk, sole
from configtron.model.errors import ConfigtronError, Refused
from configtron.model.protocols import Asker, Follower, Listener
from configtron.model.records import Json
from configtron.model.tuning import Difference, Rules
from configtron.model.tuning_json import value_text
from configtron.tune.journal import LEASED, Act
from configtron.tune.plan import IPV4, IPV6, PLACE, advise, holds_scope, lost_together, recognised

if TYPE_CHECKING:
    from configtron.model.protocols import Driver

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


class Watched:
    """One act in force, its driver, and the driver's mark once all was read back; None before."""

    def __init__(self, act: Act, driver: Driver) -> None:
        self.act, self.driver = act, driver
        self.mark: str | None = None
        self.failing = False
        # Whether the kernel is to be asked where it leads clients: at the turn after all was read, which is told first.
        self.to_ask = False
        self._frozen: frozenset[str] = frozenset()
        self._untouched = act.rules

    def without(self, frozen: frozenset[str]) -> Rules:
        """The act's rules but for frozen prefixes; a hundred thousand are not sorted out anew four times a second."""
        if frozen != self._frozen:
            wide, rules = frozen & {PLACE, IPV4, IPV6}, self.act.rules
            kept = {prefix: name for prefix, name in rules.prefixes.items() if prefix not in frozen
                    and not any(holds_scope(scope, prefix) for scope in wide)}  # fmt: skip
            self._frozen = frozen
            self._untouched = replace(rules, prefixes=kept, default="" if PLACE in wide else rules.default)
        return self._untouched


class Watcher:
    """Watches over what is in force here. What each act set is read from the journal once; a turn looks at marks."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._watched: dict[int, Watched] = {}

    def turn(self) -> list[Event]:
        """Do all of it once. While somebody else acts, nothing: what he changes is no foreign change."""
        try:
            with sole(self._desk.book.path, 0):
                events = [Event("undone", act, found=act.why) for act in recover(self._desk)]
                self._reread()
                for one in self._watched.values():
                    events += self._look(one)
                return events
        except Refused:
            return []

    def _reread(self) -> None:
        """Acts that came into force since, and went."""
        desk, numbers = self._desk, self._desk.book.in_force()
        for number in self._watched.keys() - numbers.keys():
            del self._watched[number]
        for number in numbers.keys() - self._watched.keys():
            act = desk.book.act(number)
            if act is not None and act.boot == desk.boot and act.space in ("", desk.space):
                self._watched[number] = Watched(act, desk.load(act.driver, act.place))

    def _look(self, one: Watched) -> list[Event]:
        self._renew(one.act)
        try:
            self._follow(one)
            events = self._news(one)
            if events is None:
                mark = one.driver.mark()
                # What changed before the first look has no mark: then all is read.
                events = self._whole(one) if mark != one.mark else self._asked(one)
                one.mark = mark
            elif not events:
                events = self._asked(one)
            one.failing = False
            return events
        except (ConfigtronError, OSError) as error:
            # What was heard of meanwhile may be lost with it: the next look is at all.
            told, one.failing, one.mark = one.failing, True, None
            if told:
                return []
            return [Event("failed", one.act, found=str(error))]

    def _renew(self, act: Act) -> None:
        book, now_s = self._desk.book, self._desk.now_s()
        status, expires_s = book.state(act.id)
        if status == LEASED and expires_s - now_s < act.lease_s * RENEW_BELOW:
            book.renew(act.id, now_s + act.lease_s)

    def _follow(self, one: Watched) -> None:
        """Lead routes where the host's own now lead (a gateway changed, a link came back), but for frozen scopes."""
        if not isinstance(one.driver, Follower):
            return
        frozen = frozenset(scope.scope for scope in self._desk.book.frozen() if scope.driver == one.act.driver)
        if count := one.driver.follow(one.without(frozen)):
            log.info("act %d (%s): %d routes follow the host's own", one.act.id, one.act.driver, count)

    def _news(self, one: Watched) -> list[Event] | None:
        """What the kernel told of, looked at alone; None where all has to be looked at."""
        if one.mark is None or not isinstance(one.driver, Listener) or (news := one.driver.news()) is None:
            return None
        written, found = news
        if not written:
            return []
        rules = one.act.rules
        ours = {prefix: rules.prefixes[prefix] for prefix in written if prefix in rules.prefixes}
        if len(ours) == len(rules.prefixes) > 1:
            return None  # all at once: whether they are lost together is seen in the whole
        return self._foreign(one, replace(rules, prefixes=ours, default=""), found)

    def _whole(self, one: Watched) -> list[Event]:
        """Read all."""
        rules, found = one.act.rules, recognised(one.driver.read(), [one.act.rules])
        wide = lost_together(rules, found)
        one.to_ask = PLACE not in wide
        return self._foreign(one, rules, found, wide)

    def _asked(self, one: Watched) -> list[Event]:
        """Let a driver that can ask the kernel where clients are led, if it is to."""
        to_ask, one.to_ask = one.to_ask, False
        if not to_ask or not isinstance(one.driver, Asker):
            return []
        return self._led_elsewhere(one, one.driver.ask(one.act.rules).differences)

    def _led_elsewhere(self, one: Watched, differences: Iterable[Difference]) -> list[Event]:
        """Freeze whom the kernel leads elsewhere: one event for all that it leads alike."""
        act, known = one.act, self._desk.book.known(one.act.id)
        fresh = [each for each in differences if (each.scope, each.found) not in known]
        self._desk.book.freeze(act, {each.scope: (each.applied, each.found) for each in fresh})
        alike: dict[tuple[str, str], list[str]] = {}
        for each in fresh:
            alike.setdefault((each.applied, each.found), []).append(each.scope)
        return [
            Event("foreign", act, scopes[0] if len(scopes) == 1 else f"{len(scopes)} prefixes, e.g. {scopes[0]}", *ends)
            for ends, scopes in alike.items()
        ]

    def _foreign(self, one: Watched, wanted: Rules, found: Rules, wide: Collection[str] = ()) -> list[Event]:
        """Somebody was here, or may have been: see what differs, and keep our hands off it. Each is told once.

        What was lost together is one scope: a program detached at a hundred thousand prefixes is one event.
        """
        act, book = one.act, self._desk.book
        found = recognised(found, [act.rules])
        scopes = {scope: (_held(wanted, scope), "") for scope in wide}
        for wrong in advise(act.driver, wanted, found):
            if any(holds_scope(lost, wrong.scope) for lost in wide):
                continue
            ends = (f"{wrong.knob}={value_text(end)}" if end is not None else "" for end in (wrong.was, wrong.to))
            before = scopes.get(wrong.scope, ("", ""))
            scopes[wrong.scope] = tuple(f"{old} {new}".strip() for old, new in zip(before, ends, strict=True))  # type: ignore[assignment]
        known = book.known(act.id)
        fresh = {scope: pair for scope, pair in scopes.items() if (scope, pair[1]) not in known}
        book.freeze(act, fresh)
        return [Event("foreign", act, scope, *pair) for scope, pair in fresh.items()]


def _held(wanted: Rules, scope: str) -> str:
    """What a wide scope held, in a few words."""
    prefixes = sum(1 for prefix in wanted.prefixes if holds_scope(scope, prefix))
    return f"{prefixes} prefixes" + (f", default {wanted.default}" if wanted.default and scope == PLACE else "")
