# SPDX-License-Identifier: MIT
"""`configtron learn export`."""

from __future__ import annotations

from typing import BinaryIO

import click

from configtron.cli.learn.limits import operator_limits
from configtron.cli.learn.options import damage_options, last_option, log_option, policy_option
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, write_rows
from configtron.cli.settings import settings
from configtron.cli.tune.options import guard_options
from configtron.model.errors import DONE

KINDS = ("loss", "power", "held-back", "profile", "class", "prefix", "cell", "tree")


@click.command(short_help="Write a policy as rules, and what it costs to do so.")
@policy_option
@log_option
@last_option
@click.option(
    "--only",
    type=click.Choice(KINDS),
    multiple=True,
    metavar="KIND",
    help=f"Print rows of this kind only; several times: {', '.join(KINDS)}.",
)
@click.option("--leaf", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="Clients in a leaf of the tree, at least.")  # fmt: skip
@click.option("--to-tune", is_flag=True, help="Store profiles and prefixes as wanted: see `configtron tune plan`.")
@click.option("--unjudged", is_flag=True, help="With --to-tune: export what the policy prefers, proven to gain or not.")
@click.option("--power", "all_power", is_flag=True, help="Show every row of power; a table has ten of them at most.")
@guard_options
@damage_options
@form_options
def export(name: str, log: int, last: int, only: tuple[str, ...], leaf: int, to_tune: bool, unjudged: bool,
           all_power: bool, damage: str, damage_from: BinaryIO | None, form: str, output_file: str,
           **_: object) -> int:  # fmt: skip
    """Write a policy as rules, and the loss of each kind of rules against the policy itself.

    \b
    cell       class and site -> profile: what an agent looks up
    tree       a decision tree in words: what an operator reads
    class      class -> profile over all its sites; prefix: the same for each prefix: what a stack can hold
    profile    the settings of those, knob by knob
    loss       excess over the policy itself, as shares of page load time: median, 95th percentile, mean over clients
    power      which gain over Default this log would show (`smallest`: with a chance of 80 %, for the median profile)
    held-back  classes that keep Default, prefixes that keep what they had, with the reason (docs/reasons.md)

    Rules are made on the earlier half of the clients; their loss is judged by the outcomes of the later half. Where the
    log cannot show it, a reason stands in place of the numbers. The policy itself may have learned from both halves.

    The loss `tune` is that of profiles as a driver of `configtron tune` can set them: the driver that `tune` would take
    here, else the one that reaches most; knobs that it does not reach by prefix stay at their default, and are named.
    Values beyond the operator's bounds and unfair profiles are left out (--bound, --allow-unfair, and `tune`'s section
    of the settings file).

    A class gets a profile only where it is proven to be faster than Default: the lower bound of its gain is above 0.
    The bounds hold for all profiles and classes together, and for all tests of a growing log together (an error of
    5 %): the log is tested again when it has grown by a quarter. Only --to-tune makes a test; without it the last
    verdict is shown. The test needs propensities. --to-tune stores these profiles and prefixes as wanted (`configtron
    tune profile list`); nothing is put in force: `configtron tune plan` shows what would change. Prefixes of an earlier
    export get their new profile, or none. Profiles and prefixes that a human set stay, and the clients within them.

    If the policy was made with a bound on damage to neighbours (`learn run --damage`), cells, classes and prefixes keep
    to it; the tree, which merges classes, does not. --damage sets another bound, --damage-from takes another tensor.

    --unjudged exports what the policy prefers, without a test. A policy with a model over all cells and no warm start
    prefers no value of a knob that was loaded less than 100 times. With any other policy, a class without a load of its
    preferred profile gets the fastest one that its clients did load, else Default; the row `tune` counts these classes.

    Exit code 0 also where nothing is proven. 2: no outcomes, no such policy, a log of other configurations than the
    policy's (with --to-tune), or --damage without a tensor that measured it.
    """
    from configtron.cli.display import EventLines
    from configtron.model.tensor import read
    from configtron.service.learning import exporting
    from configtron.service.learning.rule_rows import RULE_COLUMNS, rows_of, summary

    tensor = None if damage_from is None else read(damage_from, damage_from.name)
    options = exporting.ExportOptions(
        settings().db, name, log, last, leaf, to_tune, unjudged, damage, tensor, operator_limits()
    )
    rows = [row for row in rows_of(exporting.export(options, EventLines())) if not only or row["kind"] in only]
    whole = form != "table" or all_power or only == ("power",)
    write_rows(form, output_file, RULE_COLUMNS, rows if whole else summary(rows), LEARNING)
    return DONE
