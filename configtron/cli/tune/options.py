# SPDX-License-Identifier: MIT
"""Options that several commands of `tune` share. Given to `tune` itself, or under [tune], they hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import click

FORMATS = ("table", "jsonl", "csv")
# `configtron.tune.guard.MAX_PREFIXES`, written down here so that --help imports nothing.
MAX_PREFIXES = 1_000_000


class Finite(click.FloatRange):
    """A range that neither infinity nor what is no number lies in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As `click.FloatRange`."""
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is no number to count with.", param, ctx)
        return number


SHARE = Finite(0, 1)

Command = Callable[..., Any]


def _drivers(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Names of drivers, for the shell's completion."""
    from configtron.service import lease

    return [name for name in lease.driver_names() if name.startswith(begun)]


def profiles(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of wanted profiles, for the shell's completion; the database is that of the command line."""
    from configtron.cli.settings import default_db
    from configtron.service import lease

    path = ctx.find_root().params.get("db") or default_db()
    return [name for name in lease.wanted(path).rules.profiles if name.startswith(begun)]


def where_options(command: Command) -> Command:
    """By which driver, and where."""
    return _added(
        command,
        click.option(
            "--driver",
            metavar="NAME",
            shell_complete=_drivers,
            help="Who sets it: auto (the default), or one that doctor lists.",
        ),
        click.option("--netns", metavar="NAME", help="In this network namespace; else in the one we are in."),
        click.option("--interface", metavar="NAME", help="Whose routes; else the default route's."),
        click.option("--cgroup", metavar="PATH", help="Only connections of this cgroup; else of all."),
        click.option(
            "--listen",
            multiple=True,
            metavar="PORT",
            help="Only connections to this port, or address:port; several times.",
        ),
    )


RANGE = click.option(
    "--bound",
    multiple=True,
    metavar="KNOB=RANGE",
    help="Never beyond it: initcwnd=1..30, tcp_congestion_control=cubic|reno; several times.",
)
FAIRNESS = click.option("--allow-unfair", is_flag=True, default=None,
                        help="Let profiles pass that take more than their share from cubic.")  # fmt: skip


def policy_options(command: Command) -> Command:
    """What the operator allows."""
    return _added(
        command,
        RANGE,
        click.option("--max-prefixes", type=click.IntRange(0), metavar="N",
                     help=f"No more than so many.  [default: {MAX_PREFIXES}]"),
        click.option("--holdback", type=SHARE, metavar="SHARE",
                     help="Share of prefixes that is never touched, always the same ones; 0 to 1."),
        click.option("--canary", type=SHARE, metavar="SHARE", help="Change only this share of prefixes now; 0 to 1."),
        FAIRNESS,
    )  # fmt: skip


def guard_options(command: Command) -> Command:
    """What the operator allows, of single profiles."""
    return _added(command, RANGE, FAIRNESS)


def form_options(command: Command) -> Command:
    """In which form, and where to."""
    return _added(
        command,
        click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
                     help="Form of the answer."),
        click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False),
                     help="Write here; - is stdout."),
    )  # fmt: skip


def _added(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
