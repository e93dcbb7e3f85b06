# SPDX-License-Identifier: MIT
"""Verdicts that differ between two runs: a line each, JSON Lines or CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, TextIO

from configtron.fingerprint.diversity import DIFFERS, MIXED, SAME, UNDETERMINED
from configtron.model.nouns import Observation
from configtron.model.records import Json, observation_form
from configtron.report.lines import plain_value
from configtron.report.rows import emit

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

    def differing() -> Iterator[VerdictChange]:
        for change in changes:
            if not knobs or change.knob in knobs:
                counts[change.outcome] += 1
                if change.outcome == DIFFERS:
                    yield change

    if form == "table":
        out.writelines(map(_text, differing()))
    else:
        emit(
            form, DIFF_COLUMNS, map(_cells if form == "csv" else _object, differing()), out, schema="configtron.diff/1"
        )
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
    return f"{change.site}\t{change.vantage}\t{change.knob}\t{change.before.text} -> {change.after.text}\n"


def _object(change: VerdictChange) -> dict[str, Json]:
    before, after = observation_form(change.before), observation_form(change.after)
    for form in (before, after):
        form.pop("trials", None)
    return {**change._asdict(), "before": before, "after": after}
