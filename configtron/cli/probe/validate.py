# SPDX-License-Identifier: MIT
"""`configtron probe validate`."""

from __future__ import annotations

import click

from configtron.cli.completing import runs
from configtron.cli.options import format_option, output_option
from configtron.cli.output import say
from configtron.cli.probe.names import run_number
from configtron.cli.settings import settings
from configtron.model.errors import CONDITION, DONE, NOTHING


@click.command(short_help="Score a lab run against the truth.")
@click.argument("run", callback=run_number, required=False, shell_complete=runs)
@format_option("table", "jsonl")
@output_option
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything is wrong.")
def validate(run: int | None, form: str, output_file: str, exit_code: bool) -> int:
    """Score a lab run (a number, or last; without RUN, the newest of the lab) against the truth.

    Rows of what is not perfect, mismatches with their true values, four lines of sums. All rows: `configtron -v probe
    validate`. docs/probe.md explains each column. Exit code 4: the run has no value."""
    from configtron.report.files import opened
    from configtron.report.rendering import render_score
    from configtron.service import campaign

    given = settings()
    with campaign.open_runs(given.db) as store, opened(output_file) as out:
        found = campaign.score_run(store, run)
        say(found.on_disk)
        if form == "jsonl" or not found.nothing:
            render_score(found.score, found.probers, found.differences, form, out, given.color, given.loudness > 0)
    if found.nothing:
        say(found.nothing)
        return NOTHING
    return CONDITION if exit_code and found.score.mismatches else DONE
