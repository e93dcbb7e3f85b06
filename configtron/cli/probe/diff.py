# SPDX-License-Identifier: MIT
"""`configtron probe diff`."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from typing import TextIO

import click

from configtron.cli.completing import runs
from configtron.cli.probe.names import known_knob, run_number
from configtron.cli.settings import settings
from configtron.fingerprint.diversity import DIFFERS, MIXED, SAME, UNDETERMINED
from configtron.model.errors import CONDITION, DONE
from configtron.model.records import canonical, observation_form
from configtron.report.lines import opened, plain_value
from configtron.service import campaign

FORMATS = ("table", "jsonl", "csv")
DIFF_COLUMNS = ("host", "vantage", "knob", "before", "before_grade", "after", "after_grade")


@click.command(short_help="Compare the verdicts of two runs.")
@click.argument("before", callback=run_number, shell_complete=runs)
@click.argument("after", callback=run_number, shell_complete=runs)
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the answer.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
@click.option("--knob", "knobs", multiple=True, metavar="KNOB", callback=known_knob, help="Only this parameter.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything differs.")
def diff(before: int, after: int, form: str, output_file: str, knobs: tuple[str, ...], exit_code: bool) -> int:
    """Compare two runs (numbers, or last): settings known at grade A or B in both, and not equal.

    Sites where unlike servers share an address (mixed) are only counted: which of them answers is luck.
    """
    counts: Counter[str] = Counter()
    with campaign.open_runs(settings().db) as store, opened(output_file) as out:
        if form == "csv":
            _row(out, DIFF_COLUMNS)
        for change in campaign.changes(store, before, after):
            if knobs and change.knob not in knobs:
                continue
            counts[change.outcome] += 1
            if change.outcome == DIFFERS:
                _write(change, form, out)
    always = (SAME, DIFFERS, UNDETERMINED)
    summary = ", ".join(
        f"{counts[outcome]} {outcome}" for outcome in (*always, MIXED) if outcome in always or counts[MIXED]
    )
    click.echo(summary, err=True)
    return CONDITION if exit_code and counts[DIFFERS] else DONE


def _write(change: campaign.Change, form: str, out: TextIO) -> None:
    if form == "csv":
        before, after = change.before, change.after
        sides = (plain_value(before), before.grade, plain_value(after), after.grade)
        _row(out, (change.site, change.vantage, change.knob, *sides))
    else:
        out.write((_json(change) if form == "jsonl" else _text(change)) + "\n")


def _row(out: TextIO, cells: Iterable[str]) -> None:
    csv.writer(out, lineterminator="\n").writerow(cells)


def _text(change: campaign.Change) -> str:
    return f"{change.site}\t{change.vantage}\t{change.knob}\t{change.before.text} -> {change.after.text}"


def _json(change: campaign.Change) -> str:
    before, after = observation_form(change.before), observation_form(change.after)
    for form in (before, after):
        form.pop("trials", None)
    return canonical({"schema": "configtron.diff/1", **change._asdict(), "before": before, "after": after})
