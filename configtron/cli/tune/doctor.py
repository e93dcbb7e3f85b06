"""`configtron tune doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import click

from configtron.cli.tune.options import form_options, place, where_options
from configtron.errors import DONE, NOTHING

if TYPE_CHECKING:
    from configtron.ports import Driver
    from configtron.records import Json
    from configtron.tuning import Reach

DRIVER_COLUMNS = ("driver", "knobs", "missing")
KNOB_COLUMNS = ("knob", "by", "per", "takes", "else", "note")
BOTH = ("kind", *DRIVER_COLUMNS, *KNOB_COLUMNS)
# What is said of knobs that no driver here reaches.
NONE = "-"


@click.command(short_help="Say what can be set here, by which driver, and what lacks.")
@where_options
@form_options
def doctor(form: str, output_file: str, **_: object) -> int:
    """Say which drivers can act here; of the others what they lack and what to do about it; and for each knob which
    driver would set it, how far it reaches, and which would in its place. Nothing is written.

    Exit code 4: no driver can act.
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    drivers = dict(_drivers())
    able = {name: driver for name, (driver, lack) in drivers.items() if not lack}
    rows, knobs = list(_driver_rows(drivers)), list(_knob_rows(able, {n: d for n, (d, _) in drivers.items()}))
    with opened(output_file) as out:
        if form == "table":
            write_rows(form, DRIVER_COLUMNS, rows, out)
            out.write("\n")
            write_rows(form, KNOB_COLUMNS, knobs, out)
        else:
            write_rows(form, BOTH, [*rows, *knobs], out)
    return DONE if able else NOTHING


def _drivers() -> Iterator[tuple[str, tuple[Driver, str]]]:
    """Every driver, and what it lacks, best first."""
    from configtron.cli.tune.planning import FOR_TRIALS
    from configtron.tune.drivers import DRIVERS, load

    for name in DRIVERS:
        if name != FOR_TRIALS:
            driver = load(name, place())
            yield name, (driver, driver.missing())


def _driver_rows(drivers: Mapping[str, tuple[Driver, str]]) -> Iterator[dict[str, Json]]:
    for name, (driver, lack) in drivers.items():
        reached = len(driver.settable()) if not lack else 0
        yield {"kind": "driver", "driver": name, "knobs": reached, "missing": lack}


def _knob_rows(able: Mapping[str, Driver], every: Mapping[str, Driver]) -> Iterator[dict[str, Json]]:
    """A row a knob: the driver that would set it, and those that would if that one could not."""
    from configtron.knobs import KNOBS
    from configtron.tune.guard import reach_text

    reach = {name: driver.settable() for name, driver in able.items()}
    refused = {name: _refused(driver) for name, driver in every.items()}
    for knob in _knobs(reach, refused):
        by = [name for name in reach if knob in reach[name]]
        if by:
            found: Reach = reach[by[0]][knob]
            unit = KNOBS[knob].unit if knob in KNOBS else ""
            takes = f"{reach_text(found)} {unit}".strip()
            yield _row(knob, by[0], found.per, takes, ", ".join(by[1:]), found.note)
        else:
            why = next((reasons[knob] for reasons in refused.values() if knob in reasons), "")
            yield _row(knob, NONE, "", "", "", why)


def _row(knob: str, by: str, per: str, takes: str, otherwise: str, note: str) -> dict[str, Json]:
    return {"kind": "knob", "knob": knob, "by": by, "per": per, "takes": takes, "else": otherwise, "note": note}


def _knobs(reach: Mapping[str, Mapping[str, Reach]], refused: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Every knob that some driver sets or refuses, in the order of the knob table."""
    from configtron.knobs import KNOBS

    named = {knob for knobs in (*reach.values(), *refused.values()) for knob in knobs}
    return [knob for knob in KNOBS if knob in named] + sorted(named - KNOBS.keys())


def _refused(driver: Driver) -> Mapping[str, str]:
    """The driver's table of what it cannot set, and why."""
    found: Mapping[str, str] = getattr(import_module(type(driver).__module__), "REFUSED", {})
    return found
