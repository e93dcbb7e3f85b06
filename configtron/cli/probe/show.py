# SPDX-License-Identifier: MIT
"""`configtron probe show`."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TextIO

import click

from configtron.cli import completing
from configtron.cli.probe.names import known_knob, run_number
from configtron.cli.probe.runs import chosen, find, is_held, reading, render, run_folder, vantages_of_run
from configtron.cli.settings import settings
from configtron.db.store import Run, Store
from configtron.model.errors import DONE, NOTHING, BadInput
from configtron.report.found import TargetResult
from configtron.report.lines import opened, write_list

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
    with reading() as store, opened(output_file) as out:
        if run is None:
            _list(store, form, out)
            return DONE
        kept = find(store, run)
        # One by one: a run may be larger than memory.
        found = (_only(item, knobs) for item in chosen(store, kept, targets, vantages))
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
            render(chain([first], found), vantages_of_run(kept), form, out)
        return DONE


def _list(store: Store, form: str, out: TextIO) -> None:
    rows = [(run.id, run.begun_at, _status(store, run), run.traces) for run in store.runs()]
    write_list(SCHEMA, RUNS, rows, form, out)


def _status(store: Store, run: Run) -> str:
    """As kept, but for a run whose process is gone without having said so."""
    gone = run.status == "running" and not is_held(run_folder(store, run.id))
    return "killed" if gone else run.status


def _only(item: TargetResult, knobs: tuple[str, ...]) -> TargetResult:
    if not knobs:
        return item
    verdicts = {knob: verdict for knob, verdict in item.verdicts.items() if knob in knobs}
    return item._replace(fingerprint=replace(item.fingerprint, observations=verdicts))
