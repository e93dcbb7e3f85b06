# SPDX-License-Identifier: MIT
"""`configtron tune evaluate`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import FORMATS
from configtron.model.errors import BadInput

# The names of `studies/study.py`, written down here so that --help imports nothing.
STUDIES = ("hotcloud", "pantheon", "calibration", "fairness", "lessons", "realism")
ALL = "all"


@click.command(short_help="Hold the papers' claims against what the lab measures.")
@click.option("--study", "names", multiple=True, type=click.Choice((*STUDIES, ALL)), help="Which; repeat for more.")
@click.option(
    "--tensor",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="For hotcloud and realism: a tensor's file, in place of a measurement of the database.",
)
@click.option(
    "--measurement",
    type=int,
    default=None,
    metavar="NUMBER",
    help="For hotcloud and realism: a measurement of the database; -1 is the last.  [default: -1]",
)
@click.option("--smoke", is_flag=True, help="The smallest run that shows something.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**48 - 1),
    default=1,
    show_default=True,
    help="The same seed gives the same parts, bit for bit.",
)
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Guests at once.  [default: one a CPU]")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where parts are kept, a folder a study; those that are whole there are not done again."
    "  [default: beside the database, in FILE.studies]",
)
@click.option("--fail-on-absent", is_flag=True, help="Exit with 1 if a claim of the paper's does not hold here.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page too: claims, plots, tables, in one file that loads nothing.",
)
@click.option(
    "-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="Form of the answer."
)
@click.option(
    "-o",
    "--output-file",
    default="-",
    type=click.Path(),
    help="Write here; - is stdout; with -f csv a folder that exists gets a file a table.",
)
def evaluate(
    names: tuple[str, ...],
    tensor: Path | None,
    measurement: int | None,
    smoke: bool,
    seed: int,
    jobs: int | None,
    folder: Path | None,
    fail_on_absent: bool,
    html: Path | None,
    form: str,
    output_file: str,
) -> int:
    """Hold the papers' claims against what the lab measures: for each claim the paper's figure, ours, whether it holds
    here, and why, computed from what was measured.

    hotcloud and realism read what `learn measure` measured and need nothing else; the others boot guests, as root. A
    study of guests is done in parts. Ended in any way, kill -9 too, it loses the parts it was at, one a job: the
    same command goes on. The same seed gives the same parts.

    \b
    Exit codes: 0    every part is there; with --fail-on-absent: and no claim is without
                1    --fail-on-absent, and some claim does not hold here
                2    no such file, measurement or name; a file that cannot be written
                3    some parts are missing: conditions not measured, guests that failed
                4    nothing could be evaluated
                5    not root, or a program, library or kernel feature is missing
                130  interrupted; parts that are whole are kept
    """
    from configtron.cli.replay.evaluating import Wanted, evaluated

    if not names:
        raise BadInput(f"--study is wanted: {', '.join(STUDIES)}, or {ALL}")
    chosen = STUDIES if ALL in names else tuple(dict.fromkeys(names))
    wanted = Wanted(tensor, measurement, smoke, seed, jobs, folder, fail_on_absent, html, form, output_file)
    return evaluated(chosen, wanted)
