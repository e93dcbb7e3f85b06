# SPDX-License-Identifier: MIT
"""Our numbers beside tshark's, connection by connection; every difference is explained by a rule, or is not.

A rule stands in `RULES` and in docs/fingerprint.md; what it asks is answered by tshark's own fields, so that a fault of
ours cannot explain itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import FRAME_MASK, Endpoint
from configtron.fingerprint.passive.gathering import Batch, Gathering
from configtron.fingerprint.passive.retransmissions import CAUSES, KINDS, REORDERED, retransmissions, sent_by
from configtron.fingerprint.passive.summary import SIDES
from configtron.fingerprint.passive.traces import ends_of
from tests.support.read_capture import gathered
from tests.support.tshark import Side, Stream, streams

PLAIN = ("mss", "wscale", "syn_window", "max_window", "keep_alives")


class Difference(NamedTuple):
    """One number that is not tshark's: of which connection (its first frame), and which of `RULES` says why, or ""."""

    frame: int
    name: str
    theirs: object
    ours: object
    rule: str = ""


class Case(NamedTuple):
    """What a rule may look at."""

    name: str
    stream: Stream
    side: Side | None
    theirs: Any
    ours: Any


# What a segment in fragments adds to.
FRAGMENTED = ("packets", "payload", "again", "hole")
# Why a number may differ, and stay.
RULES: dict[str, Callable[[Case], bool]] = {
    "copies": lambda case: case.side is not None and bool(case.side.twins) and _but_twins(case),
    "repeated-handshake": lambda case: case.name == "rtt" and case.ours is None and case.stream.openings > 2,
    "early-data": lambda case: case.name == "rtt" and case.stream.early == "yes",
    "refused": lambda case: case.name == "rtt" and case.ours is None and case.stream.openings == 1,
    "unknown-scale": lambda case: case.name == "max_window" and case.ours is None and _half_open(case.stream),
    "fragments": lambda case: case.side is not None and case.side.fragmented > 0 and case.name in FRAGMENTED,
    "reset-overtook": lambda case: case.side is not None and bool(case.side.overtaken) and _but_overtaken(case),
    "doubled-handshake": lambda case: case.name == "rtt" and case.stream.doubled > 0,
}


def _but_twins(case: Case) -> bool:
    """Without frames that show a packet once more, it is the same."""
    side = case.side
    assert side is not None
    if case.name == "packets":
        return bool(0 < case.theirs - case.ours <= len(side.twins))
    if case.name == "payload":
        return bool(0 < case.theirs - case.ours <= sum(side.twins.values()))
    if case.name == "again":
        return set(case.theirs) - set(case.ours) <= set(side.twins) and set(case.ours) <= set(case.theirs)
    return False


def _but_overtaken(case: Case) -> bool:
    """Whether only frames that a RST overtook differ, each of them one repeat less and one hole more at most."""
    side = case.side
    assert side is not None
    if case.name == "again":
        return set(case.theirs) - set(case.ours) <= side.overtaken and set(case.ours) <= set(case.theirs)
    return case.name == "hole" and bool(0 < case.ours - case.theirs <= len(side.overtaken))


def _half_open(stream: Stream) -> bool:
    """Whether a side's SYN is missing, or its options."""
    return len(stream.sides) < 2 or any(side.mss is None for side in stream.sides.values())


class Compared(NamedTuple):
    """Of one capture: connections, differences, and how our causes stand beside tshark's kinds, by frame."""

    connections: int
    differences: tuple[Difference, ...]
    kinds: Counter[tuple[str, str]]

    @property
    def unexplained(self) -> tuple[Difference, ...]:
        """Those that no rule covers."""
        return tuple(one for one in self.differences if not one.rule)

    @property
    def equal(self) -> int:
        """Connections without any difference."""
        return self.connections - len({one.frame for one in self.differences})


def compare(path: Path) -> Compared:
    """Read a capture both ways."""
    theirs, batches = streams(path), gathered(path, Gathering())
    if not batches:
        return Compared(len(theirs), tuple(Difference(frame, "connection", True, False) for frame in theirs), Counter())
    batch, columns = batches[0], batches[0].summary.columns
    firsts = {int(frame) & FRAME_MASK: place for place, frame in enumerate(columns["frame"])}
    found = [Difference(frame, "connection", frame in theirs, frame in firsts) for frame in set(firsts) ^ set(theirs)]
    kinds: Counter[tuple[str, str]] = Counter()
    again = [_again(batch, number) for number in (0, 1)]
    ends = ends_of(batch, np.arange(batch.found.total))
    for frame in sorted(set(firsts) & set(theirs)):
        for case in _cases(batch, firsts[frame], ends[firsts[frame]], theirs[frame], again):
            if case.theirs != case.ours:
                rule = next((name for name, holds in RULES.items() if holds(case)), "")
                found.append(Difference(frame, case.name, case.theirs, case.ours, rule))
    for frame in set(firsts) & set(theirs):
        called = {frame: kind for side in theirs[frame].sides.values() for frame, kind in side.again.items()}
        for side in again:
            kinds.update((called.get(number, "-"), kind) for number, kind in side.get(firsts[frame], {}).items())
    return Compared(len(set(firsts) | set(theirs)), tuple(found), kinds)


def _cases(
    batch: Batch, place: int, ends: tuple[Endpoint, Endpoint], stream: Stream, again: list[dict[int, dict[int, str]]]
) -> Iterator[Case]:
    columns = batch.summary.columns
    for number, name in enumerate(SIDES):
        end = ends[number]
        side = stream.sides[str(ip_address(end.address)), end.port]
        for field in ("packets", "payload", *PLAIN):
            ours = int(columns[f"{name}_{field}"][place])
            yield Case(field, stream, side, getattr(side, field), None if ours < 0 else ours)
        yield Case("again", stream, side, sorted(side.again), sorted(again[number].get(place, {})))
        yield Case("hole", stream, side, len(side.lost), int(columns[f"{name}_hole"][place]))
    rtt = int(columns["rtt"][place])
    yield Case("rtt", stream, None, None if stream.rtt is None else round(stream.rtt * 1e9), None if rtt < 0 else rtt)


def _again(batch: Batch, number: int) -> dict[int, dict[int, str]]:
    """By connection: frames of one side that carry old bytes, and what we call them."""
    found, columns = batch.found, batch.summary.columns
    sent = sent_by(found, found.way(number))
    kinds: dict[int, dict[int, str]] = {}
    old = sent.row[sent.old]
    for row in old.tolist():
        kinds.setdefault(int(found.of[row]), {})[int(found.rows.frame[row]) & FRAME_MASK] = "syn"
    named = retransmissions(found, number, sent, columns["rtt"].clip(0), columns["sack"] == 1)
    for row, of, kind in zip(named.row.tolist(), named.of.tolist(), named.kind.tolist(), strict=True):
        if KINDS[kind] in (*CAUSES, REORDERED):
            kinds[int(of)][int(found.rows.frame[row]) & FRAME_MASK] = KINDS[kind]
    return kinds
