# SPDX-License-Identifier: MIT
"""A page load as it rises: each segment of its data in time, what was lost and sent again, what was under way. Pure.

Question   Why did this load take so long: too little under way, losses, or waiting?
Method     Two logs of headers, at the servers and at the client. A segment that left and did not arrive was lost
           (connection, IP's number and sequence name it); one whose bytes had all been sent before is sent again. Bytes
           get a height in the order in which they are first sent, over all connections: so the slope is the load's
           speed, whatever the number of connections. Under way is what is sent and not yet acknowledged there.
Reads as   marks for a time-sequence diagram, and figures.
Fails as   a log without data has no marks and zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from configtron.lab.testbed.tap import Seen
from configtron.studies.output.results import Mark

HTTPS = 443
SYN, ACK = 0x02, 0x10
# Sequence numbers wrap here.
WRAP = 1 << 32
# Round trips that `sent_by` counts.
ROUNDS = 8


class Risen(NamedTuple):
    """plt_s    as the client reported; the other times are of the packets
    lost      segments that left and did not arrive; again: sent once more
    under_way mean of bytes sent and not acknowledged, from the first segment until the page was there
    idle_s    with nothing under way: waiting for a request, or for a connection
    stuck_s   with something under way and nothing sent for longer than a round trip: the part beyond it
    sent_by   bytes first sent within so many round trips after the page was wanted: the first is of none
    """

    plt_s: float
    rtt_s: float
    connections: int
    segments: int
    lost: int
    again: int
    under_way: float
    idle_s: float
    stuck_s: float
    sent_by: tuple[int, ...]
    marks: tuple[Mark, ...]

    @property
    def rounds(self) -> float:
        """The load in round trips."""
        return self.plt_s / self.rtt_s

    @property
    def words(self) -> str:
        """Return what happened; the other figures stand in the study's table."""
        stuck = f" and {self.stuck_s:.2f} s stuck" if self.stuck_s >= 0.005 else ""
        return (
            f"took {self.plt_s:.2f} s ({self.rounds:.1f} round trips), of them {self.idle_s:.2f} s with nothing under "
            f"way{stuck}; {self.under_way / 1e3:.0f} kB were under way on average, and {self.lost} of {self.segments} "
            "segments were lost."
        )


class _Segment(NamedTuple):
    """begin, end: of its connection's bytes; height: of its first byte over all connections; fresh: new bytes."""

    at_s: float
    key: int
    begin: int
    end: int
    height: int
    fresh: int
    arrived: bool


def risen(server: Seen, client: Seen, plt_s: float, rtt_s: float) -> Risen:
    """A load from its logs (`tap.PACKET`), and the duration that the client reported."""
    syns = client[(client["peer"] == HTTPS) & (client["flags"] & SYN != 0)]
    zero = int(syns["at_ns"][0]) if len(syns) else 0
    server, client = server[server["at_ns"] >= zero], client[client["at_ns"] >= zero]
    segments = _segments(server, client, zero)
    sent_by = tuple(sum(one.fresh for one in segments if one.at_s <= n * rtt_s) for n in range(ROUNDS + 1))
    waited = _waited(segments, _acknowledged(server, zero), rtt_s, plt_s)
    lost, again = sum(not one.arrived for one in segments), sum(not one.fresh for one in segments)
    numbers = {key: at for at, key in enumerate(dict.fromkeys(one.key for one in segments))}
    marks = tuple(_mark(one, numbers[one.key]) for one in segments)
    return Risen(plt_s, rtt_s, len(numbers), len(segments), lost, again, *waited, sent_by, marks)


def _mark(one: _Segment, connection: int) -> Mark:
    kind = "lost" if not one.arrived else "data" if one.fresh else "again"
    return Mark(one.at_s, connection, one.height, one.height + one.end - one.begin, kind)


