# SPDX-License-Identifier: MIT
"""Targets with the addresses that each vantage sees for their names, a window of targets at a time.

The first window's names are asked for before anything else; while a window is being probed, the next one's names are
asked for beside it. Names met on the way (redirects) are asked for one by one. Whatever the source, an address is
checked against the blocklist before any packet is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from configtron.model.nouns import Observation, Target, Vantage
from configtron.model.records import Result
from configtron.probe.blocklist import Blocklist
from configtron.probe.target_session import Answer, Readings, name_of
from configtron.probe.wire.resolve import resolve
from configtron.probe.wire.routes import route_to

# Targets whose names are resolved together: some seconds' work of a resolver, and few enough to be kept in memory.
WINDOW = 1024
# Redirects to other names are rare, and their name servers are other people's.
LOOKUPS_AT_ONCE = 4
# Names met on the way that are remembered; after so many all are forgotten, and asked for again.
REMEMBERED = 65536


class Addressed(NamedTuple):
    """A target from one vantage: its place in the shard's order, and the facts that its session needs.

    `target` has an address, or is None: then its session ends here, and `result` says why. `result` is None if it is
    stored already.
    """

    place: int
    vantage: str
    target: Target | None
    result: Result | None


class Addresses:
    """Names -> targets with addresses, as vantages see them."""

    def __init__(
        self, vantages: Sequence[Vantage], versions: Sequence[int], blocklist: Blocklist, *, window: int = WINDOW
    ) -> None:
        self._window_size = window
        self._vantages, self._versions, self._blocklist = vantages, versions, blocklist
        self._by_name = {vantage.name: vantage for vantage in vantages}
        self._threads = ThreadPoolExecutor(LOOKUPS_AT_ONCE + 1, "lookup")
        self._asked: dict[tuple[str, str], Future[Answer]] = {}

    def close(self) -> None:
        """Do not wait."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def windows(
        self, targets: Iterator[tuple[int, Target]], done: Mapping[str, Readings], now_ns: int
    ) -> Iterator[list[Addressed] | None]:
        """Yield the targets (with their numbers), a window at a time, from all vantages; None while names are asked
        for."""
        window = self._window(list(islice(targets, self._window_size)), done, now_ns)
        while window:
            following = list(islice(targets, self._window_size))
            coming = self._threads.submit(self._window, following, done, now_ns) if following else None
            yield window
            while coming is not None and not coming.done():
                yield None
            window = coming.result() if coming is not None else []

    def look_up(self, vantage: str, host: str) -> Answer | None:
        """Return the addresses of a name met on the way, or None while they are being asked for."""
        if (vantage, host) not in self._asked:
            if len(self._asked) >= REMEMBERED:
                self._asked.clear()
            self._asked[vantage, host] = self._threads.submit(self._answer, self._by_name[vantage], host)
        asked = self._asked[vantage, host]
        return asked.result() if asked.done() else None

    def _window(
        self, targets: Sequence[tuple[int, Target]], done: Mapping[str, Readings], now_ns: int
    ) -> list[Addressed]:
        by_vantage = [self._from(n, targets, done, now_ns) for n in range(len(self._vantages))]
        # Target by target, each from all vantages in turn: so readings that are compared are measured at about the same
        # time.
        return [found for seen in zip(*by_vantage, strict=True) for found in seen]

    def _from(
        self, number: int, targets: Sequence[tuple[int, Target]], done: Mapping[str, Readings], now_ns: int
    ) -> list[Addressed]:
        vantage = self._vantages[number]
        unknown = [t for _, t in targets if not t.address and _trace_id(vantage, t) not in done]
        names = sorted({target.host for target in unknown if not self._blocklist.host(target.host)})
        answers = self._resolved(names, vantage)
        found = []
        for n, target in targets:
            trace_id = _trace_id(vantage, target)
            stored = done.get(trace_id)
            seen = self._address(target, answers.get(target.host), vantage, trace_id) if stored is None else stored[0]
            result = _result(trace_id, vantage.name, target, seen, now_ns) if stored is None else None
            known = replace(target, address=str(seen.value)) if seen.value is not None else None
            found.append(Addressed(n * len(self._vantages) + number, vantage.name, known, result))
        return found

    def _address(self, target: Target, answer: Answer | None, vantage: Vantage, trace_id: str) -> Observation:
        addresses = (target.address,) if target.address else answer.addresses if answer is not None else ()
        reason = answer.reason if answer is not None else ""
        allowed = [address for address in addresses if not self._blocklist.address(address)]
        if self._blocklist.host(target.host) or addresses and not allowed:
            reason = "blocked"
        elif allowed and not any(_reachable(vantage, address) for address in allowed):
            reason = "no-source-address"
        allowed = [address for address in allowed if _reachable(vantage, address)]
        method = "as given" if target.address else "DNS"
        if not allowed or reason:
            return Observation("address", None, reason or "dns:no-address", "", method, "N", trace_id)
        return Observation("address", allowed[0], None, "", method, "C", trace_id)

    def _answer(self, vantage: Vantage, host: str) -> Answer:
        if self._blocklist.host(host):
            return Answer((), "blocked")
        answer = self._resolved([host], vantage)[host]
        allowed = tuple(a for a in answer.addresses if not self._blocklist.address(a) and _reachable(vantage, a))
        return Answer(allowed, answer.reason or ("blocked" if answer.addresses and not allowed else ""))

    def _resolved(self, names: Sequence[str], vantage: Vantage) -> dict[str, Answer]:
        """Return addresses of the best IP version that a name has; the first version's reason if it has none."""
        found: dict[str, Answer] = {}
        for version in self._versions:
            missing = [name for name in names if name not in found or not found[name].addresses]
            for name, answer in (resolve(missing, vantage, version=version) if missing else {}).items():
                if answer.addresses or name not in found:
                    aliased = any(map(self._blocklist.host, answer.aliases))
                    found[name] = Answer((), "blocked") if aliased else answer
        return found


def _trace_id(vantage: Vantage, target: Target) -> str:
    return f"{vantage.name}/{name_of(target)}/dns.1"


def _result(trace_id: str, vantage: str, target: Target, seen: Observation, now_ns: int) -> Result:
    address = str(seen.value) if seen.value is not None else target.address
    ending = seen.reason or "done"
    return Result(trace_id, vantage, replace(target, address=address), "dns", (), now_ns, ending, observations=(seen,))


def _reachable(vantage: Vantage, address: str) -> bool:
    """Return whether the vantage has a source address of that IP version: its own, or, where it names no interface,
    that of the route."""
    source = vantage.source_address6 if ":" in address else vantage.source_address
    if vantage.interface or source:
        return bool(source)
    if vantage.source_address or vantage.source_address6:
        return False
    return route_to(address, netns=vantage.netns) is not None
