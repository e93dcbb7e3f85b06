# SPDX-License-Identifier: MIT
"""`configtron tune doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from configtron.cli.tune.options import form_options, place, where_options
from configtron.model.errors import DONE, NOTHING, ConfigtronError

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.model.tuning import Reach

DRIVER_COLUMNS = ("driver", "knobs", "missing")
KNOB_COLUMNS = ("knob", "by", "per", "takes", "else", "instead_of", "note")
BOTH = ("kind", *DRIVER_COLUMNS, *KNOB_COLUMNS)
# What is said of knobs that no driver here reaches.
NONE = "-"


class Examined(NamedTuple):
    """A driver, what it lacks here, what it reaches here, what it would reach, and what it never will and why."""

    name: str
    lack: str
    reach: Mapping[str, Reach]
    would: Mapping[str, Reach]
    refused: Mapping[str, str]


@click.command(short_help="Say what can be set here, by which driver, and what lacks.")
@where_options
@form_options
def doctor(form: str, output_file: str, **_: object) -> int:
    """Say which drivers can act here, and of the others what they lack and what to do about it. For each knob: which
    driver would set it (by), how far that reaches (per), which drivers would in its place (else), and which better one
    would, if it were not lacking something (instead of). Nothing is written.

    One driver sets a whole profile: `plan` and `apply` take the first that reaches all of its knobs. Exit code 4: no
    driver can act, or there is no such namespace.
    """
    from configtron.linux.netns import absent, is_absent
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    if is_absent(place().netns):
        click.echo(absent(place().netns), err=True)
        return NOTHING
    drivers = list(_examined())
    rows: list[dict[str, Json]] = [
        {"kind": "driver", "driver": one.name, "knobs": len(one.reach), "missing": one.lack} for one in drivers
    ]
    knobs = [_knob_row(knob, drivers) for knob in _knobs(drivers)]
    with opened(output_file) as out:
        if form == "table":
            write_rows(form, DRIVER_COLUMNS, rows, out)
            out.write("\n")
            write_rows(form, KNOB_COLUMNS, knobs, out)
        else:
            write_rows(form, BOTH, [*rows, *knobs], out)
    return DONE if any(not one.lack for one in drivers) else NOTHING


def _examined() -> Iterator[Examined]:
    """Every driver, best first."""
    from configtron.model.protocols import Trier
    from configtron.tune.drivers import DRIVERS, FOR_TRIALS, load

    for name in DRIVERS:
        if name == FOR_TRIALS:
            continue
        driver = load(name, place())
        try:
            lack = driver.tried() if isinstance(driver, Trier) else driver.missing()
        except ConfigtronError as error:
            lack = str(error)
        reach = driver.settable() if not lack else {}
        yield Examined(name, lack, reach, driver.reachable(), driver.unreachable())


def _knobs(drivers: Sequence[Examined]) -> list[str]:
    """What can be set of a connection, and what else some driver sets."""
    from configtron.tune.capabilities import SETTABLE

    others = {knob for one in drivers for knob in one.would} - set(SETTABLE)
    return [*SETTABLE, *sorted(others)]


def _knob_row(knob: str, drivers: Sequence[Examined]) -> dict[str, Json]:
    """One knob: the driver that would set it, and those that would if that one could not."""
    from configtron.model.knobs import KNOBS
    from configtron.tune.guard import reach_text

    able = [one for one in drivers if knob in one.reach]
    lacking = [one for one in drivers if one.lack and knob in one.would]
    row: dict[str, Json] = {"kind": "knob", "knob": knob, "by": NONE, "per": "", "takes": "", "else": ""}
    if able:
        first, found = able[0], able[0].reach[knob]
        better = [one.name for one in lacking if drivers.index(one) < drivers.index(first)]
        takes = f"{reach_text(found)} {KNOBS[knob].unit if knob in KNOBS else ''}".strip()
        row |= {"by": first.name, "per": found.per, "takes": takes, "else": ", ".join(one.name for one in able[1:])}
        return row | {"instead_of": ", ".join(better), "note": found.note}
    why = next((one.refused[knob] for one in drivers if knob in one.refused), "")
    return row | {"instead_of": ", ".join(one.name for one in lacking), "note": why}
