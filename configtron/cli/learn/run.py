# SPDX-License-Identifier: MIT
"""`configtron learn run`."""

from __future__ import annotations

from typing import Any

import click

from configtron.cli.advanced import LongCommand
from configtron.cli.completing import either
from configtron.cli.learn.making import ADVANCED, making_of, making_options
from configtron.cli.learn.options import policy_option
from configtron.cli.options import form_options, typed
from configtron.cli.output import LEARNING, event_lines, write_rows
from configtron.cli.settings import settings
from configtron.linux.signals import terminated


@click.command(cls=LongCommand, advanced=ADVANCED, short_help="Let a policy learn from the database's outcomes.")
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
