# SPDX-License-Identifier: MIT
"""A run that has ended: its records, and the exit code."""

from __future__ import annotations

import click

from configtron.cli.output import say
from configtron.cli.settings import settings
from configtron.model.errors import INTERRUPTED
from configtron.report.files import opened
from configtron.report.rendering import render
from configtron.service import campaign
from configtron.service.campaign import ProbeOptions, RunResult, RunSummary


def show_run(options: ProbeOptions, done: RunResult) -> int:
    """Write the records of a run that has ended, as its options ask; return the exit code."""
    summary = RunSummary(campaign.parse_conditions(options.fail_on))
    with campaign.open_runs(settings().db) as store, opened(options.output_file) as out:
        run = store.run(done.number)
        found = summary.counting(campaign.records_of(store, run))
        render(found, campaign.vantages_of_run(run), options.format, out, color=settings().color)
    if options.metadata_file:
        summary.write_metadata(options.metadata_file, run)
    for text in summary.lines():
        say(text)
    conditions = summary.true_conditions()
    for text in conditions:
        click.echo(f"configtron: --fail-on {text} holds", err=True)
    if not done.cancelled:
        say(f"run {run.id}: {run.status}; see it again with: configtron probe show {run.id}")
    return INTERRUPTED if done.cancelled else summary.exit_code(conditions)
