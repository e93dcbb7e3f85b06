# SPDX-License-Identifier: MIT
"""A run while it goes, on stderr, and after it has ended: its records, and the exit code."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TextIO

import click

from configtron.cli.probe.rendering import render
from configtron.cli.settings import hint, settings
from configtron.model.errors import CONDITION, DONE, INTERRUPTED, NOTHING, PARTIAL, REFUSED, cannot_write
from configtron.report.lines import opened
from configtron.report.progress import CampaignCounts
from configtron.report.progress import Progress as Bar
from configtron.service import campaign
from configtron.service.campaign import ProbeOptions, RunProgress, RunResult, RunSummary
from configtron.service.progress import Event


class RunDisplay:
    """Show the events of a run on stderr, and each second in the status file if there is one."""

    def __init__(self, status_file: Path | None) -> None:
        self._status_file, self._stack = status_file, ExitStack()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, event: Event) -> None:
        """Show one event. Errors: `BadInput` if the status file cannot be opened."""
        if isinstance(event, RunProgress):
            if self._bar is None:
                self._bar = self._stack.enter_context(self._begun(event.what))
            counts = CampaignCounts(event.total, event.done, event.calls, event.failed, event.steps)
            self._bar.update(counts, last=event.last)
        elif self._bar is not None:
            self._bar.say(hint(event.what))
        elif settings().loudness >= 0:
            print(event.what, file=sys.stderr, flush=True)

    def _begun(self, what: str) -> Bar:
        given, path = settings(), self._status_file
        status: TextIO | None = None
        if path is not None:
            try:
                status = sys.stderr if str(path) == "-" else self._stack.enter_context(path.open("w"))
            except OSError as error:
                raise cannot_write(path, error) from error
        return Bar(what, sys.stderr, quiet=given.loudness < 0, color=given.color, status=status)


def show_run(options: ProbeOptions, done: RunResult) -> int:
    """Write the records of a run that has ended, as its options ask; the exit code."""
    summary = RunSummary(campaign.parse_conditions(options.fail_on))
    with campaign.open_runs(settings().db) as store, opened(options.output_file) as out:
        run = store.run(done.number)
        found = summary.counting(campaign.records_of(store, run))
        render(found, campaign.vantages_of_run(run), options.format, out)
    if options.metadata_file:
        summary.write_metadata(options.metadata_file, run)
    loud = settings().loudness >= 0
    if summary.blocked and loud:
        _say_blocked(summary)
    conditions = summary.true_conditions()
    for text in conditions:
        click.echo(f"configtron: --fail-on {text} holds", err=True)
    if loud and not done.cancelled:
        click.echo(hint(f"run {run.id}: {run.status}; see it again with: configtron probe show {run.id}"), err=True)
    return INTERRUPTED if done.cancelled else CONDITION if conditions else _code(summary)


def _say_blocked(summary: RunSummary) -> None:
    which = f", for example {summary.example}" if summary.example else ""
    click.echo(
        f"configtron: {summary.blocked} of {summary.total} blocked{which}; what is yours may be probed:"
        f" --allow {summary.example or 'ADDRESS'}, or --allowlist-file FILE",
        err=True,
    )


def _code(summary: RunSummary) -> int:
    if summary.blocked and summary.blocked == summary.total:
        return REFUSED
    if summary.empty == summary.total:
        return NOTHING
    return PARTIAL if summary.empty else DONE
