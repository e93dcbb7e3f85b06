# SPDX-License-Identifier: MIT
"""`configtron learn status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from configtron.cli.learn.options import rounded, say, write
from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE

if TYPE_CHECKING:
    from configtron.db.outcomes import LogRow
    from configtron.model.records import Json
    from configtron.service.learning.overview import Reader

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
    from configtron.service.learning.overview import status as found_in

    found = found_in(settings().db)
    rows = [*(_log_row(one.log, one.metric) for one in found.logs), *map(_reader_row, found.learners)]
    write(form, output_file, STATE_COLUMNS, rows)
    if not rows:
        say("no outcomes yet; bring some: configtron learn import, configtron replay sessions --log")
    return DONE


def _log_row(log: LogRow, metric: str) -> dict[str, Json]:
    return {
        "kind": "log", "name": str(log.id), "since": log.begun_at, "outcomes": log.outcomes, "source": log.source,
        "metric": metric, "about": f"{log.source} {log.about}",
    }  # fmt: skip


def _reader_row(found: Reader) -> dict[str, Json]:
    one, kept = found.learner, dict[str, "Json"]()
    about = f"{one.policy}, from {_which(one.log, found.metric)}"
    about += f"; cannot be read: {found.error}" if found.error else ""
    about += f"; classes over {', '.join(found.features)}" if len(found.features) > BASE_FEATURES else ""
    if (safety := found.safety) is not None:
        kept = {"budget": safety.budget, "spent": rounded(safety.spent), "unproven": rounded(safety.unproven),
                "dropped": list(safety.dropped)}  # fmt: skip
    return {
        "kind": "policy", "name": one.name, "policy": one.policy, "log": max(one.log, 0), "since": one.begun_at,
        "outcomes": one.outcomes, "waiting": found.waiting, "classes": found.classes, "splits": found.splits,
        "features": list(found.features), "saved": one.saved_at, "set_aside": dict(found.set_aside), "about": about,
        **kept,
    }  # fmt: skip


def _which(log: int, metric: str) -> str:
    if log > 0:
        return f"log {log}"
    return f"all logs of metric {metric}" if log else "all logs"
