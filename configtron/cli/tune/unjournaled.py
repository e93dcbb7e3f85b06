"""What stands here by our marks in the kernel though this database's journal knows nothing of it.

Question   An export was played by hand, a database was lost, a program used `configtron.tune.profiles`: what is ours
           there, and may we take it away?
Method     Drivers that mark what they make in the kernel itself (protocol numbers, tables, notes, pins) are asked what
           stands; a driver with an open act here, or in a place that another database holds, is left out.
Reads as   A line a driver: what it is. `Driver.revert` takes it away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from configtron.cli.tune import claims
from configtron.errors import ConfigtronError
from configtron.ports import Inventory
from configtron.tune.drivers import DRIVERS, FOR_TRIALS
from configtron.tune.journal import OPEN

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk
    from configtron.ports import Driver
    from configtron.tuning import Place


class Found(NamedTuple):
    """A driver and what stands by its marks; `owner` names another database whose it is, "" for nobody's."""

    driver: Driver
    what: str
    owner: str


def unjournaled(here: Desk, place: Place, named: str = "") -> Iterator[Found]:
    """What stands at a place in no journal of ours, by each driver or the one named.

    A driver that cannot act here has nothing to take away.
    """
    # whichever interface or listeners an act named: a driver's marks are one set for a namespace and control group
    at = (place.netns, place.cgroup)
    journaled = {act.driver for act in here.book.acts(*OPEN, bare=True) if (act.place.netns, act.place.cgroup) == at
                 and act.space in ("", here.space) and act.boot == here.boot}  # fmt: skip
    for name in [named] if named else DRIVERS:
        if name in journaled or (not named and name == FOR_TRIALS):
            continue
        driver = here.load(name, place)
        if driver.missing():
            continue
        # what is pinned for some listeners only reads as nothing at the place without them
        for each in (driver, *getattr(driver, "listened", list)()):
            if what := standing(each):
                yield Found(each, what, claims.other(here, name, place))


def standing(driver: Driver) -> str:
    """What stands by a driver's marks, in a few words; "" for nothing."""
    try:
        if isinstance(driver, Inventory):
            return driver.ours()
        rules = driver.read()
    except (ConfigtronError, OSError):
        return ""
    counts = ((len(rules.profiles), "profiles"), (len(rules.prefixes), "prefixes"))
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def others(driver: Driver) -> tuple[str, ...]:
    """What others have put among a driver's own, a line each; `revert` leaves it."""
    if driver.missing() or not isinstance(driver, Inventory):
        return ()
    return driver.others()
