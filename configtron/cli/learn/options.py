# SPDX-License-Identifier: MIT
"""Options and look-ups that several commands of `learn` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from configtron.cli.completing import learned
from configtron.cli.settings import hint, settings
from configtron.model.errors import BadInput

if TYPE_CHECKING:
    from configtron.db.outcomes import Learner, Outcomes
    from configtron.learner.damage import DamageBound
    from configtron.learner.policy import TablePolicy
    from configtron.learner.reclassify import Watch
    from configtron.model.grid import Grid
    from configtron.model.records import Json
    from configtron.model.tensor import Tensor

# What a row of these commands calls itself is in its field "schema"; raised when a field changes its meaning.
SCHEMA = "configtron.learning/1"
# Latest outcomes that a question is answered from: enough for intervals of a per cent, little enough for a second.
LAST = 100_000
MAKE = "make one: configtron learn run"

Command = Callable[..., Any]


def log_option(command: Command) -> Command:
    """From which outcomes: `log` is a log's number, 0 for all, or -n for all that measured what log n did."""

    @wraps(command)
    def chosen(*args: Any, log: int, metric: str, **rest: Any) -> Any:
        if metric and log:
            raise BadInput("--log names one log, which has one metric; leave --metric out")
        return command(*args, log=_of_metric(metric) if metric else log, **rest)

    one = click.option(
        "--log", type=click.IntRange(0), default=0, show_default="all of them", metavar="N",
        help="Outcomes of this log only; `learn status` lists them.",
    )  # fmt: skip
    alike = click.option(
        "--metric", default="", metavar="METRIC",
        help="Outcomes of all logs that measured this, where logs measured different things: plt, page, request, ...",
    )  # fmt: skip
    return one(alike(chosen))


def _of_metric(metric: str) -> int:
    """-n, n being the first log of that metric. Errors: `BadInput` where there is none."""
    from configtron.db.outcomes import Outcomes

    with Outcomes(settings().db) as store:
        found = store.metrics()
    if metric not in found:
        raise BadInput(f"no log has metric {metric!r}; there is: {', '.join(found) or 'none'}")
    return -found[metric]


def policy_option(command: Command) -> Command:
    """Which saved policy."""
    return click.option("--policy", "name", default="", metavar="POLICY", shell_complete=learned,
                        help="Which; `learn status` lists them.  [default: the one saved last]")(command)  # fmt: skip


def last_option(command: Command) -> Command:
    """From how many outcomes."""
    return click.option("--last", type=click.IntRange(1), default=LAST, show_default=True, metavar="N",
                        help="From the latest N outcomes.")(command)  # fmt: skip


def damage_options(command: Command) -> Command:
    """The bound on damage to neighbours, and the tensor that measured it."""
    most = click.option(
        "--damage", default="", metavar="BYTES",
        help="Serve no configuration by which neighbours lose more bytes for each byte of a page; none: no bound."
             "  [default: 1.25 where it was measured; to export, the policy's own]",
    )  # fmt: skip
    where = click.option("--damage-from", type=click.File("rb"), metavar="FILE",
                         help="The PLT-tensor that measured it.  [default: --warm's, or the policy's]")  # fmt: skip
    return most(where(command))


def damage_of(text: str, tensor: Tensor | None, grid: Grid) -> DamageBound | None:
    """The bound that is meant; None where none is wanted, or nothing was measured and none is asked for. Errors:
    `BadInput` for a bound that no tensor can tell."""
    import numpy as np

    from configtron.learner.damage import BOUND, bound_of, damage_bound

    bound = bound_of(text) if text else BOUND
    if bound is None or (not text and (tensor is None or tensor.damage is None)):
        return None
    if tensor is None:
        raise BadInput("--damage: nobody measured what neighbours lose; name a tensor: --damage-from FILE")
    found = damage_bound(tensor, grid, bound)
    measured = int((~np.isnan(found.high)).any(axis=1).sum())
    say(f"served is what neighbours lose at most {bound:g} bytes by for each byte of a page, as measured on {measured}"
        " conditions; elsewhere no bbr, no unpaced window above 30, no more than six connections")
    return found


def write(form: str, path: str, columns: Sequence[str], rows: Iterable[dict[str, Json]]) -> None:
    """Rows in the form asked for."""
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    with opened(path) as out:
        write_rows(form, columns, rows, out, schema=SCHEMA)


def say(text: str) -> None:
    """A line to stderr, unless they are not wanted."""
    if settings().loudness >= 0:
        click.echo(hint(text), err=True)


def saved(store: Outcomes, name: str) -> Learner:
    """The policy of that name, or the one that was saved last. Errors: `BadInput` if there is none."""
    every = store.learners()
    if not every:
        raise BadInput(f"no policy has learned anything yet; {MAKE}")
    # Of those of one second, the one that was begun last.
    chosen = name or max(enumerate(every), key=lambda one: (one[1].saved_at, one[0]))[1].name
    if not name and len(every) > 1:
        say(f"{chosen} is meant, of {len(every)} policies the one saved last; --policy names another")
    found = store.learner(chosen)
    if found is None:
        raise BadInput(f"no policy is called {name!r}; there is: {', '.join(one.name for one in every)}; {MAKE}")
    return found


def revived(found: Learner) -> TablePolicy:
    """A saved policy as it stood."""
    return revived_with(found)[0]


def revived_with(found: Learner) -> tuple[TablePolicy, Watch | None]:
    """A saved policy as it stood, and the watch over its clients if it has one."""
    from configtron.cli.importable import importable
    from configtron.learner.saved import recipe_of, restore

    recipe = recipe_of(found.recipe)
    importable([recipe.policy])
    policy, watch = recipe.make(warm_of(found)), recipe.watch()
    restore(found.state, policy, watch)
    return policy, watch


def warm_of(found: Learner) -> Tensor | None:
    """The tensor that a saved policy was made with."""
    from io import BytesIO

    from configtron.model.tensor import read

    return None if found.warm is None else read(BytesIO(found.warm), f"the tensor of {found.name}")


def rounded(value: float | None) -> Json:
    """A number of a report: six digits are more than it has, and none for what is no number."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return float(f"{value:.6g}")
