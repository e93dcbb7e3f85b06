# SPDX-License-Identifier: MIT
"""Plan: read what is wanted and what is in force, choose the driver, say what would change. Writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from configtron.db.read_only import read_only
from configtron.db.tuning import Tuning
from configtron.linux.netns import absent, is_absent
from configtron.model.draw import PARTS
from configtron.model.errors import Missing, Refused
from configtron.model.nouns import Value
from configtron.model.protocols import Driver, Original, PlanReader, Trier
from configtron.model.tuning import Rules
from configtron.model.tuning_json import place_text
from configtron.service.lease.context import LeaseContext, context_of
from configtron.service.lease.kernel_rules import in_force, usable
from configtron.service.lease.options import AUTO, LeaseOptions
from configtron.service.lease.ownership import other_owner
from configtron.service.lease.recovery import finish_rollback
from configtron.tune.drivers import DRIVERS, FOR_TRIALS, load
from configtron.tune.guard import DriverReach, Limits, refusals, why_not
from configtron.tune.journal import UNDOING, WRITING
from configtron.tune.plan import IPV4, IPV6, PLACE, Advice, PrefixShare, advise, aim, follow, holds_scope
from configtron.tune.pools import for_kernel
from configtron.tune.rules import check

# Scopes that hold others.
WIDE = {PLACE, IPV4, IPV6}
# Refusals of the guard that an error names; it counts the others.
NAMED = 3
# States of advice: only what is due is applied.
DUE, MUTED, FROZEN = "due", "muted", "frozen"


@dataclass(frozen=True)
class Planned:
    """Advice, what is in force now, and what would be.

    waiting    state of the advice that an apply would not follow: muted or frozen; all other is due
    held       prefixes that are held back
    untouched  what the kernel has of itself, by knob, where the driver can read it
    damage     what neighbours lose by profiles of `learn export`, where that was measured; the guard judges by it
    over       number of the transaction in force that `have` and `target` are a part of, with the prefixes that differ
               alone; 0: they are whole
    prefixes   how many prefixes the target has in all
    users      how many of them each profile has, where the target is a part
    expected   the journal's word for what was wanted when it was read; "": only a share of it is planned
    """

    driver: Driver
    have: Rules
    target: Rules
    advices: Sequence[Advice]
    held: int
    untouched: Mapping[str, Value] = field(default_factory=dict)
    damage: Mapping[str, float] = field(default_factory=dict)
    over: int = 0
    prefixes: int = 0
    expected: str = ""
    users: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[Advice, str] = field(default_factory=dict)

    def due(self) -> list[Advice]:
        """Return the advice that an apply would follow."""
        return [advice for advice, _ in self.shown(everything=False)]

    def due_count(self) -> int:
        """Return how many pieces of advice an apply would follow, without making them."""
        return len(self.advices) - len(self.waiting)

    def judged(self) -> Iterator[tuple[Advice, str]]:
        """Yield all advice with its state."""
        return ((advice, self.waiting.get(advice, DUE)) for advice in self.advices)

    def shown(self, *, everything: bool) -> Iterator[tuple[Advice, str]]:
        """Yield the advice that is due, or all of it."""
        return ((advice, state) for advice, state in self.judged() if everything or state == DUE)

    def counts(self) -> Counter[str]:
        """Return how many pieces of advice have each state."""
        due = {DUE: self.due_count()} if self.due_count() else {}
        return Counter({**due, **Counter(self.waiting.values())})


@dataclass(frozen=True)
class PlanReport:
    """A plan, and what stands in the way of applying it.

    unfinished  numbers of transactions that are being written or undone, or were left so
    owner       another database that has rules in force there, and what to do; ""
    refused     what the guard refuses, in one line; ""
    profiles    names of the profiles that it refuses
    """

    planned: Planned
    unfinished: tuple[int, ...]
    owner: str
    refused: str
    profiles: frozenset[str] = frozenset()


def plan(options: LeaseOptions) -> PlanReport:
    """Return what an apply with these options would change. Writes nothing, not even to the database, but it finishes a
    rollback that was killed.

    Errors: `BadInput` for wanted rules that name no profile; `Missing` where no driver can do it.
    """

    def read(journal: Tuning) -> tuple[Planned, tuple[int, ...], str]:
        context = context_of(journal)
        unfinished = tuple(each.id for each in journal.acts(WRITING, UNDOING))
        found = planned(context, options)
        return found, unfinished, other_owner(context, found.driver.name, options.place)

    finish_rollback(options.database)
    found, unfinished, owner = read_only(options.database, read)
    limits = judged(found, options.limits)
    why = refused(found.driver, found.target, limits)
    reach = reach_of(found.driver)
    names = frozenset(name for name, one in found.target.profiles.items() if any(why_not(one, limits, reach)))
    return PlanReport(found, unfinished, owner, why, names)


def planned(context: LeaseContext, options: LeaseOptions) -> Planned:
    """Return the plan from what is in force to what is wanted. Errors: as `plan`."""
    # Settings of a server's own configuration are for `tune router`.
    journal, want = context.journal, for_kernel(check(context.journal.wanted()))
    driver = chosen(context, options, want)
    _one_holdback(driver, options)
    current = journal.open_act(driver.name, options.place, context.namespace_of(options.place))
    # What is in force has the names by which it was applied or is wanted.
    have = in_force(driver, [current.rules, want] if current else [want])
    holdback = PrefixShare("holdback", journal.salt(), options.holdback)
    target = aim(have, want, holdback, PrefixShare("canary", journal.salt(), options.canary))
    muted, frozen = journal.acknowledged(), frozen_scopes(context, options, driver)
    advices = advise(driver.name, have, target)
    states = ((advice, _state(advice, muted, frozen)) for advice in advices) if muted or frozen else ()
    waiting = {advice: state for advice, state in states if state != DUE}
    held = sum(map(holdback.holds, want.prefixes)) if holdback.fraction else 0
    if waiting:
        target = follow(have, (advice for advice in advices if advice not in waiting))
    untouched = driver.untouched() if isinstance(driver, Original) else {}
    damage = journal.measured_damage()
    return Planned(driver, have, target, advices, held, untouched, damage, prefixes=len(target.prefixes),
                   waiting=waiting)  # fmt: skip


def _one_holdback(driver: Driver, options: LeaseOptions) -> None:
    """Errors: `Refused` where prefixes are to be held back and the plan in force holds back clients."""
    state = driver.plan_state() if options.holdback and isinstance(driver, PlanReader) else None
    if state and state.holdback:
        raise Refused(
            f"the plan of epoch {state.epoch} has {state.holdback / PARTS:.1%} of the clients as control group, and "
            "with two control groups neither would be unbiased; leave out --holdback"
        )


def frozen_scopes(context: LeaseContext, options: LeaseOptions, driver: Driver) -> set[str]:
    """Return the scopes that the driver leaves alone at the place of the options."""
    here = (driver.name, place_text(options.place), context.namespace_of(options.place))
    return {one.scope for one in context.journal.frozen() if (one.driver, one.place, one.space) == here}


def _state(advice: Advice, muted: dict[str, str], frozen: set[str]) -> str:
    if advice.scope in frozen or any(holds_scope(wide, advice.scope) for wide in frozen & WIDE):
        return FROZEN
    return MUTED if muted and advice.id in muted else DUE


def chosen(context: LeaseContext, options: LeaseOptions, want: Rules) -> Driver:
    """Return the driver named, else the one in force here, else the first to reach every knob. Errors: `Missing`."""
    place = options.place
    if is_absent(place.netns):
        raise Missing(absent(place.netns))
    if options.driver != AUTO:
        return usable(load(options.driver, place))
    drivers = {name: load(name, place) for name in DRIVERS if name != FOR_TRIALS}
    for name, driver in drivers.items():
        if context.journal.open_act(name, place, context.namespace_of(place)) and not driver.missing():
            return driver
    return _first_able(drivers, want)


def _first_able(drivers: Mapping[str, Driver], want: Rules) -> Driver:
    """Return the first driver that reaches all that is wanted. Errors: `Missing`, with what each lacks."""
    knobs = {knob for name in want.used & want.profiles.keys() for knob, _ in want.profiles[name].settings}
    why = []
    for name, driver in drivers.items():
        lack = driver.missing() or _short_of(driver, knobs, prefixes=bool(want.prefixes))
        if not lack:
            return driver
        why.append(f"{name}: {lack}")
    reasons = "; ".join(why) or "none is here"
    raise Missing(f"no driver reaches all that is wanted ({reasons}); see: configtron tune doctor")


def _short_of(driver: Driver, knobs: set[str], *, prefixes: bool) -> str:
    """Return why a driver that can act here does not reach what is wanted; "" if it does."""
    reach = driver.settable()
    if out := sorted(knobs - reach.keys()):
        return f"does not reach {', '.join(out)}"
    if prefixes and (wide := sorted(knob for knob in knobs if reach[knob].per not in ("connection", "prefix"))):
        return f"sets {', '.join(wide)} for all clients at once, and there are prefixes"
    return ""


def judged(found: Planned, limits: Limits) -> Limits:
    """Return the limits of a plan: the operator's, with what was measured of its profiles."""
    return replace(limits, damage=found.damage)


def refused(driver: Driver, target: Rules, limits: Limits) -> str:
    """Return what the guard refuses of a target, in one line; "" if it lets it pass."""
    wrong = list(refusals(target, limits, reach_of(driver)))
    return "; ".join(wrong[:NAMED]) + (f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else "")


def reach_of(driver: Driver) -> DriverReach:
    """Return what a driver sets here, and why it sets nothing else."""
    unfit = driver.unfit if isinstance(driver, Trier) else None
    return DriverReach(driver.name, driver.settable(), driver.unreachable, unfit)


def guard(driver: Driver, target: Rules, limits: Limits) -> None:
    """Ask the guard. Errors: `Refused`, with all its reasons."""
    if why := refused(driver, target, limits):
        raise Refused(why)
