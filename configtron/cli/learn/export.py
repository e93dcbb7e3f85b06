# SPDX-License-Identifier: MIT
"""`configtron learn export`."""

from __future__ import annotations

from typing import BinaryIO

import click

from configtron.cli.learn.options import damage_options, last_option, log_option, operator_limits, policy_option
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, event_lines, write_rows
from configtron.cli.settings import settings
from configtron.cli.tune.options import guard_options

KINDS = ("loss", "power", "held-back", "profile", "class", "prefix", "cell", "tree")


@click.command()
@policy_option()
@log_option
@last_option
@click.option("--only", type=click.Choice(KINDS), multiple=True, metavar="KIND",
              help=f"Print rows of this kind only; repeat for more: {', '.join(KINDS)}.")  # fmt: skip
@click.option("--leaf", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="Smallest number of clients in a leaf of the tree.")  # fmt: skip
@click.option("--to-tune", is_flag=True, help="Store profiles and prefixes as wanted: see `configtron tune plan`.")
@click.option("--unjudged", is_flag=True, help="With --to-tune: export what the policy prefers, proven to gain or not.")
@click.option("--all", "--power", "everything", is_flag=True,
              help="Show every row: a table has ten of a kind at most, unless --only names kinds.")  # fmt: skip
@guard_options
@damage_options
@form_options
def export(name: str, log: int, last: int, only: tuple[str, ...], leaf: int, to_tune: bool, unjudged: bool,
           everything: bool, damage: str, damage_from: BinaryIO | None, form: str, output_file: str,
           **_: object) -> None:  # fmt: skip
    """Write a policy as rules, and the loss of each kind of rules against the policy itself.

    \b
    cell       class and site -> profile, for agents
    tree       a decision tree in words, for operators
    class      class -> profile, over all sites
    prefix     prefix -> profile, for this host's stack
    profile    settings of each profile, knob by knob
    loss       excess over the policy itself, as a share of
               page load time: median, p95, mean over clients
    power      which gain over Default this log would show;
               `smallest`: with a chance of 80 %, for the
               median profile
    held-back  classes that keep Default and prefixes that
               keep what they had; why: docs/fingerprint.md

    --to-tune stores profiles that are proven faster than Default, and their prefixes, as wanted; `configtron tune plan`
    shows what would change. What a human set stays. docs/learn.md explains the test, the loss, and the bounds. Exit
    code 0 also where nothing is proven. 2: no outcomes, no such policy, a log of other configurations, or no measured
    damage.
    """
    from configtron.model.tensor import read
    from configtron.service.learning import exporting
    from configtron.service.learning.rows import RULE_COLUMNS, rows_of, summary

    tensor = None if damage_from is None else read(damage_from, damage_from.name)
    options = exporting.ExportOptions(
        settings().db, name, log, last, leaf, to_tune, unjudged, damage, tensor, operator_limits()
    )
    rows = [row for row in rows_of(exporting.export(options, event_lines())) if not only or row["kind"] in only]
    whole = form != "table" or everything or bool(only)
    write_rows(form, output_file, RULE_COLUMNS, rows if whole else summary(rows), LEARNING)
