# SPDX-License-Identifier: MIT
"""Runs as the commands name and render them."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from configtron.cli.settings import settings
from configtron.db.store import Run, Store
from configtron.fingerprint.diversity import BALANCING, bare
from configtron.model.errors import BadInput, Refused
from configtron.model.knobs import TABLE2
from configtron.model.nouns import Vantage
from configtron.report import lines
from configtron.report.found import TargetResult, found_in, rows_of

# Held by whoever runs a run, for as long as it runs; the kernel lets go of it when a process dies, however it dies.
LOCK = "lock"
# More rows than a screen holds are not shown unasked.
MOST_ROWS = 40
# Rows of the summary. Not the data RTO: it holds the round trip, so it differs between regions by itself.
SUMMARY = TABLE2


def run_folder(store: Store, number: int) -> Path:
    """Where a run keeps its packets: beside the database and named after it, under the run's number."""
    path = store.path.resolve()
    return path.with_name(f"{path.name}.runs") / str(number)


@contextmanager
def held(folder: Path, number: int, what: str = "run") -> Iterator[None]:
    """A run's folder (or that of `what`) for one process alone; a second one is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"{what} {number} is being run by another process; wait for it, or end it") from None
        yield


def is_held(folder: Path) -> bool:
    """Whether some process runs that run now."""
    try:
        with (folder / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def reading() -> Iterator[Store]:
    """The database, for reading."""
    with Store(settings().db, read_only=True) as store:
        yield store


def find(store: Store, number: int) -> Run:
    """The run of that number; negative numbers count from the end."""
    if number >= 0:
        return store.run(number)
    runs = store.runs()
    if len(runs) < -number:
        raise BadInput(f"{store.path}: holds {len(runs)} runs; `configtron probe TARGET` makes one")
    return runs[number]


def vantages_of_run(run: Run) -> dict[str, Vantage]:
    """The vantages a run was begun with, by name, the baseline first."""
    try:
        found = [Vantage(**form) for form in json.loads(run.config).get("vantages", [])]
    except (TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"run {run.id}: its configuration cannot be read: {error}") from error
    return {vantage.name: vantage for vantage in found}


def chosen(store: Store, run: Run, hosts: Iterable[str] = (), vantages: Iterable[str] = ()) -> Iterator[TargetResult]:
    """What a run found; only these hosts and vantages, if any are named."""
    only, places = frozenset(host.lower() for host in hosts), frozenset(vantages)
    for item in found_in(store.results(run.id)):
        if (not only or only & {item.site, item.fingerprint.target.host}) and (not places or item.vantage in places):
            yield item


def render(found: Iterable[TargetResult], vantages: Mapping[str, Vantage], form: str, out: TextIO) -> None:
    """What a run found, in the form asked for: table, jsonl or csv."""
    if form == "jsonl":
        lines.write_jsonl(found, vantages, out)
    elif form == "csv":
        lines.write_csv(found, vantages, out)
    else:
        _tables(found, vantages, out)


def _tables(found: Iterable[TargetResult], vantages: Mapping[str, Vantage], out: TextIO) -> None:
    from configtron.report import tables

    first: list[TargetResult] = []
    summed: list[TargetResult] = []
    silent = 0
    for item in found:
        if len(first) <= MOST_ROWS:
            first.append(item)
        silent += item.empty
        summed.append(_bare(item))
    if not summed:
        out.write("No targets yet.\n")
        return
    console = tables.console(out, color=settings().color)
    if len(summed) <= MOST_ROWS:
        console.print(tables.overview(first))
    names = list(vantages) or sorted({item.vantage for item in summed})
    if len(summed) > MOST_ROWS or len(names) > 1:
        console.print(tables.summary(rows_of(summed, SUMMARY, names[0])))
        console.print(f"{len(summed)} targets x vantages, {silent} of them without any value.")


def _bare(item: TargetResult) -> TargetResult:
    """What a summary needs of a target: verdicts without what they were read from, but with the values read."""
    verdicts = {knob: bare(item.verdicts[knob]) for knob in (*SUMMARY, BALANCING) if knob in item.verdicts}
    return TargetResult(item.site, replace(item.fingerprint, observations=verdicts), ())
