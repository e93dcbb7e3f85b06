# SPDX-License-Identifier: MIT
"""Rows -> connections: the segments of each, its client, and numbers that start at zero.

Question   Which segments are one connection, seen from which side, at which place of each side's stream?
Method     Rows are taken in the order of their times, not of their records: queues of a network card and the two files
           of a tap are read one after another. Where a clock was set back, what was recorded before it comes first.
           Rows of one pair of ends belong together until a SYN with another initial number opens the next connection.
           The client sent the SYN, else got the SYN-ACK, else is the end with the higher port. Sequence numbers
           are unwrapped along each side (a stream may be longer than 4 GB) and counted from the initial number; where
           the SYN is missing, from the first segment seen. Of SYN-ACKs with several, that counts which is acknowledged.
Differs    from tshark in nothing that it counts by `tcp.stream`, but that numbers are unwrapped.
Source     RFC 9293 3.4; RFC 7323 5.2 (numbers are compared by their distance)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import COUNTED, Column, Rows, radix_order
from configtron.fingerprint.passive.copies import EqualPairs, copied, equal_pairs
from configtron.model.nouns import ACK, RST, SYN

# Below every number a stream can reach, and far enough from the ends of 64 bits to be added to.
NEVER = -(1 << 60)
# Connections of so many rows on average are long: one call of numpy for each costs less than passes over all.
LONG = 500
# A column over so many rows is 512 kB at most: a few of them stay in a core's own cache.
CACHED_ROWS = 1 << 16


class Connections(NamedTuple):
    """Rows brought together, and their connections.

    rows       by connection, within it in the order of time
    of         each row's connection, from 0; connections are ordered by their first frame
    server     whether the server sent the row
    seq, ack   relative and unwrapped; `ack` is NEVER where the segment has none
    begin      each connection's first row; `end` the row after its last
    client     which side of the pair is the client
    opened     by connection and way (0 client, 1 server): whether that side's SYN was seen
    stepped    by connection: whether a clock was set back between two of its rows, or it was answered before its SYN
    copies     frames that show a segment once more (`copies.py`) and are no rows; `copies_of`: their connections
    """

    rows: Rows
    of: Column
    server: Column
    seq: Column
    ack: Column
    begin: Column
    end: Column
    client: Column
    opened: Column
    stepped: Column
    copies: Column
    copies_of: Column

    @property
    def total(self) -> int:
        """Return how many connections."""
        return len(self.begin)

    def parts(self) -> Iterator[Connections]:
        """Yield the same connections, so many at a time that columns over their rows stay in the cache."""
        first = 0
        while first < self.total:
            after = int(np.searchsorted(self.end, self.begin[first] + CACHED_ROWS, "right"))
            after = max(after, first + 1)
            yield self.part(first, after)
            first = after

    def part(self, first: int, after: int) -> Connections:
        """Return the connections from `first` on, before `after`, alone."""
        begin = int(self.begin[first])
        rows, some = slice(begin, int(self.end[after - 1])), slice(first, after)
        copies = slice(*np.searchsorted(self.copies_of, (first, after)).tolist())
        return Connections(
            Rows(*(column[rows] for column in self.rows)), self.of[rows] - first, self.server[rows], self.seq[rows],
            self.ack[rows], self.begin[some] - begin, self.end[some] - begin, self.client[some], self.opened[some],
            self.stepped[some], self.copies[copies], self.copies_of[copies] - first,
        )  # fmt: skip

    def way(self, server: int) -> Direction:
        """Return the rows of one side, in order."""
        index = np.flatnonzero(self.server == bool(server))
        of = self.of[index]
        return Direction(index, of, *edges(of, self.total))


# (numbers, their connections, initial numbers by connection, which are resets') -> distances.
Unwrapped = Callable[[Column, Column, Column, Column], Column]
# (columns over rows, columns over connections, past, number of limits) -> as `limits._shares`; None: it failed.
Shares = Callable[[Sequence[Column], Sequence[Column], Sequence[Column], int], tuple[Column, ...] | None]
# (columns over rows, over a side's segments, over connections) -> (segments that repeat or leave a hole, kinds); None.
Repeats = Callable[[Sequence[Column], Sequence[Column], Sequence[Column]], tuple[Column, ...] | None]


class Passes(NamedTuple):
    """Functions that go over every row of a capture: those here, or native ones that return the same."""

    order: Callable[[Column], Column]
    equal: EqualPairs
    unwrapped: Unwrapped
    shares: Shares | None = None
    repeats: Repeats | None = None


class Direction(NamedTuple):
    """Rows that one side sent: their places in `Connections.rows`, and each connection's part of them."""

    rows: Column
    of: Column
    begin: Column
    end: Column


def edges(of: Column, count: int) -> tuple[Column, Column]:
    """Return (first, after the last) of each connection in an ordered column of connection numbers."""
    ends = np.cumsum(np.bincount(of, minlength=count))
    return np.concatenate((np.zeros(min(count, 1), np.int64), ends[:-1])), ends


