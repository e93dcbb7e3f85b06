# SPDX-License-Identifier: MIT
"""`configtron probe` diff, export, merge, validate: stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.completing import measured, runs
from configtron.cli.options import INPUT_FILE, check_alone, form_options, format_option, output_option
from configtron.cli.output import event_lines, say
from configtron.cli.param_types import NamedPath
from configtron.cli.probe.names import known_knob, run_number
from configtron.cli.settings import settings
from configtron.model.errors import CONDITION, DONE, NOTHING
from configtron.report.files import opened


@click.command()
@click.argument("before", callback=run_number, shell_complete=runs)
@click.argument("after", callback=run_number, shell_complete=runs)
@form_options
@click.option("--knob", "knobs", multiple=True, metavar="KNOB", callback=known_knob, shell_complete=measured,
              help="Only this parameter.")  # fmt: skip
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything differs.")
def diff(before: int, after: int, form: str, output_file: str, knobs: tuple[str, ...], exit_code: bool) -> int:
    """Compare two runs (numbers, or last): settings known at grade A or B in both, and not equal.

    Sites where different servers share an address (mixed) are only counted: which of them answers is chance.
    """
    from configtron.fingerprint.diversity import DIFFERS
    from configtron.report.changes import change_summary, write_changes
    from configtron.service import campaign

    with campaign.open_runs(settings().db) as store, opened(output_file) as out:
        counts = write_changes(campaign.changes(store, before, after), form, out, knobs)
    click.echo(change_summary(counts), err=True)
    return CONDITION if exit_code and counts[DIFFERS] else DONE


@click.command()
@click.argument("run", callback=run_number, shell_complete=runs)
@click.option("-f", "--format", "form", type=click.Choice(["jsonl", "csv", "results"]), default="jsonl",
              show_default=True, help="jsonl: one record per target and vantage; csv: one row per verdict; "
              "results: one line per probe connection.")  # fmt: skip
@output_option
@click.option("--parquet", type=NamedPath(path_type=Path, file_okay=False), metavar="DIRECTORY",
              help="Parquet files in this folder, by day and region: readings and verdicts.")  # fmt: skip
def export(run: int, form: str, output_file: str, parquet: Path | None) -> int:
    """Write a run (a number, or last) for other programs; jsonl records fit the shipped report/probe.schema.json."""
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


@click.command()
@click.argument("files", nargs=-1, required=True, type=INPUT_FILE, metavar="DATABASE...")
@click.option("--as-one", default="", metavar="NAME", help="All become one run of this name: vantages of one campaign,"
              " or parts of one list (--shards).")  # fmt: skip
@click.option("--no-packets", is_flag=True, help="Leave their packets where they are.")
def merge(files: tuple[Path, ...], as_one: str, no_packets: bool) -> None:
    """Add the runs of other databases, with their packets, to this one (--db).

    What is here already is not added again: repeat a merge that was interrupted, or whose runs have grown.
    """
    from configtron.service import campaign

    options = campaign.MergeOptions(files, as_one, packets=not no_packets)
    for done in campaign.merge(options, settings().db, progress=event_lines()):
        say(done.text)


@click.command()
@click.argument("run", callback=run_number, required=False, shell_complete=runs)
@format_option("table", "jsonl")
@output_option
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything is wrong.")
def validate(run: int | None, form: str, output_file: str, exit_code: bool) -> int:
    """Score a lab run (a number, or last; without RUN, the newest of the lab) against the truth.

    Rows of what is not perfect, mismatches with their true values, four lines of sums. All rows: `configtron -v probe
    validate`. docs/probe.md explains each column. Exit code 4: the run has no value."""
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
