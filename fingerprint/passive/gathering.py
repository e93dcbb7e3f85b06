# SPDX-License-Identifier: MIT
"""Rows -> batches of connections: all at the end, or each soon after it ended, with memory that does not grow.

Question   When is a connection over, and which rows of an open one must memory keep?
Method     Rows are gathered until there are `most` of them. Then a connection is reported if both sides ended it, or
           if it has been silent for longer than anything we measure takes. Of a long one that goes on, only its
           opening, its last rows, and one row in each half gigabyte are kept (as already counted), and the counts of
           its parts are added up; so the numbers are those of the whole.
           A record that stands behind a later one is out of order, and counted; one that is much earlier than the one
           before it shows that the clock was set back (`clock-step`). Rows later than any to come wait for those.
Differs    from reading it whole: a segment that repeats bytes of more than `TAIL` rows ago is still a repeat, but a
           hole that old is forgotten; and a connection that must make room is reported unfinished (`told-early`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import (
    ABSENT,
    COUNTED,
    FILE_SHIFT,
    LATE,
    Column,
    PairEnds,
    Pairs,
    Rows,
    hashed,
    joined,
    no_rows,
)
from configtron.fingerprint.passive.connections import PASSES, Connections, Passes, connect, running
from configtron.fingerprint.passive.heads import Heads
from configtron.fingerprint.passive.later_flights import FLIGHTS_MOST, LaterFlight
from configtron.fingerprint.passive.summary import CONNECTION_COLUMNS, ConnectionSummary, summarise
from configtron.fingerprint.passive.tunnels import UNREAD
from configtron.model.nouns import FIN, SYN

# Rows gathered before connections are reported: some 60 MB of columns.
MOST = 400_000
# No queue of a capture holds a packet for so long, and ntpd sets a clock only if it is so wrong; else it slews it.
STEP_NS = 128_000_000
# Kept of a long connection: its opening (the first flight, with room), its end.
OPENING, TAIL = 256, 256
# Within so many segments both streams have shown how they open: a hello at MSS 64 has 29, and is acknowledged.
SPOKEN_MOST = 120
# Bytes of heads gathered before connections are reported, and held of those that go on: some thousand hellos.
HEADS_MOST = 1 << 25
# A kept row in each of these parts of a stream, so that numbers are never unwrapped over more than 2 GB.
SPINE_SHIFT = 29
# Counts of frames in which there may be segments.
NOT_READ = (UNREAD, "link-type-", "cut-header", "unknown-interface")
NS = 1_000_000_000
ALWAYS = np.iinfo(np.int64).max
# After both sides' FIN, or a reset: late repeats. Else: the longest silence of a timer (120 s), or of a keep-alive
# connection that servers allow (Apache's 300 s is the longest default).
LINGER_NS, IDLE_NS = 5 * NS, 310 * NS
# Bits of a number in a sequence point.
HALF = np.uint64(32)


class Batch(NamedTuple):
    """Connections that are over: which of `found`, in the order of their first frames.

    since   no connection that is not over yet has an earlier first frame
    """

    found: Connections
    summary: ConnectionSummary
    over: Column
    ends: PairEnds
    heads: Heads
    since: int = ALWAYS


class Gathering:
    """Takes rows in, gives batches out. `most` rows are held; None: all. `trips`: with round trips of both sides;
    `passes`: as `connect` takes them."""

    def __init__(self, most: int | None = None, *, trips: bool = False, passes: Passes | None = None) -> None:
        self.pairs, self.heads = Pairs(), Heads()
        self.counts: Counter[str] = Counter()
        self.most, self.trips, self.passes = most, trips, passes or PASSES
        # The frames before which a clock was set back.
        self.steps: list[int] = []
        # By file: the latest time in it, since its clock was set back.
        self._reached: dict[int, int] = {}
        # Rows later than this wait for those of other files, and for those out of order.
        self._until = ALWAYS
        self._parts: list[Rows] = []
        self._held = 0
        self._carried = 0
        self._heads_carried = 0
        # Counts so far of connections that go on, by first frame.
        self._before: dict[int, dict[str, int]] = {}
        # Their later flights so far.
        self._later: dict[int, list[LaterFlight]] = {}

    def take(self, rows: Rows | None, until_ns: int = ALWAYS) -> Iterator[Batch]:
        """Take more rows of one file; yield a batch if they have become many. Other files have all up to `until_ns`."""
        if rows is None:
            return
        self._until = min(self._note_times(rows) - STEP_NS, until_ns)
        self._parts.append(rows)
        self._held += rows.size
        many = self.heads.size - self._heads_carried >= HEADS_MOST
        if self.most is not None and (many or self._held - self._carried >= self.most):
            yield from self._over(last=False)

    def _note_times(self, rows: Rows) -> int:
        """Count rows that are out of order, and steps of the clock; return the latest time in this file."""
        # IPv6 stands behind IPv4.
        mixed = (rows.frame[1:] < rows.frame[:-1]).any()
        order = np.argsort(rows.frame) if mixed else slice(None)
        file = int(rows.frame[0]) >> FILE_SHIFT
        at = np.append(self._reached.get(file, 0), rows.at[order])
        if (at[1:] < at[:-1]).any():
            stepped = at[1:] < at[:-1] - STEP_NS
            stepped |= running(at, np.append(0, np.cumsum(stepped)))[1:] - at[1:] > STEP_NS
            behind = running(at, np.append(0, np.cumsum(stepped)))[1:] - at[1:]
            self.counts["out-of-order"] += int(np.count_nonzero(behind))
            self.counts["out-of-order-us"] = max(self.counts["out-of-order-us"], -(-int(behind.max()) // 1000))
            rows.bits[order] |= np.where(behind > 0, LATE, 0).astype(np.uint8)
            self.counts["clock-step"] += int(np.count_nonzero(stepped))
            self.steps = sorted([*self.steps, *rows.frame[order][stepped].tolist()])
            at = at[np.flatnonzero(np.append(True, stepped))[-1] :]
        self._reached[file] = int(at.max())
        return self._reached[file]

    def lapse(self, now_ns: int) -> Iterator[Batch]:
        """Report connections that are over by now: those that ended or were silent need no further row."""
        self._until = max(self._until, now_ns - STEP_NS)
        yield from self._over(last=False, now_ns=now_ns)

    def finish(self) -> Iterator[Batch]:
        """Yield the rest."""
        yield from self._over(last=True)

    @property
    def unread(self) -> int:
        """Frames that may have held segments, and that no reader could read."""
        return sum(count for name, count in self.counts.items() if name.startswith(NOT_READ))

    @property
    def open(self) -> int:
        """Connections that have been seen and not reported, as far as counted."""
        return len(self._before)

    def _join_networks(self, rows: Rows) -> Rows:
        """Give segments of equal ends one pair if they are one connection in several networks.

        Its directions may have a network each, and each packet may be captured in two. Networks that share a sequence
        point carry one connection: two connections have other initial numbers. A point has a number of each stream:
        a segment has one where it begins and one where it ends. A SYN knows no number of the other stream, so a SYN-ACK
        also has the point at which the SYN ended.
        """
        ends = self.pairs.ends.alike
        there = np.bincount(rows.pair, minlength=len(ends)) > 0
        some = (np.bincount(ends[there], minlength=len(ends)) > 1)[ends][rows.pair]
        if not some.any():
            return rows
        _, _, pair, side, seq, ack, flags, _, length, *_ = rows.take(some)
        opens = (flags & SYN) > 0
        after = seq + length.astype(np.uint32) + opens + ((flags & FIN) > 0)
        mine = np.concatenate((seq, after, np.where(opens & (ack > 0), 0, seq))).astype(np.uint64)
        pair, side, theirs = np.tile(pair, 3), np.tile(side, 3), np.tile(ack, 3).astype(np.uint64)
        points = hashed((ends[pair], np.where(side == 0, mine << HALF | theirs, theirs << HALF | mine)))
        order = np.argsort(points)
        points, pair = points[order], pair[order]
        meet = np.flatnonzero((points[1:] == points[:-1]) & (ends[pair[1:]] == ends[pair[:-1]]))
        one, other, first = pair[meet], pair[meet + 1], np.arange(len(ends), dtype=np.int32)
        while (first[one] != first[other]).any():
            np.minimum.at(first, np.append(one, other), np.tile(np.minimum(first[one], first[other]), 2))
        self.pairs.join(first.tolist())
        self.heads.wanted = {int(first[way >> 1]) * 2 + way % 2: rest for way, rest in self.heads.wanted.items()}
        return rows._replace(pair=first[rows.pair])

    def _over(self, *, last: bool, now_ns: int = 0) -> Iterator[Batch]:
        rows, later = self._join_networks(joined(self._parts)), no_rows()
        if not last and (waits := rows.at > self._until).any():
            # Where all that waits stands at the end, nothing is copied.
            first = int(np.argmax(waits))
            parts = (slice(first), slice(first, None)) if waits[first:].all() else (~waits, waits)
            rows, later = (rows.take(part) for part in parts)
        self._parts = [later] if later.size else []
        if not rows.size:
            return
        found = connect(rows, self.pairs.ends.ports, self.steps, self.passes)
        summary = summarise(found, self._too_big(found), self._before, trips=self.trips, passes=self.passes)
        self._add(summary)
        over = np.full(found.total, last)
        if not last:
            over = self._ended(found, summary, now_ns)
        finished = np.flatnonzero(over)
        finished = finished[np.argsort(summary.columns["frame"][finished], kind="stable")]
        self.counts["connections"] += len(finished)
        since = int(min(summary.columns["frame"][~over].min(initial=ALWAYS), later.frame.min(initial=ALWAYS)))
        yield Batch(found, summary, finished, self.pairs.ends, self.heads, since)
        if not last:
            self._carry(found, summary, over, later)

    def _too_big(self, found: Connections) -> dict[int, list[int]]:
        """Return the MTUs that ICMP messages named since the last time, by connection: the latest that had begun."""
        sizes: dict[int, list[int]] = {}
        ends, pairs = self.pairs.ends.alike, found.rows.pair[found.begin]
        for pair, at, mtu in self.heads.too_big:
            begun = np.flatnonzero((ends[pairs] == ends[pair]) & (found.rows.at[found.begin] <= at))
            if len(begun):
                # The router may answer in another network.
                sizes.setdefault(max(begun.tolist(), key=lambda one: (pairs[one] == pair, one)), []).append(mtu)
        self.heads.too_big.clear()
        return sizes

    def _add(self, summary: ConnectionSummary) -> None:
        """Add the earlier counts of a connection."""
        if not self._before:
            return
        columns = summary.columns
        for place, frame in enumerate(columns["frame"].tolist()):
            before = self._before.pop(frame, None)
            if before is None:
                continue
            known = {one.at_ns: one for one in (*summary.later.get(place, ()), *self._later.pop(frame, ()))}
            summary.later[place] = [known[at] for at in sorted(known)]
            for name, value in before.items():
                columns[name][place] = _joined(CONNECTION_COLUMNS[name].join, value, int(columns[name][place]))

    def _ended(self, found: Connections, summary: ConnectionSummary, now_ns: int) -> Column:
        columns = summary.columns
        # Without a clock, what all files have reached is now: one frame with a wrong clock does not end connections.
        silent = (now_ns or self._until) - columns["ended"]
        closed = (columns["client_fins"] & columns["server_fins"]) | columns["client_resets"] | columns["server_resets"]
        over: Column = (silent > IDLE_NS) | ((closed > 0) & (silent > LINGER_NS))
        size = np.where(over, 0, np.minimum(found.end - found.begin, OPENING + TAIL))
        if self.most is not None and int(size.sum()) > self.most // 2:
            # The longest silent make room.
            order = np.argsort(-silent, kind="stable")
            gone = order[np.cumsum(size[order][::-1])[::-1] > self.most // 2]
            self.counts["told-early"] += int(np.count_nonzero(~over[gone]))
            over[gone] = True
        return over

    def _carry(self, found: Connections, summary: ConnectionSummary, over: Column, later: Rows) -> None:
        rows = found.rows
        place = np.arange(rows.size) - found.begin[found.of]
        left = found.end[found.of] - np.arange(rows.size)
        spine = np.zeros(rows.size, bool)
        long = (found.end - found.begin) > OPENING + TAIL
        if (long & ~over).any():
            for server in (0, 1):
                way = found.way(server)
                part = np.maximum(found.seq[way.rows], found.ack[way.rows]) >> SPINE_SHIFT
                spine[way.rows[1:][(part[1:] != part[:-1])]] = True
        keep = ~over[found.of] & (~long[found.of] | (place < OPENING) | (left <= TAIL) | spine)
        added = {name: column for name, column in summary.columns.items() if CONNECTION_COLUMNS[name].join != "first"}
        for connection in np.flatnonzero(~over).tolist():
            values = {name: int(column[connection]) for name, column in added.items()}
            frame = int(summary.columns["frame"][connection])
            self._before[frame] = values
            if settled := [one for one in summary.later.get(connection, ()) if one.settled]:
                self._later[frame] = settled[:FLIGHTS_MOST]
        carried = rows.take(np.flatnonzero(keep))
        self._carried = carried.size
        carried = joined([carried._replace(bits=carried.bits | np.uint8(COUNTED)), later])
        renumbered = self.pairs.keep_only(np.unique(carried.pair).tolist())
        table = np.zeros(max(renumbered, default=0) + 1, np.int32)
        table[list(renumbered)] = list(renumbered.values())
        carried = carried._replace(pair=table[carried.pair])
        self._parts = [carried] if carried.size else []
        self._held = carried.size
        wanted = ((way >> 1, way & 1, rest) for way, rest in self.heads.wanted.items())
        self.heads.wanted = {renumbered[pair] * 2 + side: rest for pair, side, rest in wanted if pair in renumbered}
        opening = np.append(rows.frame[np.flatnonzero(keep & (place < SPOKEN_MOST))], later.frame)
        self._forget_heads(opening)

    def _forget_heads(self, opening: Column) -> None:
        """Keep the heads of these frames; of too many, the latest and the options of SYNs."""
        kept = np.fromiter(self.heads.kept, np.int64, len(self.heads.kept))
        self.heads.forget(set(kept[~np.isin(kept, opening)].tolist()))
        for frame in sorted(self.heads.kept):
            if self.heads.size <= HEADS_MOST:
                break
            if not self.heads.kept[frame].options:
                self.heads.forget({frame})
                self.counts["heads-forgotten"] += 1
        self._heads_carried = self.heads.size


def _joined(join: str, before: int, now: int) -> int:
    """A column's value over two parts of a connection; a part without a value does not count."""
    if join == "sum":
        return before + now
    if before == ABSENT or now == ABSENT:
        return max(before, now)
    return {"max": max(before, now), "min": min(before, now), "last": now}[join]
