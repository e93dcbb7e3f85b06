# SPDX-License-Identifier: MIT
"""Doctor: list which drivers can act at a place, why the others cannot, and which driver would set each knob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from configtron.linux.netns import absent, is_absent
from configtron.model.errors import ConfigtronError
from configtron.model.knobs import KNOBS
from configtron.model.protocols import Asker, Driver, Trier
from configtron.model.tuning import Place, Reach, Rules
from configtron.service.lease.options import AUTO
from configtron.tune.capabilities import SETTABLE
from configtron.tune.drivers import DRIVERS, FOR_TRIALS, load
from configtron.tune.guard import reach_text

# Stands for the driver of a knob that no driver here reaches.
NONE = "-"


class Examined(NamedTuple):
    """A driver: what it lacks here, the knobs it sets here, those it would set, and those it never sets, and why.

    notes   other programs that could set its clients' connections, one line each
    """

    name: str
    lack: str
    reach: Mapping[str, Reach]
    reachable: Mapping[str, Reach]
    unreachable: Mapping[str, str]
    notes: tuple[str, ...] = ()


class KnobSupport(NamedTuple):
    """The driver that would set a knob (`NONE`: none), its reach and values, and the other drivers.

    others      drivers that could set it in its place
    instead_of  better drivers that would set it, if they did not lack something
    """

    knob: str
    driver: str
    per: str
    takes: str
    others: tuple[str, ...]
    instead_of: tuple[str, ...]
    note: str


def absent_namespace(place: Place) -> str:
    """Return that the namespace of a place does not exist, and which ones do; "" if it does."""
    return absent(place.netns) if is_absent(place.netns) else ""


def driver_names() -> tuple[str, ...]:
    """Return the names that `LeaseOptions.driver` takes."""
    return (AUTO, *DRIVERS)


def examine(place: Place) -> list[Examined]:
    """Return for every driver, best first, its knobs and its lacks at a place. Write nothing."""
    return [_examined(name, load(name, place)) for name in DRIVERS if name != FOR_TRIALS]


def _examined(name: str, driver: Driver) -> Examined:
    try:
        lack = driver.tried() if isinstance(driver, Trier) else driver.missing()
        notes = driver.ask(Rules()).unasked if isinstance(driver, Asker) and not lack else ()
    except (ConfigtronError, OSError) as error:
        lack, notes = str(error), ()
    settable = driver.tried_reach if isinstance(driver, Trier) else driver.settable
    reach = settable() if not lack else {}
    return Examined(name, lack, reach, driver.reachable, driver.unreachable, notes)


def knobs(drivers: Sequence[Examined]) -> list[KnobSupport]:
    """Return for each knob of a connection, and for each that some driver sets beside, which driver would set it."""
    others = {knob for one in drivers for knob in one.reachable} - set(SETTABLE)
    return [_support(knob, drivers) for knob in (*SETTABLE, *sorted(others))]


def _support(knob: str, drivers: Sequence[Examined]) -> KnobSupport:
    able = [one.name for one in drivers if knob in one.reach]
    lacking = [one.name for one in drivers if one.lack and knob in one.reachable]
    if not able:
        why = next((one.unreachable[knob] for one in drivers if knob in one.unreachable), "")
        return KnobSupport(knob, NONE, "", "", (), tuple(lacking), why)
    best = next(rank for rank, one in enumerate(drivers) if knob in one.reach)
    found = drivers[best].reach[knob]
    takes = f"{reach_text(found)} {KNOBS[knob].unit if knob in KNOBS else ''}".strip()
    better = tuple(one.name for one in drivers[:best] if one.name in lacking)
    return KnobSupport(knob, able[0], found.per, takes, tuple(able[1:]), better, found.note)