def connect(rows: Rows, ports: Column, steps: Sequence[int] = (), passes: Passes | None = None) -> Connections:
    """Bring rows together.

    ports   of each pair's two ends, by pair number
    steps   the frames before which a clock was set back, in order
    passes  what goes over every row; None: the functions of this module
    """
    passes = passes or PASSES
    rows = rows.take(passes.order(rows.pair))
    epoch = np.searchsorted(np.array(steps, np.int64), rows.frame, "right") if steps else np.zeros(rows.size, np.int8)
    if steps or ((rows.at[1:] < rows.at[:-1]) & (rows.pair[1:] == rows.pair[:-1])).any():
        order = np.lexsort((rows.frame, rows.at, epoch, (rows.bits & COUNTED) == 0, rows.pair))
        rows, epoch = rows.take(order), epoch[order]
    begins = _begins(rows)
    of = np.cumsum(begins) - 1
    again = copied(rows, of, passes.equal)
    copies, copies_of = rows.frame[again], of[again]
    if again.any():
        rows, of, epoch = rows.take(~again), of[~again], epoch[~again]
    begin = np.flatnonzero(np.diff(of, prepend=-1))
    end = np.append(begin[1:], rows.size)
    client = _clients(rows, of, begin, ports)
    server = rows.side != client[of]
    seq = np.zeros(rows.size, np.int64)
    ack = np.full(rows.size, NEVER, np.int64)
    opened = np.zeros((len(begin), 2), bool)
    stepped = epoch[end - 1] != epoch[begin]
    found = Connections(rows, of, server, seq, ack, begin, end, client, opened, stepped, copies, copies_of)
    origins = [_origin(found, number) for number in (0, 1)]
    for number in (0, 1):
        _number(found, number, origins, passes.unwrapped)
    stepped |= opened[:, 0] & ((rows.flags[begin] & (SYN | ACK)) == SYN | ACK)
    return found


def _begins(rows: Rows) -> Column:
    """Return whether a row opens a connection: another pair, or a SYN unlike the last one of its pair. Two SYNs that
    cross open one (simultaneous open, RFC 9293 3.5)."""
    begins = np.empty(rows.size, bool)
    begins[:1] = True
    begins[1:] = rows.pair[1:] != rows.pair[:-1]
    syns = np.flatnonzero((rows.flags & (SYN | ACK | RST)) == SYN)
    if len(syns):
        fresh = np.ones(len(syns), bool)
        crossed = (syns[1:] == syns[:-1] + 1) & (rows.side[syns[1:]] != rows.side[syns[:-1]])
        same = (rows.seq[syns[1:]] == rows.seq[syns[:-1]]) | crossed
        fresh[1:] = (rows.pair[syns[1:]] != rows.pair[syns[:-1]]) | ~same
        # Clocks of two files differ: a SYN's answers may stand before it. That connection is `stepped`.
        heads = np.flatnonzero((rows.flags & (SYN | RST)) == SYN)
        answers = (rows.flags[heads] & ACK) != 0
        opened = np.where(answers, rows.ack[heads] - np.uint32(1), rows.seq[heads])
        other = (np.diff(opened.astype(np.int64), prepend=-1) != 0) | (np.diff(rows.pair[heads], prepend=-1) != 0)
        earliest = heads[np.maximum.accumulate(np.where(other, np.arange(len(heads)), 0))]
        begins[earliest[np.searchsorted(heads, syns[fresh])]] = True
    return begins


def _clients(rows: Rows, of: Column, begin: Column, ports: Column) -> Column:
    """Return which side is the client."""
    pair = rows.pair[begin]
    low, high = ports[pair, 0], ports[pair, 1]
    client = np.where(low == high, rows.side[begin], np.where(low > high, 0, 1)).astype(np.uint8)
    flags = rows.flags & (SYN | ACK | RST)
    # The later assignment wins: a SYN is better evidence than a SYN-ACK.
    answers = np.flatnonzero(flags == SYN | ACK)[::-1]
    client[of[answers]] = 1 - rows.side[answers]
    syns = np.flatnonzero(flags == SYN)[::-1]
    client[of[syns]] = rows.side[syns]
    return client


class _Origin(NamedTuple):
    """A side's rows, and its initial sequence number by connection (`known` where a segment shows it)."""

    way: Direction
    initial: Column
    known: Column


def _origin(found: Connections, number: int) -> _Origin:
    way = found.way(number)
    rows = found.rows
    initial = np.zeros(found.total, np.uint32)
    known = way.end > way.begin
    first = way.rows[way.begin[known]]
    # Without its SYN a stream is counted from the first segment seen, as if the SYN had come just before.
    initial[known] = rows.seq[first] - np.uint32(1)
    reset = (rows.flags[first] & (RST | ACK)) == RST | ACK
    initial[np.flatnonzero(known)[reset]] = rows.seq[first[reset]]
    syns = np.flatnonzero((rows.flags[way.rows] & SYN) != 0)[::-1]
    of, numbers = way.of[syns], rows.seq[way.rows[syns]]
    initial[of] = numbers
    if (unlike := np.isin(of, of[numbers != initial[of]])).any():
        # A full backlog, or SYN cookies: a later SYN-ACK has another number. That which the other side confirms counts.
        told = np.flatnonzero((found.server != bool(number)) & ((rows.flags & (ACK | RST)) == ACK))
        unlike &= np.isin((of << 32) + numbers, (found.of[told] << 32) + (rows.ack[told] - np.uint32(1)))
        initial[of[unlike]] = numbers[unlike]
    found.opened[of, number] = True
    return _Origin(way, initial, known)


