# SPDX-License-Identifier: MIT
"""Verdicts that differ between two runs: a line each, JSON Lines or CSV."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple, TextIO

from configtron.fingerprint.diversity import DIFFERS, MIXED, SAME, UNDETERMINED
from configtron.model.nouns import Observation
from configtron.model.records import canonical, observation_form
from configtron.report.lines import plain_value

DIFF_COLUMNS = ("host", "vantage", "knob", "before", "before_grade", "after", "after_grade")


class VerdictChange(NamedTuple):
    """One parameter of one target from one vantage in two runs; `outcome` as in `fingerprint/diversity.py`."""

    site: str
    vantage: str
    knob: str
    outcome: str
    before: Observation
    after: Observation


def write_changes(
    changes: Iterable[VerdictChange], form: str, out: TextIO, knobs: Collection[str] = ()
) -> Counter[str]:
    """Write those that differ, of these knobs or of all; return how many parameters had each outcome."""
    counts: Counter[str] = Counter()
    rows = csv.writer(out, lineterminator="\n")
    if form == "csv":
        rows.writerow(DIFF_COLUMNS)
    for change in changes:
        if knobs and change.knob not in knobs:
            continue
        counts[change.outcome] += 1
        if change.outcome == DIFFERS and form == "csv":
            rows.writerow(_cells(change))
        elif change.outcome == DIFFERS:
            out.write((_json(change) if form == "jsonl" else _text(change)) + "\n")
    return counts


def change_summary(counts: Counter[str]) -> str:
    """Return how many parameters had each outcome, in a line."""
    always = (SAME, DIFFERS, UNDETERMINED)
    return ", ".join(
        f"{counts[outcome]} {outcome}" for outcome in (*always, MIXED) if outcome in always or counts[MIXED]
    )


def _cells(change: VerdictChange) -> tuple[str, ...]:
    before, after = change.before, change.after
    sides = (plain_value(before), before.grade, plain_value(after), after.grade)
    return (change.site, change.vantage, change.knob, *sides)


def _text(change: VerdictChange) -> str:
    return f"{change.site}\t{change.vantage}\t{change.knob}\t{change.before.text} -> {change.after.text}"


def _json(change: VerdictChange) -> str:
    before, after = observation_form(change.before), observation_form(change.after)
    for form in (before, after):
        form.pop("trials", None)
    return canonical({"schema": "configtron.diff/1", **change._asdict(), "before": before, "after": after})
