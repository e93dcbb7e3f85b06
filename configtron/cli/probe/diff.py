# SPDX-License-Identifier: MIT
"""`configtron probe diff`."""

from __future__ import annotations

import click

from configtron.cli.completing import measured, runs
from configtron.cli.options import form_options
from configtron.cli.probe.names import known_knob, run_number
from configtron.cli.settings import settings
from configtron.model.errors import CONDITION, DONE


@click.command(short_help="Compare the verdicts of two runs.")
@click.argument("before", callback=run_number, shell_complete=runs)
@click.argument("after", callback=run_number, shell_complete=runs)
@form_options
@click.option("--knob", "knobs", multiple=True, metavar="KNOB", callback=known_knob, shell_complete=measured,
              help="Only this parameter.")  # fmt: skip
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything differs.")
def diff(before: int, after: int, form: str, output_file: str, knobs: tuple[str, ...], exit_code: bool) -> int:
    """Compare two runs (numbers, or last): settings known at grade A or B in both, and not equal.

    Sites where different servers share an address (mixed) are only counted: which of them answers is chance.
    """
    from configtron.fingerprint.diversity import DIFFERS
    from configtron.report.changes import change_summary, write_changes
    from configtron.report.files import opened
    from configtron.service import campaign

    with campaign.open_runs(settings().db) as store, opened(output_file) as out:
        counts = write_changes(campaign.changes(store, before, after), form, out, knobs)
    click.echo(change_summary(counts), err=True)
    return CONDITION if exit_code and counts[DIFFERS] else DONE
