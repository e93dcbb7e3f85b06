# SPDX-License-Identifier: MIT
"""Our rules in the kernel: read back, written and checked, and those that this database's journal does not record.

Question   An export was loaded by hand, a database was lost, or a program called a driver itself. Which state
           in the kernel is ours, and may `rollback` remove it?
Method     Each driver that marks its entries in the kernel (protocol numbers, tables, notes, pins) lists the state
           with its marks. The list leaves out drivers with an open transaction at this place; if another database owns
           the place, it names that database.
Reads as   One `Unjournaled` for each driver that has such state. `Driver.revert` removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from configtron.model.errors import ConfigtronError, Mismatch, Missing
from configtron.model.protocols import Driver, Inventory, PerListener
from configtron.model.tuning import Place, Rules
from configtron.service.lease.context import LeaseContext
from configtron.service.lease.ownership import other_owner
from configtron.tune.drivers import DRIVERS, FOR_TRIALS
from configtron.tune.journal import OPEN
from configtron.tune.plan import advise, changes, recognised
from configtron.tune.rules import difference


def usable(driver: Driver, subject: str = "") -> Driver:
    """Return a driver that can act here. Errors: `Missing`, which begins with the subject."""
    if lack := driver.missing():
        raise Missing(f"{subject}driver {driver.name}: {lack}")
    return driver


def in_force(driver: Driver, known: Iterable[Rules]) -> Rules:
    """Return our rules as the driver reads them, with the profile names of `known` restored."""
    return recognised(driver.read(), known)


def write(driver: Driver, have: Rules, target: Rules, *, named: bool = False) -> None:
    """Change the rules in force to the target and compare the rules read back with it.

    named   the driver has the profiles of all changed prefixes in force by their names: none is written again

    A driver reads back the changed rules; after a removal it reads all rules. Errors: the driver's; `Mismatch`.
    """
    todo = difference(have, target) if named else changes(have, target)
    back = driver.apply(todo)
    if todo.dropped_profiles or todo.dropped_prefixes:
        found = in_force(driver, [target])
    else:
        unchanged = {name: target.profiles[name] for name in target.profiles.keys() - todo.profiles.keys()}
        back = recognised(back, [target])
        found = replace(back, profiles={**back.profiles, **unchanged})
        target = replace(target, prefixes=todo.prefixes)
    if wrong := advise(driver.name, target, found):
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise Mismatch(f"driver {driver.name}: does not read back as written: {wrong[0].text}{more}")


class Unjournaled(NamedTuple):
    """A driver, and the state with its marks in a few words; `owner`: the database that owns it, "" for none."""

    driver: Driver
    what: str
    owner: str


def unjournaled(here: LeaseContext, place: Place, named: str = "") -> Iterator[Unjournaled]:
    """Yield each driver's marked state (or that of the driver `named`) without an open transaction at the place.

    A driver that cannot act here (`Driver.missing`) is left out.
    """
    # Not the interface or listeners: a driver has one set of marks for each namespace and control group.
    at = (place.netns, place.cgroup)
    journaled = {each.driver for each in filter(here.is_here, here.journal.acts(*OPEN, bare=True))
                 if (each.place.netns, each.place.cgroup) == at}  # fmt: skip
    for name in [named] if named else DRIVERS:
        if name in journaled or (not named and name == FOR_TRIALS):
            continue
        driver = here.load(name, place)
        if driver.missing():
            continue
        # A driver without listeners does not see the state that it pinned for some listeners only.
        for each in (driver, *(driver.listened() if isinstance(driver, PerListener) else ())):
            if what := marked_state(each):
                yield Unjournaled(each, what, other_owner(here, name, place))


def marked_state(driver: Driver) -> str:
    """Return the state with a driver's marks, in a few words; "" if there is none, or if it cannot be read."""
    try:
        if isinstance(driver, Inventory):
            return driver.ours()
        rules = driver.read()
    except (ConfigtronError, OSError):
        return ""
    counts = ((len(rules.profiles), "profiles"), (len(rules.prefixes), "prefixes"))
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def others(driver: Driver) -> tuple[str, ...]:
    """Return other programs' entries in the driver's tables, one line each; `revert` does not remove them."""
    if driver.missing() or not isinstance(driver, Inventory):
        return ()
    return driver.others()
