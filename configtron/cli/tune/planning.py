# SPDX-License-Identifier: MIT
"""What `plan` and `apply` both do: read what is wanted and what is in force, and say what would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from configtron.cli.tune.acting import in_force
from configtron.cli.tune.options import AUTO, given, limits, place
from configtron.cli.tune.planfile import DUE, FROZEN, MUTED
from configtron.linux.netns import absent, is_absent
from configtron.model.errors import Missing, Refused
from configtron.model.nouns import Value
from configtron.model.protocols import Original
from configtron.model.tuning import Rules
from configtron.tune.drivers import DRIVERS, FOR_TRIALS, load
from configtron.tune.guard import refusals
from configtron.tune.plan import IPV4, IPV6, PLACE, Advice, Share, advise, aim, follow, holds_scope
from configtron.tune.pools import for_kernel
from configtron.tune.rules import check

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk
    from configtron.db.tuning import Frozen, Tuning
    from configtron.model.protocols import Driver

# Scopes that hold others.
WIDE = {PLACE, IPV4, IPV6}
# Refusals that are told in one line; the number of the others is.
TOLD = 3


@dataclass(frozen=True)
class Planned:
    """Advice with its state (due, muted, frozen), what is in force now, and what would be.

    untouched   what the kernel has of itself, by knob, where the driver can read it
    """

    driver: Driver
    have: Rules
    target: Rules
    advices: Sequence[tuple[Advice, str]]
    held: int
    untouched: Mapping[str, Value] = field(default_factory=dict)

    def due(self) -> list[Advice]:
        """What would be done."""
        return [advice for advice, state in self.advices if state == DUE]

    def counts(self) -> Counter[str]:
        """How many of each state."""
        return Counter(state for _, state in self.advices)


def planned(desk: Desk) -> Planned:
    """From what is in force to what is wanted."""
    # what a server's own configuration decides is for `tune router`
    book, want = desk.book, for_kernel(check(desk.book.wanted()))
    driver = chosen(desk, want)
    have = have_of(desk, driver, want)
    holdback = Share("holdback", book.salt(), given("holdback", 0.0))
    target = aim(have, want, holdback, Share("canary", book.salt(), given("canary", 1.0)))
    muted, frozen = book.muted(), frozen_scopes(desk, driver)
    advices = [(advice, _state(advice, muted, frozen)) for advice in advise(driver.name, have, target)]
    held = sum(map(holdback.holds, want.prefixes)) if holdback.fraction else 0
    if any(state != DUE for _, state in advices):
        target = follow(have, (advice for advice, state in advices if state == DUE))
    untouched = driver.untouched() if isinstance(driver, Original) else {}
    return Planned(driver, have, target, advices, held, untouched)


def have_of(desk: Desk, driver: Driver, want: Rules) -> Rules:
    """What is in force, under the names that it was applied by or is wanted by."""
    standing = desk.book.standing(driver.name, place(), desk.space_of(place()))
    return in_force(driver, [standing.rules, want] if standing else [want])


def frozen_scopes(desk: Desk, driver: Driver) -> set[str]:
    """Scopes of this driver, here, that somebody else has changed."""
    return {frozen.scope for frozen in of_here(desk, desk.book) if frozen.driver == driver.name}


def of_here(desk: Desk, book: Tuning) -> list[Frozen]:
    """What is frozen at the place that is meant."""
    from configtron.model.tuning_json import place_text

    here, space = place_text(place()), desk.space_of(place())
    return [frozen for frozen in book.frozen() if (frozen.place, frozen.space) == (here, space)]


def _state(advice: Advice, muted: dict[str, str], frozen: set[str]) -> str:
    if advice.scope in frozen or any(holds_scope(wide, advice.scope) for wide in frozen & WIDE):
        return FROZEN
    return MUTED if muted and advice.id in muted else DUE


def chosen(desk: Desk, want: Rules) -> Driver:
    """The driver named; else the one at work here; else the first that reaches every knob. Errors: `Missing`."""
    name = given("driver", AUTO)
    if is_absent(place().netns):
        raise Missing(absent(place().netns))
    if name != AUTO:
        driver = load(name, place())
        if lack := driver.missing():
            raise Missing(f"driver {name}: {lack}")
        return driver
    knobs = {knob for profile in want.profiles.values() for knob, _ in profile.settings}
    drivers = {name: load(name, place()) for name in DRIVERS if name != FOR_TRIALS}
    for name, driver in drivers.items():
        if desk.book.standing(name, place(), desk.space_of(place())) and not driver.missing():
            return driver
    why = []
    for name, driver in drivers.items():
        lack = driver.missing() or _short_of(driver, knobs, prefixes=bool(want.prefixes))
        if not lack:
            return driver
        why.append(f"{name}: {lack}")
    told = "; ".join(why) or "none is here"
    raise Missing(f"no driver reaches all that is wanted ({told}); see: configtron tune doctor")


def _short_of(driver: Driver, knobs: set[str], *, prefixes: bool) -> str:
    """Why a driver that can act will not do; "" if it will."""
    reach = driver.settable()
    if out := sorted(knobs - reach.keys()):
        return f"does not reach {', '.join(out)}"
    if prefixes and (wide := sorted(knob for knob in knobs if reach[knob].per not in ("connection", "prefix"))):
        return f"sets {', '.join(wide)} for all clients at once, and there are prefixes"
    return ""


def guarded(driver: Driver, target: Rules) -> None:
    """Ask the guard. Errors: `Refused`, with all that it says."""
    wrong = list(refusals(target, driver.settable(), limits(), driver.unreachable(), driver.name))
    if wrong:
        more = f"; and {len(wrong) - TOLD} more" if len(wrong) > TOLD else ""
        raise Refused("; ".join(wrong[:TOLD]) + more)
