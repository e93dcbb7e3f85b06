# SPDX-License-Identifier: MIT
"""A run that has ended: its records in a file or on stdout, lines for people, and the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from configtron.model.errors import INTERRUPTED
from configtron.report.files import opened
from configtron.report.rendering import render
from configtron.service.campaign.conditions import parse_conditions
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.running import RunResult
from configtron.service.campaign.runs import open_runs, records_of, vantages_of_run
from configtron.service.campaign.summary import RunSummary


class WrittenRun(NamedTuple):
    """lines: for people, each with whether a quiet command prints it too; exit_code: of the command."""

    lines: tuple[tuple[str, bool], ...]
    exit_code: int


def write_run(options: ProbeOptions, done: RunResult, db: Path, *, color: bool) -> WrittenRun:
    """Write the records of a run that has ended, as its options ask. Errors: `BadInput`, `Unwritten`."""
    summary = RunSummary(parse_conditions(options.fail_on))
    with open_runs(db) as store, opened(options.output_file) as out:
        run = store.run(done.number)
        found = summary.counting(records_of(store, run))
        vantages, complete = vantages_of_run(run), not done.cancelled
        render(found, vantages, options.format, out, color=color, fields=options.fields, complete=complete)
    if options.metadata_file:
        summary.write_metadata(options.metadata_file, run)
    conditions = summary.true_conditions()
    lines = [(text, False) for text in summary.lines()]
    lines += [(f"configtron: --fail-on {text} holds", True) for text in conditions]
    if not done.cancelled:
        lines.append((f"run {run.id}: {run.status}; see it again with: configtron probe show {run.id}", False))
    return WrittenRun(tuple(lines), INTERRUPTED if done.cancelled else summary.exit_code(conditions))
