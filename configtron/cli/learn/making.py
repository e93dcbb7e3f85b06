# SPDX-License-Identifier: MIT
"""The options of `learn run` that fix what a policy is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click
from click.core import ParameterSource

from configtron.cli.learn.options import damage_options, log_option, operator_limits
from configtron.cli.options import Finite, with_options
from configtron.cli.tune.options import guard_options

if TYPE_CHECKING:
    from configtron.service.learning.running import PolicyOptions

# Of a policy that goes on, none of these can be chosen any more.
FIXED = ("policy", "log", "seed", "classes", "update_every", "engine", "warm", "watch", "evolve", "by_device",
         "features", "damage", "damage_from", "bound", "allow_unfair", "all_configurations",
         "budget")  # fmt: skip
making_options = with_options(
    log_option,
    click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of all random numbers."),
    click.option("--classes", default="auto", show_default=True, metavar="K",
              help="Network classes to begin with, at most 400; auto: as few as keep their members alike."),
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
              help="As many classes again for each device that has 200 of the first 10 000 outcomes."),
    click.option("--features", type=click.Choice(("auto", "few")), default="auto", show_default=True,
              help="Features of classes beside bandwidth, round trip, loss. auto: those that pass a test; few: none."),
    damage_options,
    guard_options,
    click.option("--all-configurations", is_flag=True,
              help="Choose also what `configtron tune` would refuse here: for simulations."),
    click.option("--budget", type=Finite(0, 1), default=0.01, show_default=True, metavar="SHARE",
              help="What exploration may cost, as a share of Default's mean page load time (`learn policies`)."),
)  # fmt: skip


def making_of(given: Mapping[str, Any]) -> PolicyOptions:
    """Return the options as the service takes them. Errors: `BadInput` for a bound that is none."""
    from configtron.service.learning.running import PolicyOptions

    plain = ("log", "seed", "classes", "update_every", "engine", "watch", "evolve", "by_device", "features", "damage",
             "budget")  # fmt: skip
    limits = None if given["all_configurations"] else operator_limits()
    warm, damage_from = _bytes(given["warm"]), _bytes(given["damage_from"])
    return PolicyOptions(limits=limits, warm=warm, damage_from=damage_from, **{name: given[name] for name in plain})


def asked_for() -> tuple[str, ...]:
    """Return the names of those that were typed."""
    source = click.get_current_context().get_parameter_source
    return tuple(name for name in FIXED if source(name) is ParameterSource.COMMANDLINE)


def _bytes(file: object) -> bytes | None:
    return None if file is None else cast("BinaryIO", file).read()
