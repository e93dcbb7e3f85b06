# SPDX-License-Identifier: MIT
"""Replay recordings of probes, and captures that were adopted: choose them, play them, store their results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configtron.model.bounds import check_number, check_texts
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, BadInput
from configtron.report.replay_results import DIVERGED, UNTOLD, WRONG, Played
from configtron.service.campaign.runs import find_run, open_runs, run_folder
from configtron.service.capture.reading import Lacks
from configtron.service.progress import Cancelled, Event, Progress, never, unheard
from configtron.service.replay import adoption, expected
from configtron.service.replay.playing import ReplayedTask, Task, play_all

SUFFIXES = (".pcapng", ".pcapng.gz")


@dataclass(frozen=True, slots=True)
class PacketOptions:
    """The options of a replay of packets.

    files   recordings, adopted captures, or folders of them
    run     a run of the database instead of files; None: files
    expect  results or records to compare with, instead of those beside each recording
    update  keep what the replay gives as what is expected from now on
    jobs    processes; 0: one a CPU
    only    compare these fields alone: parameters, names of fields, paths as `client.mss`; (): all
    """

    files: tuple[Path, ...] = ()
    run: int | None = None
    expect: Path | None = None
    update: bool = False
    jobs: int = 0
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("jobs", self.jobs, 0, whole=True)
        if self.only and (self.update or self.run is not None):
            raise BadInput("--only compares with files and stores nothing: neither --run nor --update")


@dataclass(frozen=True, slots=True)
class PlayProgress(Event):
    """`done` of `total` recordings have been replayed; `probes` in them and in those under way."""

    probes: int = 0


@dataclass(frozen=True, slots=True)
class PacketReplay:
    """The results of a replay: each probe and record compared, and the files that an update wrote."""

    played: tuple[Played, ...]
    updated: tuple[Path, ...] = ()
    cancelled: bool = False

    @property
    def differs(self) -> bool:
        """Return whether a replay's results differ from the expected ones."""
        return any(one.status in (DIVERGED, *WRONG) for one in self.played)

    def exit_code(self, *, update: bool) -> int:
        """Return the exit code; update: differences are what is expected from now on."""
        seen = {one.status for one in self.played}
        if not self.played:
            return NOTHING
        if DIVERGED in seen or not update and seen & set(WRONG):
            return CONDITION
        return PARTIAL if UNTOLD in seen and not update else DONE


def replay_packets(
    options: PacketOptions,
    db: Path | None = None,
    *,
    progress: Progress = unheard,
    cancelled: Cancelled = never,
    lacks: Lacks = str,
) -> PacketReplay:
    """Replay recordings and compare. `db`: of `options.run`. `cancelled` is asked after each recording; what was
    replayed until then is the result, and nothing is updated.

    Errors: `BadInput` for files that cannot be read or were never recorded, `ConfigtronError` if a process is killed.
    """
    tasks = tasks_of(options, db)
    done: list[ReplayedTask] = []

    def counted(probes: int) -> None:
        progress(PlayProgress(len(done), len(tasks), "replay", probes))

    for each in play_all(
        tasks, options.jobs or len(os.sched_getaffinity(0)), counted, keep=options.update, lacks=lacks
    ):
        done.append(each)
        if cancelled():
            return PacketReplay(tuple(one for each in done for one in each.played), cancelled=True)
    played = tuple(one for each in done for one in each.played)
    return PacketReplay(played, tuple(_update(done)) if options.update else ())


def tasks_of(options: PacketOptions, db: Path | None) -> list[Task]:
    """Return the recordings to replay, each with its expected results. Errors: `BadInput`."""
    if options.run is not None:
        return _tasks_of_run(options, options.run, db)
    files, expect = options.files, options.expect
    if not files:
        raise BadInput("nothing to replay: name recordings, folders of them, or --run RUN")
    for path in (*files, *([expect] if expect is not None and not options.update else [])):
        if not path.exists():
            raise BadInput(f"{path}: no such file or folder")
    adopted = {path for file in files if file.is_dir() for path in adoption.adopted_in(file)}
    found = [path for file in files for path in (recordings_in(file, adopted) if file.is_dir() else [file])]
    if expect is not None and expect.is_dir():
        raise BadInput(f"--expect {expect}: is a folder; name one file of results or records")
    if expect is not None and len(found) != 1:
        raise BadInput(f"--expect {expect}: is for one recording, and here are {len(found)}")
    tasks = [task._replace(only=options.only) for path in found for task in _tasks(path, expect, path in adopted)]
    for name in options.only:
        if not any(_holds(task.expect, name) for task in tasks):
            raise BadInput(f"--only {name}: nothing that is expected has a field or a parameter of that name")
    for task in tasks if options.update else ():
        if task.lost:
            raise BadInput(f"{adoption.LOST}{task.expect}; bring the capture back, or delete the file")
        if task.expect is not None and task.expect.name == expected.JOURNAL:
            raise BadInput(f"{task.expect}: is a run's journal and is not rewritten; name another file by --expect")
    return tasks


def _tasks(path: Path, expect: Path | None, adopted: bool) -> list[Task]:
    """Return the tasks of one file: a recording of ours may be adopted too, then it is both.

    adopted   whether it is a capture in a folder where some are adopted
    """
    if _is_lost(path):
        return [Task(path, str(path), path, lost=True)]
    lines = expect if expect is not None and adoption.holds_connections(expect) else None
    beside = adoption.expected_of(path)
    if expect is None and (beside.is_file() or (adopted and not path.name.endswith(SUFFIXES))):
        lines = beside
    if not path.exists():
        return [Task(path, str(path), lines, adopted=True, lost=True)]
    kept = expect if lines is None else expected.beside(path) if expect is None else None
    ours = [Task(path, str(path), kept or expected.beside(path))] if kept or lines is None else []
    return ours + ([Task(path, str(path), lines, adopted=True)] if lines is not None else [])


def recordings_in(folder: Path, adopted: set[Path]) -> list[Path]:
    """Return the recordings of ours in a folder, those of the adopted captures in it, and what lost its recording."""
    ours = {path for path in folder.rglob("*") if path.name.endswith(SUFFIXES) or _is_lost(path)}
    return sorted(ours | {path for path in adopted if path.is_relative_to(folder)})


def _is_lost(path: Path) -> bool:
    """Return whether a file has what is expected of a recording, and no recording is beside it."""
    return path.name == expected.KEPT and not any(one.name.endswith(SUFFIXES) for one in path.parent.iterdir())


def _holds(path: Path | None, name: str) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace") if path is not None and path.is_file() else ""
    return all(f'"{part}"' in text for part in name.split("."))


def _tasks_of_run(options: PacketOptions, number: int, db: Path | None) -> list[Task]:
    if options.files or options.update:
        raise BadInput("--run replays what the database holds: it takes neither files nor --update")
    if db is None:
        raise BadInput(f"run {number}: name the database that holds it")
    with open_runs(db) as store:
        run = find_run(store, number)
        folder = run_folder(store, run.id)
        names = store.evidence_files(run.id)
        for name in names:
            if not (folder / name).is_file():
                raise BadInput(f"run {run.id}: its packets are gone: {folder / name}")
        return [Task(folder / name, name, options.expect, store.path, run.id) for name in names]


def _update(done: Sequence[ReplayedTask]) -> list[Path]:
    """Write the replayed results as the expected ones; return the files. A script that diverged leaves none."""
    written = []
    for each in done:
        if each.played and not any(one.status == DIVERGED for one in each.played):
            path = each.task.expect or each.task.path.with_name(expected.KEPT)
            expected.write(path, each.results, each.records)
            written.append(path)
    return written
