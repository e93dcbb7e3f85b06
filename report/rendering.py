# SPDX-License-Identifier: MIT
"""The records of a run as tables, JSON Lines or CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from configtron.fingerprint.diversity import BALANCING, bare
from configtron.model.knobs import TABLE2
from configtron.model.nouns import Vantage
from configtron.report import lines
from configtron.report.target_results import TargetResult, rows_of

if TYPE_CHECKING:
    from configtron.report.plant_scores import PlantScore
    from configtron.report.score import Score

# Mismatches in a table; all of them are in the JSON lines.
MOST_MISMATCHES = 40
# More rows than a screen holds are not shown unasked.
MOST_ROWS = 40


def render(
    found: Iterable[TargetResult], vantages: Mapping[str, Vantage], form: str, out: TextIO, *, color: bool = True,
    fields: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write records in that form: table, jsonl, csv, flat. fields: only these parameters, as columns; not in jsonl."""
    if form == "jsonl":
        lines.write_jsonl(found, vantages, out)
    elif form == "flat":
        lines.write_flat(found, fields, out)
    elif form == "csv" and fields:
        lines.write_fields(found, fields, out)
    elif form == "csv":
        lines.write_csv(found, vantages, out)
    else:
        _tables(found, vantages, out, color, fields)


def _tables(
    found: Iterable[TargetResult], vantages: Mapping[str, Vantage], out: TextIO, color: bool, fields: Sequence[str]
) -> None:
    from configtron.report import tables

    first: list[TargetResult] = []
    summed: list[TargetResult] = []
    silent, knobs = 0, fields or TABLE2
    for item in found:
        if len(first) <= MOST_ROWS:
            first.append(item)
        silent += item.empty
        summed.append(_bare(item, knobs))
    if not summed:
        out.write("No targets yet.\n")
        return
    console = tables.console(out, color=color)
    if len(summed) <= MOST_ROWS:
        console.print(tables.overview(first, fields))
    names = list(vantages) or sorted({item.vantage for item in summed})
    if len(summed) > MOST_ROWS or len(names) > 1:
        console.print(tables.summary(rows_of(summed, knobs, names[0])))
        console.print(f"{len(summed)} targets x vantages, {silent} of them without any value.")


def _bare(item: TargetResult, knobs: Sequence[str]) -> TargetResult:
    """Return what a summary needs of a record: verdicts without their trials, but with the values read."""
    verdicts = {knob: bare(item.verdicts[knob]) for knob in (*knobs, BALANCING) if knob in item.verdicts}
    return TargetResult(item.site, replace(item.fingerprint, observations=verdicts), ())


def render_evidence(found: Iterable[TargetResult], out: TextIO, *, color: bool = True) -> None:
    """Write each trial of records, with its file and frame numbers, as tables."""
    from configtron.report import tables

    console = tables.console(out, color=color)
    for item in found:
        console.print(tables.details(item))


def render_score(
    result: Score, probers: Mapping[str, Score], differences: Iterable[PlantScore], form: str, out: TextIO,
    *, color: bool = True,
) -> None:  # fmt: skip
    """Write a lab run's score in that form: table or jsonl. probers: constant probers, for comparison."""
    from configtron.report.plant_scores import planted_lines
    from configtron.report.score import score_lines

    differences = list(differences)
    if form == "jsonl":
        out.writelines(line + "\n" for line in (*score_lines(result, probers), *planted_lines(differences)))
        return
    from configtron.report import tables

    console = tables.console(out, color=color)
    console.print(tables.scores(result))
    console.print(tables.probers(probers))
    if any(row.planted for row in differences):
        console.print(tables.regions(differences))
    if len(result.troubles) > 1:
        console.print(tables.troubles(result))
        console.print(f"{len(result.reasons)} reasons: " + ", ".join(f"{r} {n}" for r, n in result.reasons.items()))
    if result.mismatches:
        console.print(tables.mismatches(result, MOST_MISMATCHES))
