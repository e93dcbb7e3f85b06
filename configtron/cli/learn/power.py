# SPDX-License-Identifier: MIT
"""Rows of `configtron learn export` that say what a log can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from configtron.cli.learn.options import rounded

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.learning.gains import Tested

# Gains, for each of which a row has how many more outcomes would show it.
GAINS = (0.02, 0.05, 0.1)
# Rows of power in a table that does not ask for all of them.
MOST_POWER = 10


def power_rows(test: Tested) -> Iterator[dict[str, Json]]:
    """Yield what the log can show, of all clients and of each group of classes."""
    for power in test.verdict.power:
        more: dict[str, Json] = {f"more_{gain * 100:.0f}": _whole(power.more(gain)) for gain in GAINS}
        smallest, least = (rounded(power.smallest(error)) for error in (power.median_ln, power.least_ln))
        row: dict[str, Json] = {"kind": "power", "of": power.of or "all", "class": power.of, "outcomes": power.loads}
        row |= {"smallest": smallest, "least": least, "tests": test.tests, "error": rounded(test.test.error), **more}
        yield row | {"when": _power_words(power.loads, smallest, more)}


def summary(rows: Iterable[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return the rows for a reader: the answer first; of power at most `MOST_POWER` rows, at the end."""
    every = list(rows)
    power = [row for row in every if row["kind"] == "power"]
    answer = [row for row in every if row["kind"] != "power"]
    if len(power) <= MOST_POWER:
        return [*answer, *power]
    by_outcomes = sorted(power[1:], key=lambda row: -int(str(row["outcomes"])))
    shown, rest = by_outcomes[: MOST_POWER - 2], by_outcomes[MOST_POWER - 2 :]
    more = f"{len(rest)} groups of classes with fewer outcomes; --power, or -f jsonl, shows each"
    return [*answer, power[0], *shown, {"kind": "power", "class": "", "when": more}]


def _power_words(loads: int, smallest: Json, more: dict[str, Json]) -> str:
    if smallest is None:
        return f"{loads} outcomes show no gain, however large"
    needed = ", ".join(f"{gain:.0%} {more[f'more_{gain * 100:.0f}']}" for gain in GAINS)
    return f"{loads} outcomes show a gain of {smallest:.1%} with a chance of 80 %; outcomes that lack for {needed}"


def _whole(number: float) -> Json:
    return round(number) if number < float("inf") else None
