# SPDX-License-Identifier: MIT
"""`configtron probe show`."""

from __future__ import annotations

from itertools import chain

import click

from configtron.cli import completing
from configtron.cli.options import output_option
from configtron.cli.probe.names import check_fields, known_knob, results_form, run_number
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, BadInput
from configtron.report.files import opened


@click.command()
@click.argument("run", required=False, callback=run_number, shell_complete=completing.runs)
@results_form
@output_option
@click.option("--target", "targets", multiple=True, metavar="HOST", help="Only this target.")
@click.option("--vantage", "vantages", multiple=True, metavar="NAME", help="Only from this vantage.")
@click.option("--knob", "knobs", multiple=True, metavar="KNOB", callback=known_knob,
              shell_complete=completing.measured, help="Only this parameter.")  # fmt: skip
@click.option("--evidence", is_flag=True, help="Show each trial, with its file and Wireshark's frame numbers.")
def show(run: int | None, form: str, output_file: str, targets: tuple[str, ...], vantages: tuple[str, ...],
         knobs: tuple[str, ...], evidence: bool, fields: tuple[str, ...]) -> int:  # fmt: skip
    """Show what a run found; without RUN (a number, or last), list the runs."""
    from configtron.report.rendering import render, render_evidence
    from configtron.report.rows import emit
    from configtron.service import campaign

    check_fields(form, fields)
    if run is None and (targets or vantages or knobs or evidence or fields or form == "flat"):
        raise BadInput("--target, --vantage, --knob, --fields, --evidence and -f flat need a RUN: a number, or last")
    if evidence and form == "flat":
        raise BadInput("--evidence shows trials, and a line of flat is a host; leave one of them out")
    with campaign.open_runs(settings().db) as store, opened(output_file) as out:
        if run is None:
            rows = campaign.run_rows(store)
            emit(form, campaign.RUNS_COLUMNS, rows, out, schema=campaign.RUNS_SCHEMA, whole=True)
            return DONE
        wanted = campaign.find_run(store, run)
        found = campaign.records_of(store, wanted, targets, vantages, knobs)
        first = next(found, None)
        if first is None:
            named = ", ".join((*targets, *vantages))
            click.echo(f"configtron: run {wanted.id}: nothing kept" + (f" of {named}" if named else ""), err=True)
            return NOTHING
        if evidence and form == "table":
            render_evidence(chain([first], found), out, color=settings().color)
        else:
            names, complete = campaign.vantages_of_run(wanted), wanted.status == "done"
            render(chain([first], found), names, form, out, color=settings().color, fields=fields, complete=complete)
        return DONE
