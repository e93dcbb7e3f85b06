# SPDX-License-Identifier: MIT
"""Replay recordings and compare each with its expected results; several at once, a process each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import NamedTuple

from configtron.db.store import Store
from configtron.model.errors import ConfigtronError, Diverged
from configtron.model.nouns import Trace, Vantage
from configtron.model.records import Result, result_from_json, result_to_json, target_record
from configtron.probe.wire.evidence_reader import read_located
from configtron.probe.wire.pcap import TraceLocation
from configtron.probe.wire.replay import reread
from configtron.report.replay_results import CONNECTION, DIVERGED, MISSING, RECORD, Played, compared
from configtron.report.target_results import found_in
from configtron.service.capture.reading import Lacks
from configtron.service.replay import adoption, expected
from configtron.service.replay.expected import NOTHING, ExpectedResults

# How often the waiting process wakes: a signal is noticed, progress is shown.
WAKE_EVERY_S = 0.5
KILLED = "a process that was playing was killed (is memory short?); play fewer at a time: -j 1"


class Task(NamedTuple):
    """A recording, and the place of its expected results.

    name    as results name the file
    expect  a file of results or records, if there is one
    db, run a store and the run in it that the recording belongs to, if it does
    adopted a capture of any origin: its connections are compared (`adoption.py`), not probes
    lost    there is no recording, only the file with what is expected of it
    only    compare these fields; (): all
    """

    path: Path
    name: str
    expect: Path | None = None
    db: Path | None = None
    run: int = 0
    adopted: bool = False
    lost: bool = False
    only: tuple[str, ...] = ()


class ReplayedTask(NamedTuple):
    """The result of a task: each probe and record; for `--update`, the new expected results."""

    task: Task
    played: tuple[Played, ...]
    results: tuple[str, ...] = ()
    records: tuple[str, ...] = ()


def play(task: Task, *, keep: bool = False) -> ReplayedTask:
    """Replay one recording."""
    if task.lost:
        kind, why = CONNECTION if task.adopted else RECORD, f"{adoption.LOST}{task.expect}"
        return ReplayedTask(task, (Played(task.name, task.path.name, kind, MISSING, message=why),))
    if task.adopted:
        return _read_capture(task)
    wanted = _expected(task)
    played: list[Played] = []
    again: list[Result] = []
    seen = set()
    for trace, place in read_located(task.path):
        seen.add(trace.id)
        one, result = _play(task, trace, place, wanted.results.get(trace.id))
        played.append(one)
        again += [result] if result is not None else []
        _count()
    played += [Played(task.name, trace, _probe(trace), MISSING) for trace in wanted.results if trace not in seen]
    # Of a run records are compared if the user names some; those that are not among them are reported, not skipped.
    asked = wanted.records or (task.db is not None and task.expect is not None)
    records = list(_records(wanted, again)) if asked else []
    played += [
        compared(task.name, "/".join(name[::-1]), RECORD, before, after, task.only) for name, before, after in records
    ]
    if task.db is None:
        gone = wanted.records.keys() - {name for name, _, _ in records}
        played += [Played(task.name, "/".join(name[::-1]), RECORD, MISSING) for name in sorted(gone)]
    if not keep:
        return ReplayedTask(task, tuple(played))
    results = tuple(map(result_to_json, (*wanted.bare, *again)))
    return ReplayedTask(task, tuple(played), results, tuple(after for _, before, after in records if before))


def _read_capture(task: Task) -> ReplayedTask:
    assert task.expect is not None
    after = adoption.readings(task.path, _lacks)
    played = adoption.compared(task.name, task.expect, after, task.only)
    for _ in played:
        _count()
    return ReplayedTask(task, played, tuple(after))


def _expected(task: Task) -> ExpectedResults:
    if task.db is None:
        return NOTHING if task.expect is None else expected.read(task.expect, task.path)
    with Store(task.db, read_only=True) as store:
        found = list(store.results(task.run, task.name, task.path.stem))
    results = {result.trace_id: result_to_json(result) for result in found if result.frames}
    records = expected.read_records(task.expect, task.path.stem) if task.expect is not None else {}
    return ExpectedResults(results, records, tuple(result for result in found if not result.frames))


def _play(task: Task, trace: Trace, place: TraceLocation, before: str | None) -> tuple[Played, Result | None]:
    origin = result_from_json(before).target if before else trace.target
    try:
        result = reread(trace, place, origin, _file(before, task))
    except Diverged as parted:
        return Played(task.name, trace.id, trace.probe, DIVERGED, message=str(parted)), None
    after = result_to_json(result)
    return compared(task.name, trace.id, trace.probe, before or "", after, task.only), result


def _file(before: str | None, task: Task) -> str:
    return result_from_json(before).evidence_file if before else task.name


def _records(wanted: ExpectedResults, again: Sequence[Result]) -> Iterator[tuple[expected.Name, str, str]]:
    """Yield records as expected ("" if they are not), and as the replayed readings make them."""
    mine = {(result.site, result.vantage) for result in again}
    bare = (result for result in wanted.bare if (result.site, result.vantage) in mine)
    for item in found_in(sorted((*again, *bare), key=lambda result: (result.site, result.vantage, result.trace_id))):
        name = item.site, item.vantage
        before = wanted.records.get(name, "")
        vantage = expected.vantage_of(before) if before else Vantage(item.vantage, item.vantage)
        verdicts = list(item.verdicts.values())
        after = target_record(item.fingerprint.target, vantage, verdicts, item.evidence)
        yield name, before, expected.without_trials(after) if before and not expected.has_trials(before) else after


def _probe(trace: str) -> str:
    return trace.rpartition("/")[2].partition(".")[0]


# In a worker: how many probes all workers together have played.
_counter: Synchronized[int] | None = None
# In a worker: import error -> a sentence that says how to install the package.
_lacks: Lacks = str


def _count() -> None:
    if _counter is not None:
        with _counter.get_lock():
            _counter.value += 1


def _begin(counter: Synchronized[int], lacks: Lacks) -> None:
    """Begin a worker: it counts, and leaves Ctrl-C to the process that started it."""
    global _counter, _lacks
    _counter, _lacks = counter, lacks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # An executor's processes wait for work for ever if the process that started them is killed.
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(0)


def _play_one(job: tuple[Task, bool]) -> ReplayedTask | ConfigtronError:
    try:
        return play(job[0], keep=job[1])
    except ConfigtronError as error:
        return error


def play_all(
    tasks: Sequence[Task], processes: int, counted: Callable[[int], None], *, keep: bool = False, lacks: Lacks = str
) -> Iterator[ReplayedTask]:
    """Replay all, in that order; `counted` gets now and then how many probes have been replayed."""
    global _counter, _lacks
    counter: Synchronized[int] = multiprocessing.Value("q", 0)
    if (processes := min(processes, len(tasks))) <= 1:
        _counter, _lacks = counter, lacks
        for task in tasks:
            yield play(task, keep=keep)
            counted(counter.value)
        return
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes, initializer=_begin, initargs=(counter, lacks))
    try:
        coming = [pool.submit(_play_one, (task, keep)) for task in tasks][::-1]
        while coming:
            while not wait(coming[-1:], WAKE_EVERY_S).done:
                counted(counter.value)
            done = coming.pop().result()
            if isinstance(done, ConfigtronError):
                raise done
            yield done
            counted(counter.value)
    except BrokenExecutor:
        raise ConfigtronError(KILLED) from None
    except ConfigtronError:
        # What has begun ends by itself: a process killed while it sends could leave a reader that waits for ever.
        raise
    except BaseException:
        # A signal, or the caller wants no more: a recording may take minutes.
        for child in set(multiprocessing.active_children()).difference(others):
            child.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
