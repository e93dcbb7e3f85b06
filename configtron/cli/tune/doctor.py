# SPDX-License-Identifier: MIT
"""`configtron tune doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from configtron.cli.tune.options import form_options, where_options
from configtron.cli.tune.resolved import place
from configtron.model.errors import DONE, NOTHING

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.lease import Examined, KnobSupport

DRIVER_COLUMNS = ("driver", "knobs", "missing")
KNOB_COLUMNS = ("knob", "by", "per", "takes", "else", "instead_of", "note")
BOTH = ("kind", *DRIVER_COLUMNS, *KNOB_COLUMNS)


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
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    if absent := lease.absent_namespace(place()):
        click.echo(absent, err=True)
        return NOTHING
    drivers = lease.examine(place())
    rows, knobs = [*map(_driver_row, drivers)], [*map(_knob_row, lease.knobs(drivers))]
    with opened(output_file) as out:
        if form == "table":
            write_rows(form, DRIVER_COLUMNS, rows, out)
            out.write("\n")
            write_rows(form, KNOB_COLUMNS, knobs, out)
        else:
            write_rows(form, BOTH, [*rows, *knobs], out)
    return DONE if any(not one.lack for one in drivers) else NOTHING


def _driver_row(one: Examined) -> dict[str, Json]:
    return {"kind": "driver", "driver": one.name, "knobs": len(one.reach), "missing": one.lack}


def _knob_row(one: KnobSupport) -> dict[str, Json]:
    return {
        "kind": "knob", "knob": one.knob, "by": one.driver, "per": one.per, "takes": one.takes,
        "else": ", ".join(one.others), "instead_of": ", ".join(one.instead_of), "note": one.note,
    }  # fmt: skip
