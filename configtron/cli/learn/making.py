# SPDX-License-Identifier: MIT
"""The options of `learn run` that fix what a policy is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import click

from configtron.cli.learn.options import damage_options, log_option, operator_limits
from configtron.cli.options import Finite, with_options
from configtron.cli.tune.options import guard_options

if TYPE_CHECKING:
    from configtron.service.learning.lessons import PolicyOptions

making_options = with_options(
    log_option,
    click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of all random numbers."),
    click.option("--classes", default="auto", show_default=True, metavar="K",
              help="Network classes at the start, at most 400; auto: as few as leave the members of each class alike."),
    click.option("--update-every", type=click.IntRange(1), default=500, show_default=True, metavar="N",
              help="Outcomes between two updates; those after the last one wait for the next."),
    click.option("--engine", default="grid", show_default=True, metavar="ENGINE",
              help="Search engine of policies that search cells (`learn policies`): grid, gpyopt, gpyopt-classic."),
    click.option("--warm", type=click.File("rb"), metavar="FILE",
              help="An emulated PLT-tensor to start from, for policies that can (`learn policies`)."),
    click.option("--watch", is_flag=True,
              help="Decide for a client by what its own outcomes showed since its network changed."),
    click.option("--evolve", is_flag=True,
              help="Split a class where its members come to differ, or to want different configurations."),
    click.option("--by-device", is_flag=True,
              help="Make the classes once more for each device with at least 200 of the first 10 000 outcomes."),
    click.option("--features", type=click.Choice(("auto", "few")), default="auto", show_default=True,
              help="Features of classes beside bandwidth, round trip, loss. auto: those that pass a test; few: none."),
    damage_options,
    guard_options,
    click.option("--all-configurations", is_flag=True,
              help="Use also configurations that `configtron tune` would refuse here; for simulations."),
    click.option("--budget", type=Finite(0, 1), default=0.01, show_default=True, metavar="SHARE",
              help="What exploration may cost, as a share of Default's mean page load time (`learn policies`)."),
)  # fmt: skip

# What `--help` lists last.
ADVANCED = (
    "seed", "classes", "update_every", "engine", "warm", "watch", "evolve", "by_device", "features", "damage",
    "damage_from", "allow_unfair", "all_configurations",
)  # fmt: skip


def making_of(
    *, all_configurations: bool, warm: BinaryIO | None, damage_from: BinaryIO | None, **given: Any
) -> PolicyOptions:
    """Return the options as the service takes them. Errors: `BadInput` for a bound that is none."""
    from configtron.service.learning.lessons import PolicyOptions

    plain = {name: value for name, value in given.items() if name not in ("bound", "allow_unfair")}
    limits = None if all_configurations else operator_limits()
    files: dict[str, Any] = {"warm": warm and warm.read(), "damage_from": damage_from and damage_from.read()}
    return PolicyOptions(limits=limits, **files, **plain)
