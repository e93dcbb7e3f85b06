# SPDX-License-Identifier: MIT
"""`probe merge`: runs of other machines' databases, with their packets, in one database.

Every file is opened and checked before the first row is written. A run is known by its identity (`run_identity.py`), a
connection by its trace id, so a merge that was killed, or is made again, adds what is missing and nothing twice; a run
that goes on elsewhere grows with each merge. Packets are copied beside, each file whole or not at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from configtron.db.merging import MergedRuns
from configtron.db.store import Run, Store
from configtron.model.bounds import check_text, check_texts
from configtron.model.errors import BadInput, cannot_write
from configtron.model.records import Json, Result, canonical
from configtron.probe.wire.journal import batches
from configtron.service.campaign.run_identity import MERGED, identity_of, machine_of, merged_of, named_identity
from configtron.service.campaign.runs import locked, run_folder, vantages_of_run
from configtron.service.progress import Event, Progress, unheard

# Options of two runs that must agree where both have a vantage: then they are parts of one list of targets.
SAME_LIST = ("seed", "shards", "profile", "tests")
# Held, in the folder of all runs, while a database is merged into.
LOCK = "merge"


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """files: databases to read; as_one: the name of the one run that all of theirs become, "" to keep them apart;
    packets: copy their packets too.
    """

    files: tuple[Path, ...]
    as_one: str = ""
    packets: bool = True

    def __post_init__(self) -> None:
        """Check that there are files. Errors: `BadInput`."""
        check_texts(self)
        if not self.files:
            raise BadInput("nothing to merge: name the databases of other machines")


class MergedRun(NamedTuple):
    """A run of a file, its number here, and how many of its connections (and addresses) are new here."""

    file: Path
    run: int
    number: int
    fresh: int
    known: int

    @property
    def text(self) -> str:
        """Return it as a line."""
        return f"{self.file}: run {self.run} is run {self.number} here: {self.fresh} new, {self.known} known"


class _Source(NamedTuple):
    """A run to read, and the open database that it is in."""

    store: Store
    run: Run
    identity: str

    @property
    def name(self) -> str:
        return f"{self.store.path}: run {self.run.id}"


def merge(options: MergeOptions, db: Path, *, progress: Progress = unheard) -> tuple[MergedRun, ...]:
    """Add the runs of other databases to this one. Errors: `BadInput` (nothing was written), `Refused`, `Unwritten`."""
    with ExitStack() as stack:
        sources = _sources(options, db, stack)
        if options.as_one:
            # before a database is made
            _check_parts([_Part.of(source) for source in sources])
        with MergedRuns(db) as store, locked(run_folder(store, 0).with_name(LOCK), 0, "merge"):
            numbers = {identity_of(store, run): run.id for run in store.runs()}
            if options.as_one:
                return _merged_as_one(options, sources, store, numbers, progress)
            return tuple(_merged(options, source, store, numbers, progress) for source in sources)


def _sources(options: MergeOptions, db: Path, stack: ExitStack) -> list[_Source]:
    """Return the runs of all files that hold results, each once, after all files are known to be good."""
    check_text("database", db)
    found: dict[str, _Source] = {}
    for path in options.files:
        if path.resolve() == db.resolve():
            raise BadInput(f"{path}: is the database to merge into; name the others")
        store = stack.enter_context(Store(path, read_only=True))
        kept = [_Source(store, run, identity_of(store, run)) for run in store.runs() if store.first_trace(run.id)[0]]
        if not kept:
            raise BadInput(f"{path}: holds no run with results")
        for source in kept:
            vantages_of_run(source.run)
            found.setdefault(source.identity, source)
    return list(found.values())


class _Part(NamedTuple):
    """What one run of several must agree on with the others, as the configuration of the one run keeps it."""

    identity: str
    name: str
    version: str
    vantages: tuple[str, ...]
    shard: int
    targets: str

    @classmethod
    def of(cls, source: _Source) -> _Part:
        """Return the part that a run is."""
        given = json.loads(source.run.config).get("options", {})
        names = tuple(vantages_of_run(source.run))
        same = canonical({name: given.get(name) for name in SAME_LIST})
        return cls(source.identity, source.name, source.run.version, names, int(given.get("shard", 0)), same)


def _check_parts(parts: Sequence[_Part]) -> None:
    """Check that runs are parts of one: one version, and a vantage twice only for shards of one list."""
    taken: dict[str, list[_Part]] = {}
    for part in parts:
        if part.version != parts[0].version:
            raise BadInput(
                f"{part.name} was made by configtron {part.version}, {parts[0].name} by {parts[0].version}: their"
                " verdicts may differ for that, so they stay runs of their own; leave --as-one out"
            )
        for vantage in part.vantages:
            for other in taken.setdefault(vantage, []):
                if other.targets != part.targets or other.shard == part.shard:
                    raise BadInput(
                        f"{part.name} and {other.name} both have the vantage {vantage!r}, and are no --shards of one"
                        " list; vantages need names of their own (--vantages FILE), or leave --as-one out"
                    )
            taken[vantage].append(part)


def _merged(
    options: MergeOptions, source: _Source, store: MergedRuns, numbers: dict[str, int], progress: Progress
) -> MergedRun:
    """Add one run under a number of its own."""
    number = numbers.get(source.identity)
    if number is None:
        number = numbers[source.identity] = store.add_run(source.run, _config(source))
    done = _copied(source, store, number, "", progress)
    if options.packets:
        _copy_packets(source, run_folder(store, number), "")
    store.end_run(number, source.run)
    return done


def _merged_as_one(
    options: MergeOptions, sources: Sequence[_Source], store: MergedRuns, numbers: dict[str, int], progress: Progress
) -> tuple[MergedRun, ...]:
    """Add all runs to the one of that name; packets of each in folders of their own."""
    identity = named_identity(options.as_one)
    number = numbers.get(identity)
    before = None if number is None else store.run(number)
    parts = {part.identity: part for part in _parts_of(before)}
    parts |= {source.identity: _Part.of(source) for source in sources}
    _check_parts(list(parts.values()))
    merged = {"identity": identity, "name": options.as_one, "parts": [part._asdict() for part in parts.values()]}
    places = {} if before is None else vantages_of_run(before)
    for source in sources:
        places = places | {name: one for name, one in vantages_of_run(source.run).items() if name not in places}
    vantages: list[Json] = [dict(asdict(place)) for place in places.values()]
    config = {**json.loads(sources[0].run.config), MERGED: merged, "vantages": vantages}
    if number is None:
        number = store.add_run(sources[0].run, canonical(config))
    store.set_config(number, canonical(config))
    done = []
    for source in sources:
        done.append(_copied(source, store, number, f"{source.identity}-", progress))
        if options.packets:
            _copy_packets(source, run_folder(store, number), f"{source.identity}-")
    store.end_run(number, max((source.run for source in sources), key=lambda run: run.status != "done"))
    return tuple(done)


def _parts_of(run: Run | None) -> list[_Part]:
    found = [] if run is None else merged_of(run).get("parts", [])
    return [_Part(**{**one, "vantages": tuple(one["vantages"])}) for one in found]


def _config(source: _Source) -> str:
    merged = merged_of(source.run) or {"identity": source.identity, "machine": machine_of(source.run)}
    return canonical({**json.loads(source.run.config), MERGED: merged})


def _copied(source: _Source, store: MergedRuns, number: int, prefix: str, progress: Progress) -> MergedRun:
    fresh = known = 0
    for batch in batches(source.store.results(source.run.id)):
        new = store.record(number, [_renamed(result, prefix) for result in batch])
        fresh, known = fresh + new, known + len(batch) - new
        progress(Event(fresh + known, source.run.traces, f"{source.name} into run {number}"))
    return MergedRun(source.store.path, source.run.id, number, fresh, known)


def _renamed(result: Result, prefix: str) -> Result:
    return result._replace(evidence_file=prefix + result.evidence_file) if result.evidence_file and prefix else result


def _copy_packets(source: _Source, to: Path, prefix: str) -> None:
    """Copy the files of a run's packets that are absent here or shorter."""
    folder = run_folder(source.store, source.run.id)
    for name in source.store.evidence_files(source.run.id):
        there, here = folder / name, to / (prefix + name)
        try:
            if there.is_file() and not (here.is_file() and here.stat().st_size >= there.stat().st_size):
                here.parent.mkdir(parents=True, exist_ok=True)
                part = here.with_name(f".{here.name}.part")
                shutil.copyfile(there, part)
                part.rename(here)
        except OSError as error:
            raise cannot_write(error.filename2 or error.filename or here, error) from error
