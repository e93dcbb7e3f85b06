"""`configtron learn import`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TextIO

import click

from configtron.cli.settings import settings
from configtron.errors import DONE, NOTHING

# Outcomes in a transaction.
BATCH = 20_000
SOURCES = ("live", "lab", "sim")


@click.command(name="import", short_help="Read outcomes from a file into the database.")
@click.argument("file", type=click.File())
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
    from configtron.learner.logged import logged_of
    from configtron.learner.told import outcomes
    from configtron.records import canonical

    told, kept = outcomes(_lines(file), source, file.name), 0
    with Outcomes(settings().db) as store:
        log = 0
        try:
            while batch := list(islice(told, BATCH)):
                logged = logged_of(batch)
                log = log or store.begin_log(source, canonical({"file": file.name}))
                store.add(log, logged)
                kept += len(batch)
        except BadInput as error:
            before = f"; {kept} outcomes before it are kept as log {log}" if kept else ""
            raise BadInput(f"{error}{before}") from error
    if not kept:
        say(f"{file.name}: no outcome in it")
        return NOTHING
    say(f"log {log}: {kept} outcomes")
    return DONE


def _lines(file: TextIO) -> Iterator[str]:
    from configtron.errors import BadInput

    try:
        yield from file
    except UnicodeDecodeError as error:
        raise BadInput(f"{file.name}: not text") from error
