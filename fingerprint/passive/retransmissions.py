# SPDX-License-Identifier: MIT
"""Data that one side sent again: how the sender noticed the loss, or whether the segment had only been overtaken.

Question   Which segments carry bytes that had been sent before, and why did the sender repeat them?
Method     A segment that begins below the highest byte seen is old; one that begins above it leaves a hole. An old
           segment that fills a hole was overtaken on its way (its timestamp is older than the hole's, or it comes
           sooner than a repeat could) or lost before the place of capture; any other is a repeat. A repeat is
             unneeded  of bytes that the other side had acknowledged already
             rto       of the first unacknowledged byte after a silence no shorter than a timer; and of the bytes after
                       it up to the highest byte sent before, unless SACK asked for them
             tlp       of the last segment, once, after a silence, with SACK agreed and no duplicate ACK (RFC 8985 7)
             fast      after duplicate ACKs or SACK blocks, and the rest of the same repair
             other     none of these: its cause was not captured
           In a connection with copies, old data with the timestamp of the segment that first brought it is a copy, too:
           offloading cut it otherwise on another interface.
Differs    from tshark: a repeat is classified by its cause; keep-alives are none in both; the sum equals tshark's
           retransmission + fast + spurious + out-of-order, except where tshark's own rules differ
           (tests/fingerprint/passive).
Source     RFC 6298, RFC 5681 3.2, RFC 6675, RFC 8985
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import DSACKED, SACKED, STAMPED, Column
from configtron.fingerprint.passive.connections import NEVER, Connections, Direction, Repeats, before, latest, running
from configtron.model.nouns import FIN, RST, SYN

CAUSES = ("rto", "tlp", "fast", "unneeded", "other")
REORDERED, HOLE = "reordered", "hole"
KINDS = (*CAUSES, REORDERED, HOLE)
# A timer is a round trip plus 200 ms on Linux, plus 100 ms or more elsewhere; a tail loss probe comes after two round
# trips.
TIMER_NS = 90_000_000
PROBE_RTTS = 1.4
# A repeat needs a round trip; a segment that fills a hole sooner was overtaken. Without a known round trip: wireshark's
# 3 ms.
OVERTAKEN_RTTS, OVERTAKEN_NS = 0.75, 3_000_000


class Sent(NamedTuple):
    """The segments of one side, in order; without resets and SYNs of another number, which prove nothing.

    row, of    places in `Connections.rows`, connections
    start, end sequence numbers; `top` the highest end before this row (NEVER for the first)
    full       takes up sequence numbers; an ACK without data does not, but may stand behind a hole
    old        full, begins below `top`, and is no keep-alive; alive: is one
    """

    row: Column
    of: Column
    start: Column
    end: Column
    top: Column
    old: Column
    alive: Column
    full: Column


def sent_by(found: Connections, way: Direction) -> Sent:
    """Return the segments of that side."""
    rows = found.rows
    flags = rows.flags[way.rows]
    span = rows.length[way.rows] + ((flags & SYN) != 0) + ((flags & FIN) != 0)
    takes = np.flatnonzero(((flags & RST) == 0) & (((flags & SYN) == 0) | (found.seq[way.rows] == 0)))
    row, of, flags = way.rows[takes], way.of[takes], flags[takes]
    start = found.seq[row]
    end = start + span[takes]
    top = before(running(end, of), of)
    alive = (end == top) & (rows.length[row] == 1) & ((flags & (SYN | FIN)) == 0) & (start == top - 1)
    full = span[takes] > 0
    return Sent(row, of, start, end, top, full & (start < top) & ~alive, alive, full)


class Acked(NamedTuple):
    """The other side's acknowledgements before some rows: the byte acknowledged, duplicates since, its last segment."""

    una: Column
    duplicates: Column
    heard_at: Column


