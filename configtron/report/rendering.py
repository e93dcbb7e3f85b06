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
from configtron.report.csv_columns import PROBE_COLUMNS
from configtron.report.printed import MOST_ROWS
from configtron.report.rows import emit
from configtron.report.target_results import TargetResult, rows_of

if TYPE_CHECKING:
    from configtron.report.plant_scores import PlantScore
    from configtron.report.score import Score

# Mismatches in a table; all of them are in the JSON lines.
MOST_MISMATCHES = 40


def render(
    found: Iterable[TargetResult], vantages: Mapping[str, Vantage], form: str, out: TextIO, *, color: bool = True,
    fields: Sequence[str] = (), complete: bool = True,
) -> None:  # fmt: skip
    """Write records in that form: table, jsonl, csv, flat. fields: only these parameters, as columns; not in jsonl.
    complete: the run was not interrupted."""
    if form == "jsonl":
        lines.write_jsonl(found, vantages, out)
    elif form == "flat":
        lines.write_flat(found, fields, out)
    elif form == "csv" and fields:
        columns = ("host", "vantage", *(f"{name}{end}" for name in fields for end in ("", "_grade", "_reason")))
        emit(form, columns, (lines.flat_row(item, fields) for item in found), out)
    elif form == "csv":
        emit(form, PROBE_COLUMNS, lines.verdict_rows(found, vantages), out)
    else:
        _tables(found, vantages, out, color, fields, complete)


def _tables(
    found: Iterable[TargetResult], vantages: Mapping[str, Vantage], out: TextIO, color: bool, fields: Sequence[str],
    complete: bool,
) -> None:  # fmt: skip
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
    if len(summed) <= MOST_ROWS:
        tables.overview(first, fields).write(out, color=color)
    names = list(vantages) or sorted({item.vantage for item in summed})
    if len(summed) > MOST_ROWS or len(names) > 1:
        tables.summary(rows_of(summed, knobs, names[0])).write(out, color=color)
        if complete:
            out.write(f"{len(summed)} targets x vantages, {silent} of them without any value.\n")


def _bare(item: TargetResult, knobs: Sequence[str]) -> TargetResult:
    """Return what a summary needs of a record: verdicts without their trials, but with the values read."""
    verdicts = {knob: bare(item.verdicts[knob]) for knob in (*knobs, BALANCING) if knob in item.verdicts}
    return TargetResult(item.site, replace(item.fingerprint, observations=verdicts), ())


def render_evidence(found: Iterable[TargetResult], out: TextIO, *, color: bool = True) -> None:
    """Write each trial of records, with its file and frame numbers, as tables."""
    from configtron.report import tables

    for item in found:
        tables.details(item).write(out, color=color)


def render_score(
    result: Score, probers: Mapping[str, Score], differences: Iterable[PlantScore], form: str, out: TextIO,
    color: bool = True, whole: bool = False,
) -> None:  # fmt: skip
    """Write a lab run's score in that form: table or jsonl; of a table the rows that are not perfect, or the whole;
    last its sums. probers: constant probers, for comparison."""
    from configtron.report.plant_scores import planted_lines
    from configtron.report.score import score_lines

    differences = list(differences)
    if form == "jsonl":
        out.writelines(line + "\n" for line in (*score_lines(result, probers), *planted_lines(differences)))
        return
    from configtron.report import tables

    knobs = [row for row in result.knobs if whole or not row.is_perfect]
    if knobs:
        tables.scores(knobs).write(out, color=color)
    if whole:
        tables.probers(probers).write(out, color=color)
    if regions := [row for row in differences if whole or not row.is_perfect]:
        tables.regions(regions).write(out, color=color)
    if whole and len(result.troubles) > 1:
        tables.troubles(result).write(out, color=color)
        out.write(f"{len(result.reasons)} reasons: {', '.join(f'{r} {n}' for r, n in result.reasons.items())}\n")
    if result.mismatches:
        tables.mismatches(result, MOST_MISMATCHES).write(out, color=color)
    if not whole:
        count = f"{len(knobs)} of {len(result.knobs)} parameters are not perfect"
        out.write(f"{count}; every row: configtron -v probe validate\n\n")
    out.writelines(f"{line}\n" for line in _sums(result, differences))


def _sums(result: Score, differences: Sequence[PlantScore]) -> tuple[str, ...]:
    """Return the score in four lines."""
    from configtron.report.score import percent

    right, given = result.given
    planted, found = sum(row.planted for row in differences), sum(row.found for row in differences)
    return (
        f"pairs     {sum(row.total for row in result.knobs)} of a parameter, a site and a region",
        f"right     {right} of {given} values and bounds given ({percent(right, given)})",
        f"planted   {found} of {planted} differences between regions found ({percent(found, planted)})",
        f"invented  {sum(len(row.false) for row in differences)} differences; of what was given, {given - right} wrong",
    )
