"""Targets x probes x trials x vantages: what is asked of whom, in which order, and how often.

A *journey* is one target seen from one vantage: a generator that yields calls, one connection at a time, and is resumed
with what was read from each. What an answer teaches (a redirect, no TLS, a refused port) decides what is asked next. A
stored answer is fed back exactly like a fresh one, so resuming is starting again with a memory.

`run` drives many journeys over a pump; it is handed the pump, the spacing, the resolver and the sink, and knows none.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol
from urllib.parse import urljoin, urlsplit

from configtron.nouns import Observation, Target
from configtron.probe.profiles import CLEAR, SECURE, STAMPED, STAMPED_AFTER, TESTS, Params

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
    """Addresses of a name, or the reason why there are none ("dns-nxdomain", "blocked", ...)."""

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
    return target.host + port + (target.path if target.path != "/" else "")


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
    if parts.scheme != "http" or port != target.port or not host or (host, path) == (target.host, target.path):
        return "", ""
    return host, path


def _reason(found: Readings | Answer | None, knob: str) -> str:
    return next((o.reason or "" for o in found or () if isinstance(o, Observation) and o.knob == knob), "")


class Finished(NamedTuple):
    """A call that came back: its name within the run, what was asked, what was read."""

    trace_id: str
    readings: Readings


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


@dataclass(slots=True)
class _Walk:
    """A journey under way."""

    vantage: str
    target: Target
    story: Journey
    calls: dict[str, int]
    pending: tuple[str, Call] | None = None


def run(
    journeys: Iterable[tuple[str, Target, Journey]],
    lane: Lane,
    spacer: Spacer,
    done: Mapping[str, Readings],
    look_up: Callable[[str, str], Answer],
    *,
    concurrency: int,
    on_end: Callable[[str, Target], None] = lambda vantage, target: None,
) -> None:
    """Drive journeys to their ends, at most `concurrency` at once, starting calls as the spacer admits them.

    `done` are the readings of calls that an interrupted run finished, by trace id.
    """
    source = iter(journeys)
    waiting: list[tuple[float, int, _Walk]] = []
    flying: dict[str, _Walk] = {}
    order = 0
    exhausted = False
    while True:
        while not exhausted and len(waiting) + len(flying) < concurrency:
            item = next(source, None)
            if item is None:
                exhausted = True
                break
            vantage, target, story = item
            walk = _Walk(vantage, target, story, {})
            if _step(walk, None, done, look_up):
                order += 1
                heapq.heappush(waiting, (0.0, order, walk))
            else:
                on_end(walk.vantage, walk.target)
        if not waiting and not flying:
            if exhausted:
                return
            continue
        now = lane.now()
        while waiting and waiting[0][0] <= now:
            _, _, walk = heapq.heappop(waiting)
            assert walk.pending is not None
            trace_id, call = walk.pending
            again = spacer.admit(call.target.address, now)
            if again > 0.0:
                order += 1
                heapq.heappush(waiting, (again, order, walk))
                continue
            flying[trace_id] = walk
            lane.begin(trace_id, walk.vantage, call, walk.target)
        pause = max(waiting[0][0] - lane.now(), 0.0) if waiting else 60.0
        for finished in lane.finished(min(pause, 1.0)):
            walk = flying.pop(finished.trace_id)
            if _step(walk, finished.readings, done, look_up):
                order += 1
                heapq.heappush(waiting, (0.0, order, walk))
            else:
                on_end(walk.vantage, walk.target)


def _step(
    walk: _Walk, readings: Readings | None, done: Mapping[str, Readings], look_up: Callable[[str, str], Answer]
) -> bool:
    """Resume a journey until it wants a call that is not stored; False when it is over."""
    event: Readings | Answer | None = readings
    try:
        while True:
            wish = next(walk.story) if event is None else walk.story.send(event)
            if isinstance(wish, Lookup):
                event = look_up(walk.vantage, wish.host)
                continue
            walk.calls[wish.probe] = walk.calls.get(wish.probe, 0) + 1
            trace_id = f"{walk.vantage}/{name_of(walk.target)}/{wish.probe}.{walk.calls[wish.probe]}"
            if trace_id not in done:
                walk.pending = (trace_id, wish)
                return True
            event = done[trace_id]
    except StopIteration:
        return False
