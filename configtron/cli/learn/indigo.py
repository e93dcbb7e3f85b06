# SPDX-License-Identifier: MIT
"""`configtron learn indigo`: train, show."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.lazy import LazyGroup
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, event_lines, rows_to, write_rows
from configtron.cli.param_types import NamedPath


@click.group(cls=LazyGroup)
def indigo() -> None:
    """Train the congestion control indigo, a small network that imitates the best window of emulated links.

    The study `pantheon` runs it beside the others. docs/studies.md shows the links, the learning curve, and where it
    fails.
    """


FOLDER = NamedPath(path_type=Path, file_okay=False)
ROUND_COLUMNS = ("kind", "round", "driver", "where", "loss", "trained_agreement", "trained_distance",
                 "untrained_agreement", "untrained_distance", "calibrated_agreement",
                 "calibrated_distance")  # fmt: skip
BEST_WINDOW_COLUMNS = ("kind", "link", "best_window")


@indigo.command(short_help="Train the congestion control indigo in the lab.")
@click.option("--folder", type=FOLDER, required=True, help="Folder of the training; one that has begun there resumes.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=40, show_default=True,
              help="Number of rounds: flows, and what is learned from them.")  # fmt: skip
@click.option("--lab-rounds", type=click.IntRange(0, 1000), default=3, show_default=True,
              help="Number of last rounds in the lab; those before are on paths in pure Python.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True,
              help="The same seed gives the same weights, on the same machine.")  # fmt: skip
@click.option("--smoke", is_flag=True, help="Train on two slow links: shows every step, but gives no useful weights.")
@form_options
def train(folder: Path, rounds: int, lab_rounds: int, seed: int, smoke: bool, form: str, output_file: str) -> None:
    """Train on emulated links in the lab; a row a round. The weights are FOLDER/indigo.npz.

    First the best window of each link is searched with flows of fixed windows. Then each round's flows, the first
    round's driven by an expert that knows the best window, are added to what the network learns from. After kill -9 the
    same command goes on, and ends in the same weights.
    """
    from configtron.studies.indigo.model_rows import round_rows
    from configtron.studies.indigo.training import IndigoOptions, train_indigo

    with rows_to(form, output_file, LEARNING) as write:
        found = train_indigo(IndigoOptions(folder, rounds, lab_rounds, seed, smoke), event_lines())
        write(ROUND_COLUMNS, round_rows(found))


@indigo.command(short_help="Show how indigo's weights were trained.")
@click.option("--folder", type=FOLDER, help="Folder of a training.  [default: the weights of this package]")
@click.option("--windows", is_flag=True, help="The best window of each link instead of the rounds.")
@form_options
def show(folder: Path | None, windows: bool, form: str, output_file: str) -> None:
    """Show a training's rounds: how often the network's actions were the expert's, and how far its window is from the
    best one, in doublings; on links that it learns from, on others, and on calibrated paths that were held out."""
    from configtron.studies.indigo.model_rows import round_rows, window_rows
    from configtron.studies.indigo.training import show_indigo

    found = show_indigo(folder)
    columns, rows = (BEST_WINDOW_COLUMNS, window_rows(found)) if windows else (ROUND_COLUMNS, round_rows(found))
    write_rows(form, output_file, columns, rows, LEARNING)
