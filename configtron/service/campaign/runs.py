# SPDX-License-Identifier: MIT
"""Runs in the database, their folders and locks."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote

from configtron.db.store import Run, Store
from configtron.model.bounds import check_text
from configtron.model.errors import BadInput, Refused, file_errors
from configtron.model.knobs import TABLE2
from configtron.model.nouns import Vantage
from configtron.report.target_results import TargetResult, found_in

# Held by the process of a run for as long as it runs; the kernel releases it however the process ends.
LOCK = "lock"
# Rows of the summary. Not the data RTO: it includes the round trip, so it differs between regions anyway.
SUMMARY = TABLE2


def run_folder(store: Store, number: int) -> Path:
    """Return the folder of a run's packets: beside the database and named after it, under the run's number."""
    path = store.path.resolve()
    return path.with_name(f"{path.name}.runs") / str(number)


def disk_text(folder: Path, number: int) -> str:
    """Return how much a run's folder holds, and how to remove it."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return f"run {number}: its packets take {size / 1e6:.0f} MB; to remove them: rm -r {quote(str(folder))}"


@contextmanager
def locked(folder: Path, number: int, what: str = "run") -> Iterator[None]:
    """Lock the folder of run (or of `what`) `number` for this process. Errors: `Refused` if another one has it."""
    check_text("folder", folder)
    with file_errors():
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"{what} {number} is being run by another process; wait for it, or end it") from None
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a process runs that run now."""
    try:
        with (folder / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def open_runs(db: Path) -> Store:
    """Open the database for reading; a context manager. Errors: `BadInput` if there is none."""
    return Store(db, read_only=True)


def find_run(store: Store, number: int) -> Run:
    """Return the run of that number; negative numbers count from the end. Errors: `BadInput`."""
    if number >= 0:
        return store.run(number)
    runs = store.runs()
    if len(runs) < -number:
        raise BadInput(f"{store.path}: holds {len(runs)} runs; `configtron probe TARGET` makes one")
    return runs[number]


def status_of(store: Store, run: Run) -> str:
    """Return a run's status; "killed" for one that the database calls running and no process runs."""
    gone = run.status == "running" and not is_locked(run_folder(store, run.id))
    return "killed" if gone else run.status


def vantages_of_run(run: Run) -> dict[str, Vantage]:
    """Return the vantages that a run was begun with, by name, the baseline first. Errors: `BadInput`."""
    try:
        found = [Vantage(**form) for form in json.loads(run.config).get("vantages", [])]
    except (TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"run {run.id}: its configuration cannot be read: {error}") from error
    return {vantage.name: vantage for vantage in found}


def records_of(
    store: Store, run: Run, hosts: Iterable[str] = (), vantages: Iterable[str] = (), knobs: Iterable[str] = ()
) -> Iterator[TargetResult]:
    """Yield a run's verdicts on each target from each vantage; only these hosts, vantages and knobs, if any are named.

    One by one: a run may be larger than memory.
    """
    only, places, wanted = frozenset(host.lower() for host in hosts), frozenset(vantages), frozenset(knobs)
    for item in found_in(store.results(run.id)):
        if (not only or only & {item.site, item.fingerprint.target.host}) and (not places or item.vantage in places):
            yield _keep_knobs(item, wanted) if wanted else item


def _keep_knobs(item: TargetResult, knobs: frozenset[str]) -> TargetResult:
    verdicts = {knob: verdict for knob, verdict in item.verdicts.items() if knob in knobs}
    return item._replace(fingerprint=replace(item.fingerprint, observations=verdicts))


def baseline_of(run: Run, name: str) -> str:
    """Return the vantage of that name, or the first in the region of that name; "": the run's first. Errors:
    `BadInput`."""
    vantages = vantages_of_run(run)
    if not vantages:
        raise BadInput(f"run {run.id}: names no vantage, so it cannot be compared; `configtron probe` makes a new run")
    if not name or name in vantages:
        return name or next(iter(vantages))
    for vantage in vantages.values():
        if vantage.region.casefold() == name.casefold():
            return vantage.name
    known = ", ".join(f"{v.name} ({v.region})" if v.region else v.name for v in vantages.values())
    raise BadInput(f"run {run.id}: no vantage {name!r}; --baseline takes one of {known}")


# Described by `configtron/report/runs.schema.json`.
RUNS_SCHEMA = "configtron.runs/1"
RUNS_COLUMNS = ("run", "begun", "status", "connections")


def run_rows(store: Store) -> list[tuple[int, str, str, int]]:
    """Return a row of `RUNS_COLUMNS` for each run, in the order of their numbers."""
    return [(each.id, each.begun_at, status_of(store, each), each.traces) for each in store.runs()]