def acked_before(found: Connections, server: int, places: Column) -> Acked:
    """Return the acknowledgements of this side's data before these rows."""
    rows = found.rows
    theirs = (found.server != bool(server)) & (found.ack > NEVER)
    index = np.flatnonzero(theirs)
    ack, of = found.ack[index], found.of[index]
    una = running(ack, of)
    earlier = before(una, of)
    plain = (rows.length[index] == 0) & ((rows.flags[index] & (SYN | FIN | RST)) == 0)
    # An ACK that reports a copy is a duplicate of another kind: nothing is missing.
    plain &= (rows.bits[index] & DSACKED) == 0
    hints = (plain & (ack == earlier)) | ((rows.bits[index] & SACKED) != 0)
    total = np.cumsum(hints)
    # Counted since the last time that the acknowledged byte rose.
    rose = np.maximum.accumulate(np.where(una > earlier, np.arange(len(una)), 0)) if len(una) else una
    last = latest(theirs, found.of, found.begin, places)
    known, last = last >= 0, np.maximum(last, 0)
    if not len(index):
        una, total, rose, index = (np.zeros(1, np.int64) for _ in range(4))
    return Acked(
        np.where(known, una[last], NEVER),
        np.where(known, total[last] - total[rose[last]], 0),
        np.where(known, rows.at[index[last]], rows.at[found.begin[found.of[places]]]),
    )


def closed_before(found: Connections, server: int, places: Column) -> Column:
    """Return whether the other side's window was closed before these rows of a side."""
    theirs = (found.server != bool(server)) & (found.ack > NEVER)
    heard = np.flatnonzero(theirs)
    last = latest(theirs, found.of, found.begin, places)
    return (last >= 0) & (found.rows.window[heard[np.maximum(last, 0)]] == 0) if len(heard) else last >= 0


class Retransmissions(NamedTuple):
    """Old segments and holes of one side: which row, of which connection, and which of `KINDS`."""

    row: Column
    of: Column
    kind: Column


def retransmissions(
    found: Connections, server: int, sent: Sent, rtt_ns: Column, sack: Column, repeats: Repeats | None = None
) -> Retransmissions:
    """Find the segments that one side sent again. By connection: `rtt_ns` (0: unknown), `sack` (both agreed on it).

    repeats   a native function that finds the same; this module does it where there is none, or where that returns None
    """
    if repeats is not None:
        rows, theirs, copies = found.rows, found.server != bool(server), np.zeros(len(sent.row), bool)
        if len(found.copies_of):
            copies = _in_other_bounds(found, sent, sent.old)
        parts = repeats(
            (rows.at, found.ack, rows.length, rows.tsval, rows.flags, rows.window, rows.bits, theirs),
            (sent.row, sent.start, sent.end, sent.top, sent.old, sent.full, copies),
            (found.begin, found.end, rtt_ns, sack),
        )  # fmt: skip
        if parts is not None:
            return Retransmissions(sent.row[parts[0]], sent.of[parts[0]], parts[1])
    hole = (sent.start > sent.top) & (sent.top > NEVER)
    again = sent.old & (sent.end > 1)
    # The byte of a probe of a closed window was not taken (RFC 9293 3.8.6.1); what brings it with more is no repeat.
    after = np.flatnonzero(again & (sent.start == sent.top - 1) & (sent.end > sent.top))
    probes = sent.row[after - 1]
    again[after[(found.rows.length[probes] == 1) & closed_before(found, server, probes)]] = False
    again &= ~_in_other_bounds(found, sent, again)
    events = np.flatnonzero(again | hole)
    rows = found.rows
    place, of = sent.row[events], sent.of[events]
    acked = acked_before(found, server, place)
    last = before(np.maximum.accumulate(np.where(sent.full, np.arange(len(sent.row)), -1)), sent.of, -1)[events]
    previous = np.where((last >= 0) & (sent.of[last] == of), rows.at[sent.row[last]], 0)
    columns = (
        of, sent.start[events], sent.end[events], sent.top[events], hole[events], rows.at[place], previous,
        np.minimum(acked.heard_at, rows.at[place]), acked.una, acked.duplicates,
        rows.tsval[place], (rows.bits[place] & STAMPED) != 0, rtt_ns[of], sack[of],
    )  # fmt: skip
    kinds: list[int] = []
    current, recovery = -1, _Recovery()
    for event in map(_Event._make, zip(*(column.tolist() for column in columns), strict=True)):
        if event.of != current:
            current, recovery = event.of, _Recovery()
        kinds.append(recovery.classify(event))
    return Retransmissions(place, of, np.asarray(kinds, np.int64))