def _number(found: Connections, number: int, origins: list[_Origin], unwrapped: Unwrapped) -> None:
    """Fill in the relative numbers of one side's rows."""
    rows, way = found.rows, origins[number].way
    if not len(way.rows):
        return
    aside = (rows.flags[way.rows] & RST) != 0
    syns = np.flatnonzero((rows.flags[way.rows] & SYN) != 0)
    aside[syns] |= rows.seq[way.rows[syns]] != origins[number].initial[way.of[syns]]
    found.seq[way.rows] = unwrapped(rows.seq[way.rows], way.of, origins[number].initial, aside)
    other = origins[1 - number]
    acks = np.flatnonzero((rows.flags[way.rows] & ACK) != 0)
    index, of = way.rows[acks], way.of[acks]
    initial = other.initial
    if not other.known.all():
        # Only one side was captured: the other is counted from the first number it acknowledges.
        initial = initial.copy()
        first, _ = edges(of, found.total)
        lone = np.flatnonzero(~other.known & (np.bincount(of, minlength=found.total) > 0))
        initial[lone] = rows.ack[index[first[lone]]] - np.uint32(1)
    found.ack[index] = unwrapped(rows.ack[index], of, initial, aside[acks])


def unwrapped(numbers: Column, of: Column, initial: Column, resets: Column) -> Column:
    """Return 32-bit numbers as distances from an initial one, by connection: each step is the shorter way round.

    `resets` do not count: the row after one is counted from the row before it, as a reset's number may be anything;
    nor do SYNs with another number.
    """
    if not len(numbers):
        return np.zeros(0, np.int64)
    begins = np.empty(len(of), bool)
    begins[0] = True
    begins[1:] = of[1:] != of[:-1]
    steps = np.empty(len(numbers), np.uint32)
    aside = resets & ~begins
    if aside.any():
        place = np.arange(len(numbers))
        led = np.maximum.accumulate(np.where(aside, 0, place))
        steps[1:] = numbers[1:] - numbers[led[:-1]]
    else:
        steps[1:] = numbers[1:] - numbers[:-1]
    steps[begins] = 0
    distance = steps.view(np.int32)
    walked = np.cumsum(np.where(aside, 0, distance), dtype=np.int64) + np.where(aside, distance, 0)
    first = np.flatnonzero(begins)
    start = (numbers[first] - initial[of[first]]).view(np.int32).astype(np.int64) - walked[first]
    walked += start[np.cumsum(begins) - 1]
    return walked


PASSES = Passes(radix_order, equal_pairs, unwrapped)


def running(values: Column, of: Column) -> Column:
    """Return the largest value so far within each connection (rows in order of `of`), this row's included."""
    if not len(values):
        return values
    first, total = int(of[0]), int(of[-1]) - int(of[0]) + 1
    # Lift each connection above all before it, so that one running maximum serves all.
    low = int(values.min()) if total * LONG > len(values) else 0
    span = int(values.max()) - low + 1 if total * LONG > len(values) else 1 << 62
    if span * total >= 1 << 62:
        # Few long connections, or numbers so large that they cannot be lifted: connection by connection.
        found: Column = np.empty_like(values)
        edge = np.searchsorted(of, np.arange(first, first + total + 1)).tolist()
        for begin, end in zip(edge, edge[1:], strict=False):
            np.maximum.accumulate(values[begin:end], out=found[begin:end])
        return found
    numbers = (of.astype(np.int64) - first) * span
    lifted: Column = np.maximum.accumulate(values + numbers) - numbers
    return lifted


def latest(mask: Column, of: Column, begin: Column, rows: Column) -> Column:
    """Of the marked rows, counted from 0, the last one before each of `rows` in its connection; -1 if there is none."""
    total = np.cumsum(mask)
    first = (total - mask)[begin]
    found: Column = total[rows] - mask[rows] - 1
    return np.where(found >= first[of[rows]], found, -1)


def leader(of: Column, index: Column, count: int) -> Column:
    """Return each connection's first of these rows; -1 if there is none."""
    found = np.full(count, -1, np.int64)
    found[of[index[::-1]]] = index[::-1]
    return found


def highest(of: Column, values: Column, count: int, missing: int) -> Column:
    """Return each connection's largest value of these rows, and at least `missing`."""
    found = np.full(count, missing, np.int64)
    np.maximum.at(found, of, values)
    return found


def before(values: Column, of: Column, missing: int = NEVER) -> Column:
    """Return each row's predecessor's value within its connection; `missing` for the first."""
    found = np.empty_like(values)
    if len(values):
        found[1:] = values[:-1]
        found[0] = missing
        found[1:][of[1:] != of[:-1]] = missing
    return found
