# SPDX-License-Identifier: MIT
"""`configtron learn initial`: train, predict, evaluate."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.lazy import LazyGroup
from configtron.cli.options import INPUT_FILE, form_options, places_option
from configtron.cli.output import LEARNING, say, write_rows
from configtron.cli.param_types import Finite
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING


@click.group(cls=LazyGroup)
def initial() -> None:
    """Learn initial windows from the ends of earlier connections, as Applied Learning Networks does.

    The prefix and the time of a client predict the largest window, the round trip and the packets of its
    connection. docs/studies.md shows the records, the strategies, and what they gain and harm.
    """


WINDOW_COLUMNS = ("kind", "name", "value", "unit", "share", "by")
HIT_COLUMNS = ("target", "model", "rounding", "judged", "hits", "low", "high", "mean_error", "variance")


@initial.command(short_help="Learn from captures or records of ended connections.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=INPUT_FILE)
@places_option(" with locations; may be repeated.  [default: by prefix]")
def train(files: tuple[Path, ...], places: tuple[Path, ...]) -> int:
    """Read ended connections of FILEs into the database, and learn all that are there.

    FILE is a capture, or JSON Lines: connections of `fingerprint pcap -f jsonl`, or end states (docs/studies.md). A
    connection that is read twice counts once. Exit code 4: there is none to learn from.
    """
    from configtron.service.learning import initial

    found = initial.train_initial(initial.InitialOptions(settings().db, files, places))
    say(*found.lines())
    return DONE if found.learned else NOTHING


@initial.command(short_help="Show the initial windows of a client.")
@click.argument("client", metavar="PREFIX|ADDRESS")
@click.option("--at", "at_s", type=Finite(min=0), metavar="SECONDS", help="Time, seconds since 1970.  [default: now]")
@click.option("--rtt", "rtt_ms", type=Finite(min=0.001), metavar="MS",
              help="Round trip of the handshake: the class of a client never seen.")  # fmt: skip
@form_options
def predict(client: str, at_s: float | None, rtt_ms: float | None, form: str, output_file: str) -> None:
    """Show the initial window of each strategy for a client, and the distributions that they are means of.

    The column `by` names what was seen of the client: its prefix, the network around it, or neither. The rule's
    window is half of what three of four connections would pass, for a driver that paces it. Nothing is set.
    """
    from configtron.service.learning import initial

    found = initial.predict_initial(initial.WindowsOptions(settings().db, client, at_s, rtt_ms))
    write_rows(form, output_file, WINDOW_COLUMNS, found.rows, LEARNING)


@initial.command(short_help="Count exact hits of predicted ends of connections.")
@click.option("--share", type=Finite(min=0.01, max=0.99), default=0.5, show_default=True,
              help="Share of the connections, the earlier ones, that models learn from.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True, help="Seed of the network.")
@form_options
def evaluate(share: float, seed: int, form: str, output_file: str) -> None:
    """Count exact hits of later connections by models that learned the earlier ones, with 95 % intervals.

    Beside naive Bayes and the network stand a constant, the commonest bin (`fixed`), and `silence`, Linux's default.
    """
    from configtron.service.learning import initial

    found = initial.evaluate_initial(initial.HitOptions(settings().db, share, seed))
    write_rows(form, output_file, HIT_COLUMNS, initial.hit_rows(found), LEARNING)
