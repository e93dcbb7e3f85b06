# SPDX-License-Identifier: MIT
"""A replay as a row of parts: each done whole and kept, the one under way kept now and then; interrupted, resumed.

What a part is says its kind: a policy's pass over the sessions (`simulate.py`), a study's world of one seed
(`studying.py`). A job is kept as JSON, and made again from it.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from configtron.cli.learn.options import say
from configtron.cli.learn.pace import Pace
from configtron.db.replays import Replays
from configtron.model.errors import BadInput
from configtron.model.records import canonical

DONE, STOPPED = "done", "interrupted"
# Who asks to stop waits so long for a place where it stands whole; then it goes on from what was kept before. Some
# updates, and every study's world, take a minute from one such place to the next.
GRACE_S = 0.5


class Stop(Exception):
    """Asked to stop: raised where a part stands whole, with its state."""

    def __init__(self, state: str) -> None:
        super().__init__()
        self.state = state


@dataclass(frozen=True, slots=True)
class Job:
    """kind: simulate or study; config: all that it is made from; parts: how many; number: the database's, once kept."""

    kind: str
    config: dict[str, Any]
    parts: int
    number: int = 0


class Work(Protocol):
    """Does one part, from a state ("" for its beginning). keep(state): the state may be kept; stopping(): stop soon."""

    def __call__(
        self, job: Job, position: int, state: str, keep: Callable[[str], None], stopping: Callable[[], bool]
    ) -> Any:
        """What the part found, as JSON can carry it. Raises `Stop`."""


def opened(path: Path) -> Replays:
    """The database of replays."""
    return Replays(path)


def begun(book: Replays, job: Job) -> int:
    """Keep a new replay; its number."""
    return book.begin(canonical({"kind": job.kind, "config": job.config, "parts": job.parts}))


def resumed(book: Replays, word: str) -> tuple[int, Job]:
    """The replay to go on with. Errors: `BadInput` for one that is not there, or no number."""
    if word != "last" and not (word.isascii() and word.isdigit()):
        raise BadInput(f"--resume {word!r}: a replay's number is wanted, or nothing for the latest")
    found = book.replay(None if word == "last" else int(word))
    try:
        form = json.loads(found.config)
        return found.id, Job(form["kind"], form["config"], form["parts"])
    except (ValueError, LookupError, TypeError) as error:
        raise BadInput(f"replay {found.id}: what it was begun with cannot be read; begin a new one") from error


def work(book: Replays, number: int, job: Job, act: Work) -> bool:
    """Do what is left of it, part by part; False if it was interrupted."""
    job, done, state = replace(job, number=number), book.found(number), book.replay(number).state
    pace = Pace(f"replay {number}", "parts", job.parts, len(done))
    with _asked() as stopping:
        for position in range(job.parts):
            if position in done:
                continue
            try:
                found = act(job, position, state, lambda state: book.keep(number, state), stopping)
            except Stop as stop:
                book.keep(number, stop.state)
                return _stopped(book, number)
            except KeyboardInterrupt:
                return _stopped(book, number)
            book.part(number, position, canonical(found))
            state, finished = "", len(book.found(number))
            if finished < job.parts:
                pace(finished)
    book.finish(number, DONE)
    return True


def _stopped(book: Replays, number: int) -> bool:
    book.finish(number, STOPPED)
    say(f"replay {number}: interrupted; go on with: configtron replay sessions --resume {number}")
    return False


def results(book: Replays, number: int) -> list[Any]:
    """What all parts found, in order."""
    return [json.loads(found) for found in book.found(number).values()]


@contextmanager
def _asked() -> Iterator[Callable[[], bool]]:
    """Whether a signal asked to stop. If that is not heeded in time, KeyboardInterrupt is raised, wherever the work
    is; a second signal of the same kind does what it always would."""
    asked: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, before[number])
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        say("stopping where it can be resumed; once more, and it ends at once")

    def late(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {int(number): signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    before[int(signal.SIGALRM)] = signal.signal(signal.SIGALRM, late)
    try:
        yield lambda: bool(asked)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, old in before.items():
            signal.signal(number, old)
