# SPDX-License-Identifier: MIT
"""`configtron learn status`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.learn.options import rounded, say, write
from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE, BadInput

if TYPE_CHECKING:
    from configtron.db.outcomes import Outcomes
    from configtron.model.records import Json

# Bandwidth, round trip and loss, which all classes live over: not worth a word.
BASE_FEATURES = 3
STATE_COLUMNS = (
    "kind", "name", "since", "outcomes", "waiting", "classes", "splits", "spent", "dropped", "saved",
    "set_aside", "about",
)  # fmt: skip


@click.command(short_help="Show logs of outcomes, and policies that learn.")
@form_options
def status(form: str, output_file: str) -> int:
    """Show the logs of outcomes there are, and the policies that learn: how far each has read, what waits for it,
    how many network classes it has and how many of them were split off (`learn run --evolve`). What a policy leaves out
    of its classes stands in `set_aside`, by reason: outcomes below one round trip as the kernel measured it, prefixes
    whose loads are unlike their class, prefixes that weigh less for having had more than their share.

    `spent` is what its own decisions so far cost over Default, as a share of Default's time (upper estimate; negative:
    it gains), where it keeps a budget (`learn run --budget`); `dropped` names configurations that loads showed to be
    several times slower, everywhere or in a class, and that it does not serve any more. JSON has the budget, and the
    share of sessions that gets what is not proven.

    Exit code 0 also if there is nothing.
    """
    from configtron.db.outcomes import Outcomes

    if not settings().db.is_file():
        rows: list[dict[str, Json]] = []
    else:
        with Outcomes(settings().db, read_only=True) as store:
            rows = [*_logs(store), *_learners(store)]
    write(form, output_file, STATE_COLUMNS, rows)
    if not rows:
        say("no outcomes yet; bring some: configtron learn import, configtron replay sessions --log")
    return DONE


def _logs(store: Outcomes) -> Iterator[dict[str, Json]]:
    for log in store.logs():
        yield {
            "kind": "log", "name": str(log.id), "since": log.begun_at, "outcomes": log.outcomes, "source": log.source,
            "metric": store.metric_of(log.id), "about": f"{log.source} {log.about}",
        }  # fmt: skip


def _learners(store: Outcomes) -> Iterator[dict[str, Json]]:
    from configtron.learner.saved import classes_in, features_in, recipe_of, safety_in, set_aside_in

    for one in store.learners():
        waiting = store.count(one.log, one.position)
        about = f"{one.policy}, from {_which(store, one.log)}"
        classes: int | None = None
        splits: int | None = None
        features: tuple[str, ...] = ()
        aside: dict[str, int] = {}
        kept: dict[str, Json] = {}
        try:
            classes, splits = classes_in(one.state)
            features, aside = features_in(one.recipe), set_aside_in(one.state)
            safety = safety_in(one.state, recipe_of(one.recipe))
            if safety is not None:
                kept = {"budget": safety.budget, "spent": rounded(safety.spent), "unproven": rounded(safety.unproven),
                        "dropped": list(safety.dropped)}  # fmt: skip
        except BadInput as error:  # of another version: the others, and the logs, are shown all the same
            about += f"; cannot be read: {error}"
        about += f"; classes over {', '.join(features)}" if len(features) > BASE_FEATURES else ""
        yield {
            "kind": "policy", "name": one.name, "policy": one.policy, "log": max(one.log, 0), "since": one.begun_at,
            "outcomes": one.outcomes, "waiting": waiting, "classes": classes, "splits": splits,
            "features": list(features), "saved": one.saved_at, "set_aside": dict(aside), "about": about, **kept,
        }  # fmt: skip


def _which(store: Outcomes, log: int) -> str:
    if log > 0:
        return f"log {log}"
    return f"all logs of metric {store.metric_of(log)}" if log else "all logs"
