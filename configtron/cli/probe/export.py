# SPDX-License-Identifier: MIT
"""`configtron probe export`."""

from __future__ import annotations

import click

from configtron.cli.completing import runs
from configtron.cli.options import output_option
from configtron.cli.probe.names import run_number
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING
from configtron.report.files import opened
from configtron.report.lines import write_results
from configtron.report.rendering import render
from configtron.service import campaign


@click.command(short_help="Write a run for other programs.")
@click.argument("run", callback=run_number, shell_complete=runs)
@click.option("-f", "--format", "form", type=click.Choice(["jsonl", "csv", "results"]), default="jsonl",
              show_default=True, help="jsonl: one record per target and vantage; csv: one row per verdict; "
              "results: one line per probe connection.")  # fmt: skip
@output_option
def export(run: int, form: str, output_file: str) -> int:
    """Write a run (a number, or last) for other programs; jsonl records fit the shipped report/probe.schema.json."""
    with campaign.open_runs(settings().db) as store:
        found = campaign.find_run(store, run)
        with opened(output_file) as out:
            if form == "results":
                write_results(store.results(found.id), out)
            else:
                render(campaign.records_of(store, found), campaign.vantages_of_run(found), form, out)
        return DONE if found.traces else NOTHING
