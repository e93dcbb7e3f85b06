# SPDX-License-Identifier: MIT
"""Options and look-ups that several commands of `learn` share."""

from __future__ import annotations

from functools import wraps
from typing import Any

import click

from configtron.cli.completing import learned
from configtron.cli.options import Command
from configtron.cli.settings import settings
from configtron.model.errors import BadInput

# Latest outcomes that a question is answered from: enough for intervals of a per cent, little enough for a second.
LAST = 100_000


def log_option(command: Command) -> Command:
    """Add which outcomes are read: `log` is a log's number, 0 for all, or -n for all of the metric of log n."""

    @wraps(command)
    def chosen(*args: Any, log: int, metric: str, **rest: Any) -> Any:
        if metric and log:
            raise BadInput("--log names one log, which has one metric; leave --metric out")
        if metric:
            from configtron.service.learning.learners import log_of_metric

            log = log_of_metric(settings().db, metric)
        return command(*args, log=log, **rest)

    one = click.option(
        "--log", type=click.IntRange(0), default=0, show_default="all of them", metavar="N",
        help="Outcomes of this log only; `learn status` lists them.",
    )  # fmt: skip
    alike = click.option(
        "--metric", default="", metavar="METRIC",
        help="Outcomes of all logs that measured this, where logs measured different things: plt, page, request, ...",
    )  # fmt: skip
    return one(alike(chosen))


def policy_option(command: Command) -> Command:
    """Add the saved policy."""
    return click.option("--policy", "name", default="", metavar="POLICY", shell_complete=learned,
                        help="Which; `learn status` lists them.  [default: the one saved last]")(command)  # fmt: skip


def last_option(command: Command) -> Command:
    """Add how many outcomes are read."""
    return click.option("--last", type=click.IntRange(1), default=LAST, show_default=True, metavar="N",
                        help="From the latest N outcomes.")(command)  # fmt: skip


def damage_options(command: Command) -> Command:
    """Add the bound on damage to neighbours, and the tensor that measured it."""
    most = click.option(
        "--damage", default="", metavar="BYTES",
        help="Serve no configuration by which neighbours lose more bytes for each byte of a page; none: no bound."
             "  [default: 1.25 where it was measured; to export, the policy's own]",
    )  # fmt: skip
    where = click.option("--damage-from", type=click.File("rb"), metavar="FILE",
                         help="The PLT-tensor that measured it.  [default: --warm's, or the policy's]")  # fmt: skip
    return most(where(command))
