# SPDX-License-Identifier: MIT
"""`configtron tune doctor`."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import rows_to, say
from configtron.cli.tune.options import where_options
from configtron.cli.tune.resolved import place
from configtron.model.errors import DONE, NOTHING


@click.command()
@where_options
@form_options
def doctor(form: str, output_file: str, **_: object) -> int:
    """Show first what one may have to act on: whether page loads of visitors can be joined here (docs/learn.md; a
    server behind a proxy does not see its clients' connections), and which drivers can act, what the others lack and
    how to get it. Then for each knob: which driver would set it (by), how far that reaches (per), which others could
    (else), and which better one lacks something (instead of). All of the product: `configtron doctor`.

    One driver sets a whole profile: the first that reaches all of its knobs. Exit code 4: no driver can act, or there
    is no such namespace.
    """
    from configtron.service import lease
    from configtron.service.lease import rows
    from configtron.service.outcomes.readiness import CHECK_COLUMNS, check_rows, readiness

    if absent := lease.absent_namespace(place()):
        click.echo(absent, err=True)
        return NOTHING
    drivers = lease.examine(place())
    first, second = rows.driver_rows(drivers), rows.knob_rows(lease.knobs(drivers))
    third = check_rows(readiness(place().netns))
    with rows_to(form, output_file) as write:
        if form == "table":
            write(CHECK_COLUMNS, third)
            write(rows.DRIVER_COLUMNS, first)
            write(rows.KNOB_COLUMNS, [row for row in second if row["per"]])
            write(rows.UNSET_COLUMNS, rows.unset_rows(second))
        else:
            columns = ("kind", *rows.DRIVER_COLUMNS, *rows.KNOB_COLUMNS, *CHECK_COLUMNS[:-1])
            write(columns, [*first, *second, *third])
    say(*(f"driver {one.name}: {note}" for one in drivers for note in one.notes))
    return DONE if any(not one.lack for one in drivers) else NOTHING
