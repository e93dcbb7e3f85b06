# SPDX-License-Identifier: MIT
"""Pace the calls of many target sessions: their times of start and their order.

Question   Which of the calls that wait starts next?
Method     Held handshakes first, since they last longest; then the longest waiting, so that all targets under way
           advance together. Each start is admitted by the spacer. An address has at most one half-open handshake
           and one other connection from a vantage at any time, however many names lead to it.

`run` is handed the pump, the spacing, the resolver and the sink, and knows none. It feeds a stored answer back exactly
like a fresh one, so a resumed run starts again and reuses its stored answers.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

from configtron.model.nouns import Target
from configtron.probe.spacing import Place
from configtron.probe.target_session import Answer, Call, NameLookup, ParallelStep, Readings, TargetSession, name_of


class Finished(NamedTuple):
    """A call that came back: its name within the run, the request and the readings."""

    trace_id: str
    readings: Readings


# Called with (vantage, target) once all chains of a session are over.
OnEnd = Callable[[str, Target], None]
# The longest that the loop sleeps: a signal is noticed, and new work begun, at least this often.
WAKE_EVERY_S = 1.0
# Starts between two looks at the answers that arrived: a few milliseconds' work. A wave of hundreds would leave answers
# lying, and keep the server and us waiting for each other by turns: 700 connections a second on two cores instead of
# 1700.
STARTS_AT_ONCE = 8


class CallWorker(Protocol):
    """Where calls are made: many at once, one thread (`probe/wire/pump.py` behind it)."""

    def begin(self, trace_id: str, vantage: str, call: Call, origin: Target) -> bool:
        """Start a call; `origin` is the target whose session it belongs to (a redirect asks elsewhere).

        False if it may not be asked any more: then the session ends here.
        """

    def finished(self, timeout_s: float) -> list[Finished]:
        """Wait at most so long; the calls that came back meanwhile, stored already."""

    def now(self) -> float:
        """Return the time, in seconds."""


class Spacer(Protocol):
    """How fast: when a connection to an address may start; and where: one call at a time for each place."""

    def open_at(self) -> float:
        """Return the earliest time (s) at which any connection may start."""

    def admit(self, address: str, now: float) -> float:
        """Count the start and return 0.0, or return the time (s) at which to ask again."""

    def settled(self, at: float | None) -> None:
        """Note that the admitted start had gone by then."""

    def claim(self, place: Place) -> bool:
        """Take a place, or keep it; False while another process is there."""

    def release(self, place: Place) -> None:
        """Leave a place."""


LookUp = Callable[[str, str], Answer | None]  # (vantage, host) -> the answer, or None while it is still being asked

# Where another process has a connection to an address, look again this often: a connection lasts a tenth of a second.
CLAIM_AGAIN_S = 0.01
# While names are being asked for elsewhere, look again this often: a name server answers in tens of milliseconds.
ASK_AGAIN_S = 0.02


@dataclass(slots=True)
class _Subject:
    """A target seen from a vantage: its chains under way, and how often each probe was called."""

    vantage: str
    target: Target
    chains: int = 0
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Chain:
    """A chain under way: it waits for a call, for a name, or for nothing (it is over)."""

    subject: _Subject
    session: TargetSession
    call: tuple[str, Call] | None = None
    host: str = ""

    def resume(self, event: Readings | Answer | None, done: Mapping[str, Readings]) -> list[TargetSession]:
        """Go on until something is wanted that is not stored. Return the chains that were begun beside it."""
        self.call, self.host = None, ""
        beside: list[TargetSession] = []
        subject = self.subject
        try:
            while True:
                wish = next(self.session) if event is None else self.session.send(event)
                if isinstance(wish, NameLookup):
                    self.host = wish.host
                    return beside
                if isinstance(wish, ParallelStep):
                    beside.append(wish.chain)
                    event = None
                    continue
                n = subject.counts[wish.probe] = subject.counts.get(wish.probe, 0) + 1
                trace_id = f"{subject.vantage}/{name_of(subject.target)}/{wish.probe}.{n}"
                if trace_id not in done:
                    self.call = trace_id, wish
                    return beside
                event = done[trace_id]
        except StopIteration:
            return beside

    @property
    def place(self) -> Place:
        """Return the place that holds one call at a time: the held handshake, or the other connection, to an address
        from a vantage."""
        assert self.call is not None
        return self.subject.vantage, self.call[1].target.address, self.call[1].held


class _Loop:
    """Chains in five places: ready to start, waiting for a time, for an address, in flight, asking for a name."""

    def __init__(
        self,
        worker: CallWorker,
        spacer: Spacer,
        done: Mapping[str, Readings],
        look_up: LookUp,
        on_end: OnEnd,
    ) -> None:
        self._worker, self._spacer, self._done, self._look_up, self._on_end = worker, spacer, done, look_up, on_end
        self._ready: list[tuple[bool, int, _Chain]] = []
        self._waiting: list[tuple[float, int, _Chain]] = []
        self._queued: dict[Place, deque[_Chain]] = {}
        self._flying: dict[str, _Chain] = {}
        self._asking: list[_Chain] = []
        self._order = count()
        self.under_way = 0

    def begin(self, vantage: str, target: Target, session: TargetSession) -> None:
        """Begin another session."""
        self.under_way += 1
        self._go_on(_Chain(_Subject(vantage, target, 1), session), None)

    def turn(self) -> None:
        """Start the calls that may start; take in the answers that arrived."""
        self._start()
        asking, self._asking = self._asking, []
        for walk in asking:
            answer = self._look_up(walk.subject.vantage, walk.host)
            if answer is None:
                self._asking.append(walk)
            else:
                self._go_on(walk, answer)
        for finished in self._worker.finished(self._pause()):
            walk = self._flying.pop(finished.trace_id)
            self._leave(walk)
            self._go_on(walk, finished.readings)

    def _go_on(self, walk: _Chain, event: Readings | Answer | None) -> None:
        """Resume a chain and put it where it belongs."""
        subject = walk.subject
        for session in walk.resume(event, self._done):
            subject.chains += 1
            self._go_on(_Chain(subject, session), None)
        if walk.call is not None:
            self._enter(walk)
        elif walk.host:
            self._asking.append(walk)
        else:
            self._end(subject)

    def _end(self, subject: _Subject) -> None:
        subject.chains -= 1
        if not subject.chains:
            self.under_way -= 1
            self._on_end(subject.vantage, subject.target)

    def _enter(self, walk: _Chain) -> None:
        """Make a chain ready, unless another one is at that address or waits for it."""
        others = self._queued.get(walk.place)
        if others is None:
            self._queued[walk.place] = deque()
            self._make_ready(walk)
        else:
            others.append(walk)

    def _leave(self, walk: _Chain) -> None:
        """Free the address for the next call."""
        self._spacer.release(walk.place)
        others = self._queued[walk.place]
        if others:
            self._make_ready(others.popleft())
        else:
            del self._queued[walk.place]

    def _make_ready(self, walk: _Chain) -> None:
        heapq.heappush(self._ready, (not walk.place[2], next(self._order), walk))

    def _start(self) -> None:
        now = self._worker.now()
        while self._waiting and self._waiting[0][0] <= now:
            self._make_ready(heapq.heappop(self._waiting)[2])
        started = 0
        while self._ready and started < STARTS_AT_ONCE and self._spacer.open_at() <= now:
            walk = heapq.heappop(self._ready)[2]
            assert walk.call is not None
            trace_id, call = walk.call
            claimed = self._spacer.claim(walk.place)
            again = self._spacer.admit(call.target.address, now) if claimed else now + CLAIM_AGAIN_S
            if again > 0.0:
                heapq.heappush(self._waiting, (again, next(self._order), walk))
                continue
            if self._worker.begin(trace_id, walk.subject.vantage, call, walk.subject.target):
                self._flying[trace_id] = walk
                started += 1
            else:
                self._leave(walk)
                self._end(walk.subject)
            now = self._worker.now()
            self._spacer.settled(now)

    def _pause(self) -> float:
        """Return the seconds until the next start, at most."""
        times = [self._waiting[0][0]] if self._waiting else []
        if self._ready:
            times.append(self._spacer.open_at())
        pause = max(min(times) - self._worker.now(), 0.0) if times else WAKE_EVERY_S
        return min(pause, ASK_AGAIN_S if self._asking else WAKE_EVERY_S)


def run(
    sessions: Iterable[tuple[str, Target, TargetSession] | None],
    worker: CallWorker,
    spacer: Spacer,
    done: Mapping[str, Readings],
    look_up: LookUp,
    *,
    concurrency: int,
    on_end: OnEnd = lambda vantage, target: None,
) -> None:
    """Drive sessions to their ends, at most `concurrency` at once, starting calls as the spacer admits them.

    `done` are the readings of calls that an interrupted run finished, by trace id. A None among the sessions stands for
    one that is not ready yet.
    """
    loop = _Loop(worker, spacer, done, look_up, on_end)
    for begun in sessions:
        if begun is None:
            loop.turn()
        else:
            loop.begin(*begun)
        while loop.under_way >= concurrency:
            loop.turn()
    while loop.under_way:
        loop.turn()
