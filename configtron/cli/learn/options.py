# SPDX-License-Identifier: MIT
"""Options and look-ups that several commands of `learn` share."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configtron.cli.completing import learned
from configtron.cli.options import Command, Decorator, with_options
from configtron.cli.param_types import NamedPath
from configtron.cli.settings import settings
from configtron.model.errors import BadInput

if TYPE_CHECKING:
    from configtron.tune.guard import Limits

# Latest outcomes that a question is answered from: enough for intervals of a per cent, little enough for a second.
LAST = 100_000


LOG_OPTIONS = with_options(
    click.option("--log", type=click.IntRange(0), default=0, show_default="all of them", metavar="N",
                 help="Outcomes of this log only; `learn status` lists them."),
    click.option("--metric", default="", metavar="METRIC",
                 help="Outcomes of all logs of this metric only: plt, page, ..."),
)  # fmt: skip


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

    return LOG_OPTIONS(chosen)


def policy_option(name: str = "name", **more: Any) -> Decorator:
    """Return the option of a saved policy."""
    last = "A policy of `learn status`.  [default: the one saved last]"
    about: dict[str, Any] = {"metavar": "POLICY", "shell_complete": learned, "help": last}
    if not {"required", "multiple"} & set(more):
        about["default"] = ""
    return click.option("--policy", name, **(about | more))


# The folder of a manager's keys.
KEYS = click.option("--keys", type=NamedPath(file_okay=False, readable=False, path_type=Path), metavar="FOLDER",
                    help="Folder of the manager's keys; else `fleet` beside the database.")  # fmt: skip


def key_folder(keys: Path | None) -> Path:
    """Return the folder of the manager's keys."""
    return keys or settings().db.parent / "fleet"


stage_options = with_options(
    click.option("--stages/--no-stages", default=True, show_default=True,
                 help="Give a new map to 5 % of clients, then a quarter, then all, as stages pass; or to all at once."),
    click.option("--stage-clients", type=click.IntRange(100), default=10_000, show_default=True, metavar="N",
                 help="Clients (of an epoch) in each group, by which a stage passes or is taken back."),
    click.option("--dark-hours", type=click.IntRange(0, 12), default=0, show_default=True, metavar="N",
                 help="Random hours of each day in which all clients have Default, for comparison."),
)  # fmt: skip
# How many outcomes are read.
last_option = click.option("--last", type=click.IntRange(1), default=LAST, show_default=True, metavar="N",
                           help="Use the latest N outcomes.")  # fmt: skip
# The bound on damage to neighbours, and the tensor that measured it.
damage_options = with_options(
    click.option("--damage", default="", metavar="BYTES",
                 help="Refuse configurations that take more bytes from neighbours for each byte of a page; none: no"
                      " bound.  [default: 1.25 where it was measured; to export, the policy's own]"),
    click.option("--damage-from", type=click.File("rb"), metavar="FILE",
                 help="The PLT-tensor that measured this damage.  [default: --warm's, or the policy's]"),
)  # fmt: skip


def operator_limits() -> Limits:
    """Return what the operator allows: this command's own options, else those of `tune` in the settings file and the
    environment. Errors: `BadInput`."""
    from configtron.tune.guard import limits_of

    here = click.get_current_context()
    root, given = here.find_root(), here.params
    verb = root.command.get_command(root, "tune") if isinstance(root.command, click.Group) else None
    kept = {} if verb is None else verb.make_context("tune", [], parent=root, resilient_parsing=True).params
    bounds = given.get("bound") or kept.get("bound") or ()
    return limits_of(bounds, bool(given.get("allow_unfair") or kept.get("allow_unfair")))
