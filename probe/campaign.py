"""Targets x probes x trials x vantages: what is asked of whom, in which order, and how often.

A *journey* is one target seen from one vantage: a generator that yields calls, one connection at a time, and is resumed
with what was read from each. What an answer teaches (a redirect, no TLS, a refused port) decides what is asked next. A
stored answer is fed back exactly like a fresh one, so resuming is starting again with a memory.

`run` drives many journeys over a pump; it is handed the pump, the spacing, the resolver and the sink, and knows none.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple, Protocol
from urllib.parse import urljoin, urlsplit

from configtron.errors import BadInput
from configtron.nouns import Observation, Target
from configtron.probe.profiles import CLEAR, SECURE, STAMPED, STAMPED_AFTER, TESTS, Params
from configtron.probe.targets import hostname

Readings = tuple[Observation, ...]


class Call(NamedTuple):
    """One connection to make: which probe, with which parameters, to whom."""

    probe: str
    params: Params
    target: Target


class Lookup(NamedTuple):
    """A name met on the way (a redirect) that has to be resolved, and checked, before anybody is asked."""

    host: str


class Answer(NamedTuple):
    """Addresses of a name, or the reason why there are none ("dns:nxdomain", "blocked", ...)."""

    addresses: tuple[str, ...]
    reason: str = ""


Journey = Generator[Call | Lookup, Readings | Answer, None]

# More redirects than this are a loop or a maze (RFC 9110 15.4 leaves the limit to the client).
REDIRECTS_MAX = 2
# Reasons after which a port is not asked again: nobody answers, or somebody says no.
SHUT = ("no-synack", "refused")


def journey(target: Target, tests: frozenset[str], profile: str) -> Journey:
    """The story of one target from one vantage. `target` has an address; `tests` are keys of `TESTS`."""
    probes = {probe for test in tests for probe in TESTS[test]}
    clear = [row for row in CLEAR[profile] if row[0] in probes]
    secure = [row for row in SECURE[profile] if row[0] in probes]
    if target.port != 443 and (clear or "http_version" in probes):
        target, shut = yield from _find_page(target)
        repeated = 0
        for probe, params in () if shut else clear:
            found = yield Call(probe, params, target)
            repeated += _reason(found, "data_rto") == "synack-repeated"
        for probe, params in STAMPED if repeated >= STAMPED_AFTER else ():
            yield Call(probe, params, target)
    for n, (probe, params) in enumerate(secure):
        found = yield Call(probe, params, replace(target, port=443 if target.port == 80 else target.port))
        if n == 0 and isinstance(found, tuple) and _reason(found, "http_version") in SHUT:
            return


def name_of(target: Target) -> str:
    """What a target is called within a run: its host, with port and path where they are not the usual ones."""
    port = "" if target.port == 80 else f":{target.port}"
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host + port + (target.path if target.path != "/" else "")


def _find_page(target: Target) -> Generator[Call | Lookup, Readings | Answer, tuple[Target, bool]]:
    """GET the path in clear; follow up to two redirects that stay in clear.

    Returns (where the page is, whether the port is shut).
    """
    for _ in range(REDIRECTS_MAX + 1):
        found = yield Call("http_version", (("way", "clear"),), target)
        assert not isinstance(found, Answer)
        if _reason(found, "http_clear") in SHUT:
            return target, True
        host, path = _redirected(target, found)
        if not path:
            return target, False
        if host != target.host:
            answer = yield Lookup(host)
            assert isinstance(answer, Answer)
            if not answer.addresses:
                return target, False
            target = replace(target, host=host, address=answer.addresses[0])
        target = replace(target, path=path)
    return target, False


def _redirected(target: Target, found: Readings) -> tuple[str, str]:
    """(host, path) that an answer points to, if it is a redirect that stays on this port in clear; else ("", "")."""
    seen = next((o for o in found if o.knob == "http_clear"), None)
    status, location = (seen.detail("status", 0), seen.detail("location", "")) if seen else (0, "")
    if status not in (301, 302, 303, 307, 308) or not isinstance(location, str) or not location:
        return "", ""
    try:
        parts = urlsplit(urljoin(f"http://{target.host}{target.path}", location))
        port, host = parts.port or 80, parts.hostname or ""
    except ValueError:
        return "", ""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme != "http" or port != target.port or (host, path) == (target.host, target.path):
        return "", ""
    try:
        return hostname(host), path if path.isascii() and path.isprintable() and " " not in path else ""
    except BadInput:
        return "", ""


def _reason(found: Readings | Answer | None, knob: str) -> str:
    return next((o.reason or "" for o in found or () if isinstance(o, Observation) and o.knob == knob), "")


class Finished(NamedTuple):
    """A call that came back: its name within the run, what was asked, what was read."""

    trace_id: str
    readings: Readings


OnEnd = Callable[[str, Target], None]
# The longest that the loop sleeps: a signal is noticed, and new work begun, at least this often.
LOOK_UP_S = 1.0


class Lane(Protocol):
    """Where calls are made: many at once, one thread (`probe/wire/pump.py` behind it)."""

    def begin(self, trace_id: str, vantage: str, call: Call, origin: Target) -> None:
        """Start a call; `origin` is the target whose journey it belongs to (a redirect asks elsewhere)."""

    def finished(self, timeout_s: float) -> list[Finished]:
        """Wait at most so long; the calls that came back meanwhile, stored already."""

    def now(self) -> float:
        """Seconds."""


class Spacer(Protocol):
    """How fast: when a connection to an address may start."""

    def admit(self, address: str, now: float) -> float:
        """0.0 and the start is counted, or the time (s) at which to ask again."""


LookUp = Callable[[str, str], Answer | None]  # (vantage, host) -> the answer, or None while it is still being asked

# While names are being asked for elsewhere, look again this often: a name server answers in tens of milliseconds.
ASK_AGAIN_S = 0.02


@dataclass(slots=True)
class _Walk:
    """A journey under way: what it wants next is a call, a name, or nothing (it is over)."""

    vantage: str
    target: Target
    story: Journey
    counts: dict[str, int] = field(default_factory=dict)
    call: tuple[str, Call] | None = None
    host: str = ""

    def resume(self, event: Readings | Answer | None, done: Mapping[str, Readings]) -> None:
        """Go on until something is wanted that is not stored."""
        self.call, self.host = None, ""
        try:
            while True:
                wish = next(self.story) if event is None else self.story.send(event)
                if isinstance(wish, Lookup):
                    self.host = wish.host
                    return
                self.counts[wish.probe] = self.counts.get(wish.probe, 0) + 1
                trace_id = f"{self.vantage}/{name_of(self.target)}/{wish.probe}.{self.counts[wish.probe]}"
                if trace_id not in done:
                    self.call = trace_id, wish
                    return
                event = done[trace_id]
        except StopIteration:
            return


class _Loop:
    """Journeys in three places: waiting for their turn, in flight, asking for a name."""

    def __init__(
        self, lane: Lane, spacer: Spacer, done: Mapping[str, Readings], look_up: LookUp, on_end: OnEnd
    ) -> None:
        self._lane, self._spacer, self._done, self._look_up, self._on_end = lane, spacer, done, look_up, on_end
        self._waiting: list[tuple[float, int, _Walk]] = []
        self._flying: dict[str, _Walk] = {}
        self._asking: list[_Walk] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._flying) + len(self._asking)

    def go_on(self, walk: _Walk, event: Readings | Answer | None) -> None:
        """Resume a journey and put it where it belongs."""
        walk.resume(event, self._done)
        if walk.call is not None:
            heapq.heappush(self._waiting, (0.0, next(self._order), walk))
        elif walk.host:
            self._asking.append(walk)
        else:
            self._on_end(walk.vantage, walk.target)

    def turn(self) -> None:
        """Start what may start, take in what came back."""
        self._start(self._lane.now())
        asking, self._asking = self._asking, []
        for walk in asking:
            answer = self._look_up(walk.vantage, walk.host)
            if answer is None:
                self._asking.append(walk)
            else:
                self.go_on(walk, answer)
        pause = max(self._waiting[0][0] - self._lane.now(), 0.0) if self._waiting else LOOK_UP_S
        for finished in self._lane.finished(min(pause, ASK_AGAIN_S if self._asking else LOOK_UP_S)):
            self.go_on(self._flying.pop(finished.trace_id), finished.readings)

    def _start(self, now: float) -> None:
        while self._waiting and self._waiting[0][0] <= now:
            _, _, walk = heapq.heappop(self._waiting)
            assert walk.call is not None
            trace_id, call = walk.call
            again = self._spacer.admit(call.target.address, now)
            if again > 0.0:
                heapq.heappush(self._waiting, (again, next(self._order), walk))
                continue
            self._flying[trace_id] = walk
            self._lane.begin(trace_id, walk.vantage, call, walk.target)


def run(
    journeys: Iterable[tuple[str, Target, Journey]],
    lane: Lane,
    spacer: Spacer,
    done: Mapping[str, Readings],
    look_up: LookUp,
    *,
    concurrency: int,
    on_end: OnEnd = lambda vantage, target: None,
) -> None:
    """Drive journeys to their ends, at most `concurrency` at once, starting calls as the spacer admits them.

    `done` are the readings of calls that an interrupted run finished, by trace id.
    """
    loop = _Loop(lane, spacer, done, look_up, on_end)
    for vantage, target, story in journeys:
        loop.go_on(_Walk(vantage, target, story), None)
        while len(loop) >= concurrency:
            loop.turn()
    while len(loop):
        loop.turn()