def _in_other_bounds(found: Connections, sent: Sent, again: Column) -> Column:
    """Return which old segments are copies that offloading merged or cut otherwise on another interface.

    Their connection has copies, and they have the timestamp of the segment that first brought their first byte.
    """
    copies, rows = np.zeros(len(again), bool), found.rows
    likely = np.flatnonzero(again & np.isin(sent.of, found.copies_of) & ((rows.bits[sent.row] & STAMPED) != 0))
    first = np.flatnonzero(sent.full & ~sent.old)
    if len(likely) and len(first):
        # Segments may lie before the first one seen: by the ranks of their starts, connections stay apart.
        ranks = np.unique(sent.start, return_inverse=True)[1]
        lifted = sent.of * len(ranks) + ranks
        brought = first[np.maximum(np.searchsorted(lifted[first], lifted[likely], "right") - 1, 0)]
        same = (sent.of[brought] == sent.of[likely]) & (rows.tsval[sent.row[brought]] == rows.tsval[sent.row[likely]])
        copies[likely] = same & (lifted[brought] <= lifted[likely])
    return copies


class _Event(NamedTuple):
    """An old segment, or one that leaves a hole.

    of               its connection
    start, end, top  sequence numbers of the segment; the highest end before it
    hole             it begins above `top`
    at, previous     when it was captured, and its sender's last segment before it (ns)
    heard            when the other side last sent (ns, at most `at`)
    una, duplicates  the byte that the other side acknowledged; duplicate ACKs since
    tsval, stamped   its timestamp, if it has one
    rtt, sack        the connection's round trip (ns, 0: unknown); whether both sides agreed on SACK
    """

    of: int
    start: int
    end: int
    top: int
    hole: bool
    at: int
    previous: int
    heard: int
    una: int
    duplicates: int
    tsval: int
    stamped: bool
    rtt: int
    sack: bool


class _Recovery:
    """One side of one connection: its holes, and the recovery it is in."""

    def __init__(self) -> None:
        self.holes: list[tuple[int, int, int, int]] = []
        self.recover = NEVER
        self.repaired = NEVER
        self.probed = NEVER

    def classify(self, event: _Event) -> int:
        """Return which of `KINDS` (its index) the next event is."""
        if event.hole:
            self.holes.append((event.top, event.start, event.at, event.tsval))
            return KINDS.index(HOLE)
        return KINDS.index(REORDERED if self._overtaken(event) else self._cause(event))

    def _overtaken(self, event: _Event) -> bool:
        """Fill the hole that the segment lies in; return whether it came too soon, or its stamp is too old, to be a
        repeat."""
        # Holes lie side by side in order, as the highest byte only rises.
        place = bisect_right(self.holes, event.start, key=itemgetter(0)) - 1
        if place < 0 or event.start >= self.holes[place][1]:
            return False
        low, high, seen_at, seen_tsval = self.holes[place]
        rest = [(low, event.start, seen_at, seen_tsval), (event.end, high, seen_at, seen_tsval)]
        self.holes[place : place + 1] = [part for part in rest if part[0] < part[1]]
        older = ((event.tsval - seen_tsval + 0x80000000) & 0xFFFFFFFF) - 0x80000000 if event.stamped else 0
        soon = event.at - seen_at < (OVERTAKEN_RTTS * event.rtt if event.rtt else OVERTAKEN_NS)
        return older < 0 or (older == 0 and soon)

    def _cause(self, event: _Event) -> str:
        if event.end <= event.una:
            return "unneeded"
        silence = event.at - max(event.previous, event.heard)
        tail = event.end == event.top and event.sack and not event.duplicates and self.probed != event.top
        if tail and silence >= (PROBE_RTTS * event.rtt or TIMER_NS):
            self.probed = event.top
            return "tlp"
        expired = silence >= TIMER_NS + event.rtt
        if expired and event.start <= max(event.una, 1):
            self.recover = event.top
            return "rto"
        if event.start < self.recover and not event.duplicates:
            return "rto"
        # Bytes still missing when an ACK within the repair moves on are sent at once, without further duplicates
        # (RFC 6582 3.2, RFC 6675 5).
        if event.duplicates or (event.start < self.repaired and not expired):
            self.repaired = max(self.repaired, event.top)
            return "fast"
        return "rto" if expired else "other"
