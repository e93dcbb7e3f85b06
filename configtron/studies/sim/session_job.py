# SPDX-License-Identifier: MIT
"""A replay of sessions as a row of parts: each is stored when it is done, the one under way now and then.

What a part is depends on the job's kind: a policy's pass over the sessions (`simulation.py`), or a study's world of one
seed. A job is stored as JSON, and made again from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from configtron.db.replays import Replays
from configtron.model.errors import BadInput
from configtron.model.records import canonical
from configtron.service.progress import Cancelled, Event, Progress, StepProgress

DONE, STOPPED = "done", "interrupted"
# The kind of a job -> the command that begins and resumes it.
COMMANDS = {"simulate": "configtron replay sessions", "study": "configtron replay study"}
# Digits of a replay's number, at most: a database's integers have no more.
DIGITS = 18


class StopRequested(Exception):
    """Raised by a part that was asked to stop, where it can be resumed, with its state."""

    def __init__(self, state: str) -> None:
        super().__init__()
        self.state = state


@dataclass(frozen=True, slots=True)
class Job:
    """kind: simulate or study; config: all that it is made from; parts: how many; number: the database's, or 0."""

    kind: str
    config: dict[str, Any]
    parts: int
    number: int = 0


class PartContext(NamedTuple):
    """What a part may use: store its state, ask whether to stop, report progress, the database."""

    keep: Callable[[str], None]
    stopping: Cancelled
    progress: Progress
    db: Path

    def say(self, text: str) -> None:
        """Report a notice."""
        self.progress(Event(0, 0, text))


class Work(Protocol):
    """Perform one part, from a state ("" for its beginning)."""

    def __call__(self, job: Job, position: int, state: str, context: PartContext) -> Any:
        """Return the part's result, as JSON can carry it. Errors: `StopRequested`."""


class JobResult(NamedTuple):
    """A job, and the results of its parts in order; cancelled: some are left, and `resume` goes on with them."""

    job: Job
    found: list[Any]
    cancelled: bool


def begin_job(book: Replays, job: Job) -> int:
    """Store a new replay; return its number."""
    return book.begin(canonical({"kind": job.kind, "config": job.config, "parts": job.parts}))


def load_job(book: Replays, word: str) -> tuple[int, Job]:
    """Return the replay to resume: a number, or "last". Errors: `BadInput`."""
    if word != "last" and not (word.isascii() and word.isdigit() and len(word) <= DIGITS):
        raise BadInput(f"--resume {word[:60]!r}: a replay's number is wanted, or nothing for the latest")
    found = book.replay(None if word == "last" else int(word))
    try:
        form = json.loads(found.config)
        return found.id, Job(form["kind"], form["config"], form["parts"])
    except (ValueError, LookupError, TypeError) as error:
        raise BadInput(f"replay {found.id}: what it was begun with cannot be read; begin a new one") from error


def run_job(
    db: Path, job: Job | None, resume: str, works: Mapping[str, Work], progress: Progress, stopping: Cancelled
) -> JobResult:
    """Begin a job, or resume one where `job` is None; `works`: by kind, what performs a part."""
    with Replays(db) as book:
        if job is None:
            number, job = load_job(book, resume)
        else:
            number = begin_job(book, job)
        if job.kind not in works:
            raise BadInput(f"replay {number} is resumed by: {COMMANDS[job.kind]} --resume {number}")
        done = _perform(book, replace(job, number=number), works[job.kind], progress, stopping)
        return JobResult(job, [json.loads(found) for found in book.found(number).values()], not done)


def _perform(book: Replays, job: Job, work: Work, progress: Progress, stopping: Cancelled) -> bool:
    """Do what is left of a job, part by part; False if it was interrupted."""
    number, done, state = job.number, book.found(job.number), book.replay(job.number).state
    context = PartContext(lambda state: book.keep(number, state), stopping, progress, book.path)
    what = f"replay {number}"
    progress(StepProgress(len(done), job.parts, what, "parts"))
    for position in range(job.parts):
        if position in done:
            continue
        try:
            found = work(job, position, state, context)
        except StopRequested as stop:
            book.keep(number, stop.state)
            return _stopped(book, context, job)
        except KeyboardInterrupt:
            return _stopped(book, context, job)
        book.part(number, position, canonical(found))
        state, finished = "", len(book.found(number))
        if finished < job.parts:
            progress(StepProgress(finished, job.parts, what, "parts"))
    book.finish(number, DONE)
    return True


def _stopped(book: Replays, context: PartContext, job: Job) -> bool:
    number = job.number
    book.finish(number, STOPPED)
    context.say(f"replay {number}: interrupted; go on with: {COMMANDS[job.kind]} --resume {number}")
    return False
