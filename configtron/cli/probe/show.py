# SPDX-License-Identifier: MIT
"""`configtron probe show`."""

from __future__ import annotations

from itertools import chain
from typing import TextIO

import click

from configtron.cli import completing
from configtron.cli.probe.names import known_knob, run_number
from configtron.cli.probe.rendering import render
from configtron.cli.settings import settings
from configtron.db.store import Store
from configtron.model.errors import DONE, NOTHING, BadInput
from configtron.report.lines import opened, write_list
from configtron.service import campaign

FORMATS = ("table", "jsonl", "csv")
# Described by `report/runs.schema.json`.
SCHEMA = "configtron.runs/1"
RUNS = ("run", "begun", "status", "connections")


@click.command(short_help="Show what a run found; without RUN, list the runs.")
@click.argument("run", required=False, callback=run_number, shell_complete=completing.runs)
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the answer.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
@click.option("--target", "targets", multiple=True, metavar="HOST", help="Only this target.")
@click.option("--vantage", "vantages", multiple=True, metavar="NAME", help="Only from here.")
@click.option("--knob", "knobs", multiple=True, metavar="KNOB", callback=known_knob, help="Only this parameter.")
@click.option("--evidence", is_flag=True, help="Each trial, with its file and frame numbers as Wireshark counts them.")
def show(
    run: int | None,
    form: str,
    output_file: str,
    targets: tuple[str, ...],
    vantages: tuple[str, ...],
    knobs: tuple[str, ...],
    evidence: bool,
) -> int:
    """Show what a run found; without RUN (a number, or last), list the runs."""
    if run is None and (targets or vantages or knobs or evidence):
        raise BadInput("--target, --vantage, --knob and --evidence need a RUN: a number, or last")
    with campaign.open_runs(settings().db) as store, opened(output_file) as out:
        if run is None:
            _list(store, form, out)
            return DONE
        kept = campaign.find_run(store, run)
        found = campaign.records_of(store, kept, targets, vantages, knobs)
        first = next(found, None)
        if first is None:
            named = ", ".join((*targets, *vantages))
            click.echo(f"configtron: run {kept.id}: nothing kept" + (f" of {named}" if named else ""), err=True)
            return NOTHING
        if evidence and form == "table":
            from configtron.report import tables

            console = tables.console(out, color=settings().color)
            for item in chain([first], found):
                console.print(tables.details(item))
        else:
            render(chain([first], found), campaign.vantages_of_run(kept), form, out)
        return DONE


def _list(store: Store, form: str, out: TextIO) -> None:
    rows = [(run.id, run.begun_at, campaign.status_of(store, run), run.traces) for run in store.runs()]
    write_list(SCHEMA, RUNS, rows, form, out)
