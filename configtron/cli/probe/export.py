# SPDX-License-Identifier: MIT
"""`configtron probe export`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.completing import runs
from configtron.cli.options import check_alone, output_option
from configtron.cli.output import say
from configtron.cli.probe.names import run_number
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING


@click.command(short_help="Write a run for other programs.")
@click.argument("run", callback=run_number, shell_complete=runs)
@click.option("-f", "--format", "form", type=click.Choice(["jsonl", "csv", "results"]), default="jsonl",
              show_default=True, help="jsonl: one record per target and vantage; csv: one row per verdict; "
              "results: one line per probe connection.")  # fmt: skip
@output_option
@click.option("--parquet", type=click.Path(path_type=Path, file_okay=False), metavar="DIRECTORY",
              help="Parquet files in this folder, by day and region: readings and verdicts.")  # fmt: skip
def export(run: int, form: str, output_file: str, parquet: Path | None) -> int:
    """Write a run (a number, or last) for other programs; jsonl records fit the shipped report/probe.schema.json."""
    from configtron.report.files import opened
    from configtron.report.lines import write_results
    from configtron.report.rendering import render
    from configtron.service import campaign

    if parquet:
        check_alone({"run", "parquet"}, "--parquet writes a folder of its own")
    with campaign.open_runs(settings().db) as store:
        found = campaign.find_run(store, run)
        if parquet:
            done = campaign.export_parquet(store, found, parquet)
            say(f"{parquet}: {done.readings} readings, {done.verdicts} verdicts, in {len(done.files)} files")
            return DONE if done.verdicts else NOTHING
        with opened(output_file) as out:
            if form == "results":
                write_results(store.results(found.id), out)
            else:
                render(campaign.records_of(store, found), campaign.vantages_of_run(found), form, out)
        return DONE if found.traces else NOTHING
