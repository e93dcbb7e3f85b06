# SPDX-License-Identifier: MIT
"""`configtron probe validate`."""

from __future__ import annotations

import click

from configtron.cli.completing import runs
from configtron.cli.probe.names import run_number
from configtron.cli.settings import settings
from configtron.model.errors import CONDITION, DONE, NOTHING
from configtron.report.lines import opened
from configtron.report.plant_scores import planted_lines
from configtron.report.score import score_lines
from configtron.service import campaign

# Mismatches in a table; all of them are in the JSON lines.
MOST_MISMATCHES = 40


@click.command(short_help="Score a lab run against the truth.")
@click.argument("run", callback=run_number, required=False, shell_complete=runs)
@click.option("-f", "--format", "form", type=click.Choice(["table", "jsonl"]), default="table", show_default=True,
              help="Form of the answer.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything is wrong.")
def validate(run: int | None, form: str, output_file: str, exit_code: bool) -> int:
    """Score a lab run (a number, or last; without RUN, the newest of the lab) against the truth.

    For each parameter and grade, how many verdicts are right of how many. Then how many say all that the truth allows:
    the value at A or B, the largest bound that the answer can prove, or the right reason where there is nothing. Yield:
    the share answered, averaged over the distinct truths and scaled so that the best constant answer has 0; three
    constant probers are scored for comparison. Overclaims: wrong values, at any grade. Not asked: pairs that this
    profile need not measure. Then the differences between regions, those planted and those found; a row for each
    trouble, where the lab's sites have any; and each mismatch with its true value.
    """
    with campaign.open_runs(settings().db) as store, opened(output_file) as out:
        found = campaign.score_run(store, run)
        probers, differences, result = found.probers, found.differences, found.score
        if form == "jsonl":
            out.writelines(line + "\n" for line in (*score_lines(result, probers), *planted_lines(differences)))
        else:
            from configtron.report import tables

            console = tables.console(out, color=settings().color)
            console.print(tables.scores(result))
            console.print(tables.probers(probers))
            if any(row.planted for row in differences):
                console.print(tables.regions(differences))
            if len(result.troubles) > 1:
                console.print(tables.troubles(result))
                console.print(
                    f"{len(result.reasons)} reasons: " + ", ".join(f"{r} {n}" for r, n in result.reasons.items())
                )
            if result.mismatches:
                console.print(tables.mismatches(result, MOST_MISMATCHES))
    if not result.knobs:
        return NOTHING
    return CONDITION if exit_code and result.mismatches else DONE
