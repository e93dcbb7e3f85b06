# SPDX-License-Identifier: MIT
"""The records of a run as tables, JSON Lines or CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TextIO

from configtron.cli.settings import settings
from configtron.fingerprint.diversity import BALANCING, bare
from configtron.model.nouns import Vantage
from configtron.report import lines
from configtron.report.target_results import TargetResult, rows_of
from configtron.service.campaign.runs import SUMMARY

# More rows than a screen holds are not shown unasked.
MOST_ROWS = 40


def render(found: Iterable[TargetResult], vantages: Mapping[str, Vantage], form: str, out: TextIO) -> None:
    """Write records in that form: table, jsonl or csv."""
    if form == "jsonl":
        lines.write_jsonl(found, vantages, out)
    elif form == "csv":
        lines.write_csv(found, vantages, out)
    else:
        _tables(found, vantages, out)


def _tables(found: Iterable[TargetResult], vantages: Mapping[str, Vantage], out: TextIO) -> None:
    from configtron.report import tables

    first: list[TargetResult] = []
    summed: list[TargetResult] = []
    silent = 0
    for item in found:
        if len(first) <= MOST_ROWS:
            first.append(item)
        silent += item.empty
        summed.append(_bare(item))
    if not summed:
        out.write("No targets yet.\n")
        return
    console = tables.console(out, color=settings().color)
    if len(summed) <= MOST_ROWS:
        console.print(tables.overview(first))
    names = list(vantages) or sorted({item.vantage for item in summed})
    if len(summed) > MOST_ROWS or len(names) > 1:
        console.print(tables.summary(rows_of(summed, SUMMARY, names[0])))
        console.print(f"{len(summed)} targets x vantages, {silent} of them without any value.")


def _bare(item: TargetResult) -> TargetResult:
    """Return what a summary needs of a record: verdicts without their trials, but with the values read."""
    verdicts = {knob: bare(item.verdicts[knob]) for knob in (*SUMMARY, BALANCING) if knob in item.verdicts}
    return TargetResult(item.site, replace(item.fingerprint, observations=verdicts), ())
