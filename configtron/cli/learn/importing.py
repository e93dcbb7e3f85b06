# SPDX-License-Identifier: MIT
"""`configtron learn import`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.settings import settings
from configtron.errors import DONE, NOTHING
from configtron.records import canonical

if TYPE_CHECKING:
    from configtron.learner.logged import Logged
    from configtron.nouns import Outcome

# Outcomes in a transaction.
BATCH = 20_000
SOURCES = ("live", "lab", "sim")


@click.command(name="import", short_help="Read outcomes from a file into the database.")
@click.argument("file", type=click.File(encoding="utf-8", errors="surrogateescape"))
@click.option("--source", type=click.Choice(SOURCES), default="live", show_default=True, help="Where they are from.")
def import_(file: TextIO, source: str) -> int:
    """Read outcomes from FILE (- is standard input) into a new log of the database, in order of arrival.

    \b
    JSON Lines, an object each:
      {"context": {"bandwidth_kbps": 5000, "rtt_ms": 80, "loss": 0.01, "site": "news", "prefix": "192.0.2.0/24"},
       "profile": {"initcwnd": 30}, "plt_ms": 1234.5, "arm": "epsilon", "class": "nc3", "propensity": 0.1,
       "measured_at": 1700000000000000000}
    or CSV with a header: plt_ms, any of the context's names, a column for each knob, propensity, arm, class,
    measured_at. Only plt_ms is required; `evaluate` needs propensities, classes need bandwidth, round trip and loss.

    Exit code 2: a line cannot be read; the outcomes before it are kept, and it says how many. 4: there was none.
    """
    from configtron.cli.learn.options import say
    from configtron.db.outcomes import Outcomes
    from configtron.errors import BadInput

    name = file.name.encode(errors="backslashreplace").decode()  # a file's name may be no text
    log, kept = 0, 0
    with Outcomes(settings().db) as store:
        try:
            for logged in _batches(file, name, source):
                if log:
                    store.add(log, logged)
                else:
                    log = store.begin_log(source, canonical({"file": name}), logged)
                kept += len(logged)
        except BadInput as error:
            before = f"; {kept} outcomes before it are kept as log {log}" if kept else ""
            raise BadInput(f"{error}{before}") from error
        except KeyboardInterrupt:
            say(f"log {log}: {kept} outcomes are kept" if kept else "nothing is kept")
            raise
    if not kept:
        say(f"{name}: no outcome in it")
        return NOTHING
    say(f"log {log}: {kept} outcomes")
    return DONE


def _batches(file: TextIO, name: str, source: str) -> Iterator[Logged]:
    """Outcomes, so many at once; a line that cannot be read raises `BadInput` when those before it were handed out."""
    from configtron.errors import BadInput
    from configtron.learner.logged import logged_of
    from configtron.learner.told import outcomes

    told, ended = outcomes(file, source, name), False
    while not ended:
        batch: list[Outcome] = []
        wrong = None
        try:
            for outcome in islice(told, BATCH):
                batch.append(outcome)  # one by one: those before a line that cannot be read stay
        except BadInput as error:
            wrong = error
        if batch:
            yield logged_of(batch)
        if wrong is not None:
            raise wrong
        ended = not batch
