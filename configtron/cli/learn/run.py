# SPDX-License-Identifier: MIT
"""`configtron learn run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import click

from configtron.cli.advanced import LongCommand
from configtron.cli.completing import either
from configtron.cli.learn.options import damage_options, log_option, operator_limits, policy_option
from configtron.cli.options import budget_option, form_options, seed_option, typed, with_options
from configtron.cli.output import LEARNING, event_lines, write_rows
from configtron.cli.settings import settings
from configtron.cli.tune.options import guard_options
from configtron.linux.signals import terminated

if TYPE_CHECKING:
    from configtron.service.learning.lessons import PolicyOptions

making_options = with_options(
    log_option,
    seed_option,
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
    budget_option(),
)  # fmt: skip

# What `--help` lists last.
ADVANCED = (
    "seed", "classes", "update_every", "engine", "warm", "watch", "evolve", "by_device", "features", "damage",
    "damage_from", "allow_unfair", "all_configurations",
)  # fmt: skip


def making_of(*, all_configurations: bool, warm: BinaryIO | None, damage_from: BinaryIO | None, **given: Any
              ) -> PolicyOptions:  # fmt: skip
    """Return the options as the service takes them. Errors: `BadInput` for a bound that is none."""
    from configtron.service.learning.lessons import PolicyOptions

    plain = {name: value for name, value in given.items() if name not in ("bound", "allow_unfair")}
    limits = None if all_configurations else operator_limits()
    files: dict[str, Any] = {"warm": warm and warm.read(), "damage_from": damage_from and damage_from.read()}
    return PolicyOptions(limits=limits, **files, **plain)


@click.command(cls=LongCommand, advanced=ADVANCED)
@policy_option("policy", shell_complete=either,
               help="A policy of `learn status` resumes; one of `learn policies`, or a class package.module:Class, is"
               " new.  [default: thompson]")  # fmt: skip
@click.option("--name", default="", metavar="NAME",
              help="Name of the new policy, by which --policy finds it later.  [default: as --policy]")  # fmt: skip
@making_options
@click.option("--outcomes", "most", type=click.IntRange(1), metavar="N", help="Learn from at most N more outcomes now.")
@click.option("--fresh", is_flag=True, help="Delete what the policy learned and decided, and start it anew.")
@form_options
def run(name: str, policy: str, most: int | None, fresh: bool, form: str, output_file: str, **making: Any) -> None:
    """Let a policy learn from the database's outcomes, in order of arrival.

    For each outcome's client the policy first makes its own decision, which is stored; then it learns the outcome.
    State and decisions are saved in one transaction: after a kill, --policy NAME alone resumes, with the same result as
    an uninterrupted run. Options are fixed when a policy is made; --fresh makes it anew. docs/learn.md explains
    classes, features, knobs without effect, the bound on damage and the budget. Exit code 130: ended by Ctrl-C, SIGTERM
    or SIGHUP.
    """
    from configtron.service.learning import running
    from configtron.service.learning.rows import LEARNED_COLUMNS, learned_row

    with terminated():
        asked_for = tuple(name for name in typed() if name in ("policy", *making))
        options = running.LearnOptions(settings().db, policy, name, making_of(**making), asked_for, most, fresh)
        taken = running.run(options, event_lines())
        write_rows(form, output_file, LEARNED_COLUMNS, [learned_row(taken)], LEARNING)
