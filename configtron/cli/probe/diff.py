# SPDX-License-Identifier: MIT
"""`configtron probe diff`."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TextIO

import click

from configtron.cli.completing import runs
from configtron.cli.probe.names import known_knob, run_number
from configtron.cli.probe.runs import chosen, find, reading
from configtron.db.store import Store
from configtron.fingerprint.diversity import BALANCING, DIFFERS, MIXED, SAME, UNDETERMINED, compare, is_mixed
from configtron.model.errors import CONDITION, DONE
from configtron.model.nouns import Observation
from configtron.model.records import canonical, observation_form
from configtron.report.lines import opened, plain_value

FORMATS = ("table", "jsonl", "csv")
COLUMNS = ("host", "vantage", "knob", "before", "before_grade", "after", "after_grade")


class Change(NamedTuple):
    """One parameter of one target from one vantage in two runs."""

    site: str
    vantage: str
    knob: str
    outcome: str
    before: Observation
    after: Observation


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

    Of sites where unlike servers share an address (mixed) nothing is said: which of them answers is luck.
    """
    counts: Counter[str] = Counter()
    with reading() as store, opened(output_file) as out:
        if form == "csv":
            _row(out, COLUMNS)
        for change in changes(store, before, after):
            if knobs and change.knob not in knobs:
                continue
            counts[change.outcome] += 1
            if change.outcome == DIFFERS:
                _write(change, form, out)
    always = (SAME, DIFFERS, UNDETERMINED)
    told = ", ".join(
        f"{counts[outcome]} {outcome}" for outcome in (*always, MIXED) if outcome in always or counts[MIXED]
    )
    click.echo(told, err=True)
    return CONDITION if exit_code and counts[DIFFERS] else DONE


def changes(store: Store, before: int, after: int) -> Iterator[Change]:
    """Every parameter that both runs have a verdict on, compared; of mixed sites only whether they are that."""
    old = {(item.site, item.vantage): item.verdicts for item in chosen(store, find(store, before))}
    for item in chosen(store, find(store, after)):
        earlier = old.get((item.site, item.vantage), {})
        mixed = is_mixed(earlier) or is_mixed(item.verdicts)
        for knob in sorted(earlier.keys() & item.verdicts.keys()):
            then, now = earlier[knob], item.verdicts[knob]
            outcome = MIXED if mixed and knob != BALANCING else compare(then, now)
            yield Change(item.site, item.vantage, knob, outcome, then, now)


def _write(change: Change, form: str, out: TextIO) -> None:
    if form == "csv":
        before, after = change.before, change.after
        sides = (plain_value(before), before.grade, plain_value(after), after.grade)
        _row(out, (change.site, change.vantage, change.knob, *sides))
    else:
        out.write((_json(change) if form == "jsonl" else _text(change)) + "\n")


def _row(out: TextIO, cells: Iterable[str]) -> None:
    csv.writer(out, lineterminator="\n").writerow(cells)


def _text(change: Change) -> str:
    return f"{change.site}\t{change.vantage}\t{change.knob}\t{change.before.text} -> {change.after.text}"


def _json(change: Change) -> str:
    before, after = observation_form(change.before), observation_form(change.after)
    for form in (before, after):
        form.pop("trials", None)
    return canonical({"schema": "configtron.diff/1", **change._asdict(), "before": before, "after": after})