def _segments(server: Seen, client: Seen, zero: int) -> list[_Segment]:
    """The servers' segments of data in the order they left."""
    bases, names = _bases(server), _names(client[client["port"] == HTTPS])
    data = server[(server["port"] == HTTPS) & (server["payload"] > 0)]
    pieces: dict[int, list[tuple[int, int]]] = {}
    highest: dict[int, int] = {}
    height, found = 0, list[_Segment]()
    for row, name in zip(data, _named(data), strict=True):
        key = name[0]
        begin = (int(row["sequence"]) - bases.setdefault(key, int(row["sequence"]))) % WRAP
        end = begin + int(row["payload"])
        fresh = max(0, end - max(begin, highest.get(key, 0)))
        if fresh:
            pieces.setdefault(key, []).append((end - fresh, height - (end - fresh)))
            highest[key], height = end, height + fresh
        where = begin + _shift(pieces[key], begin)
        found.append(_Segment((int(row["at_ns"]) - zero) / 1e9, key, begin, end, where, fresh, name in names))
    return found


def _shift(pieces: Sequence[tuple[int, int]], begin: int) -> int:
    """From a connection's byte to its height: what the piece that holds it was moved by."""
    return next((shift for first, shift in reversed(pieces) if first <= begin), pieces[0][1])


def _bases(server: Seen) -> dict[int, int]:
    """Where each connection's data begins: after its SYN-ACK."""
    rows = server[(server["port"] == HTTPS) & (server["flags"] & SYN != 0)]
    keys = _keys(rows, "source", "peer")
    return {key: (int(row["sequence"]) + 1) % WRAP for row, key in zip(rows, keys, strict=True)}


def _keys(rows: Seen, address: str, port: str) -> list[int]:
    """One number a connection: the server's address and the client's port."""
    found: list[int] = ((rows[address].astype(np.int64) << 16) | rows[port]).tolist()
    return found


def _named(data: Seen) -> list[tuple[int, int, int]]:
    """Return what identifies a packet: connection, IP's number, sequence."""
    numbers, sequences = data["number"].tolist(), data["sequence"].tolist()
    return list(zip(_keys(data, "source", "peer"), numbers, sequences, strict=True))


def _names(data: Seen) -> set[tuple[int, int, int]]:
    return set(_named(data))


def _acknowledged(server: Seen, zero: int) -> list[tuple[float, int, int]]:
    """(second, connection's key, bytes acknowledged) where the servers hear it."""
    bases = _bases(server)
    rows = server[(server["peer"] == HTTPS) & (server["flags"] & ACK != 0)]
    found = []
    for row, key in zip(rows, _keys(rows, "target", "port"), strict=True):
        if key in bases:
            behind = (int(row["acknowledged"]) - bases[key]) % WRAP
            found.append(((int(row["at_ns"]) - zero) / 1e9, key, behind if behind < WRAP // 2 else 0))
    return found


def _waited(
    segments: Sequence[_Segment], heard: Sequence[tuple[float, int, int]], rtt_s: float, plt_s: float
) -> tuple[float, float, float]:
    """Bytes under way in the mean, seconds with none, seconds stuck: until the page was there."""
    events = [(one.at_s, True, one.key, one.end) for one in segments]
    events += [(at, False, key, behind) for at, key, behind in heard]
    sent: dict[int, int] = {}
    known: dict[int, int] = {}
    now = area = idle = stuck = 0.0
    last, under = -math.inf, 0
    for at, is_sent, key, upto in [*sorted(events), (plt_s, False, 0, 0)]:
        until = min(at, plt_s)
        if until > now:
            area += under * (until - now)
            idle += (until - now) if under == 0 else 0.0
            stuck += max(0.0, until - max(now, last + rtt_s)) if under else 0.0
            now = until
        before = max(0, sent.get(key, 0) - known.get(key, 0))
        side = sent if is_sent else known
        side[key] = max(side.get(key, 0), upto)
        under += max(0, sent.get(key, 0) - known.get(key, 0)) - before
        last = at if is_sent else last
    begun = segments[0].at_s if segments else 0.0
    return (area / (plt_s - begun) if segments and plt_s > begun else 0.0), idle, stuck
