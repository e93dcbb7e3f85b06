# SPDX-License-Identifier: MIT
"""Rows -> round trips and delivery rates of each side, as that side's own stack would have sampled them.

Question   How long is the path, how steady, and how fast does it carry this side's data?
Method     An ACK that acknowledges more than any before it times the segment that holds the last byte it covers
           (Karn's rule: not if anything outstanding had been sent again). The rate of a sample is the bytes delivered
           since the latest ACK before that segment was sent, over the longer of two times: that between the two ACKs,
           and that between the sending of the segments that they cover. After a moment with nothing outstanding both
           count from the next segment sent. A sample of much less than an earlier one delivered shows how little there
           was to send, and is no rate. The smoothed round trip takes an eighth of each sample, as a stack does (of the
           oldest segment that the ACK covers), so that at the end it is that of the load.
Reads as   sums, so that the parts of a long connection add up; SYNs count as one byte. Where the capture stood at the
           side itself these are round trips of the path; elsewhere, of the part beyond the capture.
Fails as   no sample (`trips` 0) for a side that sends nothing, or nothing that was not repeated.
Differs    from the draft, which knows from the sender's queue when the application held back. A rate over less time
           than the shortest round trip is left out, as there.
Source     RFC 6298 2.3, 3 (Karn), draft-ietf-ccwg-bbr 4.1 (delivery rate samples), net/ipv4/tcp_rate.c,
           net/ipv4/tcp_input.c (tcp_clean_rtx_queue)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import ABSENT, COUNTED, Column
from configtron.fingerprint.passive.connections import NEVER, Connections, before, latest, running
from configtron.model.nouns import FIN, RST, SYN

NS = 1_000_000_000
# RFC 6298 2.3: the weight of each sample in a smoothed round trip.
ALPHA = 1 / 8
LATEST = ("trip_least", "trip_smoothed", "rate_last", "rate_most")
# A sample is a rate if it delivered at least half as much as the fullest one before it.
FULL_SHARE = 2


class _Rows:
    """Rows with a number each (a sequence number, an acknowledgement), in order of connection and time."""

    def __init__(self, row: Column, of: Column, number: Column) -> None:
        self.row, self.of, self.number = row, of, number


class Sampled(NamedTuple):
    """Segments of one side, the ACKs that time them, and for each ACK which segment it times, and the oldest it
    covers."""

    sent: _Rows
    acks: _Rows
    held: Column
    oldest: Column


def sampled(found: Connections, number: int, without: int = RST) -> Sampled | None:
    """Return the samples of side `number`, of its segments without such flags; None if there is no ACK of any."""
    rows = found.rows
    way = found.way(number)
    spans = rows.length[way.rows] + ((rows.flags[way.rows] & (SYN | FIN)) != 0)
    carries = np.flatnonzero((spans > 0) & ((rows.flags[way.rows] & without) == 0))
    row, of = way.rows[carries], way.of[carries]
    begin, end = found.seq[row], found.seq[row] + spans[carries]
    reach = before(running(end, of), of)
    fresh = begin >= np.where(reach == NEVER, begin, reach)
    sent, again = _Rows(row[fresh], of[fresh], begin[fresh]), _Rows(row[~fresh], of[~fresh], reach[~fresh])
    acks = advancing(found, 1 - number)
    if not len(sent.row) or not len(acks.row):
        return None
    held = _held_by(sent, acks.of, acks.number)
    earlier = before(acks.number, acks.of)
    oldest = _held_by(sent, acks.of, np.where(earlier == NEVER, acks.number, earlier + 1))
    clean = (held >= 0) & (sent.row[held] < acks.row) & ~_disturbed(found, acks, again, sent, held)
    acks, held = _Rows(acks.row[clean], acks.of[clean], acks.number[clean]), held[clean]
    # a stack smooths the time since the oldest segment that an ACK covers was sent: longer by the time over which ACKs
    # gather
    return Sampled(sent, acks, held, np.where(oldest[clean] >= 0, oldest[clean], held))


def round_trips(found: Connections, number: int, without: int = RST) -> dict[str, Column]:
    """Return columns over connections, named as in `summary.TRIPS`, of side `number`'s segments without such flags."""
    rows, count, samples = found.rows, found.total, sampled(found, number, without)
    if samples is None:
        return _nothing(count)
    sent, acks, held, oldest = samples
    trip = rows.at[acks.row] - rows.at[sent.row[held]]
    columns = _nothing(count)
    if not len(acks.row):
        return columns
    new = ((rows.bits[acks.row] & COUNTED) == 0) & (trip >= 0)
    known = np.flatnonzero(new)
    columns["trips"] = np.bincount(acks.of[known], minlength=count)
    columns["trip_sum"] = _sum(acks.of[known], trip[known], count)
    # the least of all parts of a connection is that of the whole, however often a row is looked at
    most = np.iinfo(np.int64).max
    least = np.full(count, most)
    np.minimum.at(least, acks.of[trip >= 0], trip[trip >= 0])
    columns["trip_least"] = np.where(least < most, least, ABSENT)
    whole = rows.at[acks.row] - rows.at[sent.row[oldest]]
    every = np.flatnonzero(whole >= 0)
    columns["trip_smoothed"] = _smoothed(acks.of[every], whole[every], count)
    last = before(trip, acks.of, -1)
    step = np.flatnonzero(new & (last >= 0))
    columns["trip_steps"] = np.bincount(acks.of[step], minlength=count)
    columns["trip_change"] = _sum(acks.of[step], np.abs(trip - last)[step], count)
    rate, elapsed, delivered = _rates(found, sent, acks, held)
    full = delivered * FULL_SHARE >= running(delivered, acks.of)
    usable = np.flatnonzero(new & full & (rate > 0) & (elapsed >= least[acks.of]))
    np.maximum.at(columns["rate_most"], acks.of[usable], rate[usable])
    columns["rate_last"][acks.of[usable]] = rate[usable]
    return columns


def _smoothed(of: Column, trip: Column, count: int) -> Column:
    """Return each connection's smoothed round trip after its last sample, ns; `ABSENT` without a sample."""
    samples = np.bincount(of, minlength=count)
    place = np.arange(len(of)) - (np.cumsum(samples) - samples)[of]
    # written out, the recursion is a sum: the first sample counts in full and fades from then on
    weight = (1 - ALPHA) ** (samples[of] - 1 - place) * np.where(place == 0, 1.0, ALPHA)
    found = np.bincount(of, weight * trip, minlength=count)
    return np.where(samples > 0, np.rint(found).astype(np.int64), ABSENT)


def _nothing(count: int) -> dict[str, Column]:
    zero = {name: np.zeros(count, np.int64) for name in ("trips", "trip_sum", "trip_steps", "trip_change")}
    return zero | {name: np.full(count, ABSENT, np.int64) for name in LATEST}


def _sum(of: Column, values: Column, count: int) -> Column:
    # In whole numbers: floats would make sums of parts differ from the sum of the whole.
    found = np.zeros(count, np.int64)
    np.add.at(found, of, values)
    return found


def advancing(found: Connections, number: int) -> _Rows:
    """Return rows of a side that acknowledge more than all its rows before."""
    way = found.way(number)
    ack, of = found.ack[way.rows], way.of
    some = np.flatnonzero((ack > NEVER) & ((found.rows.flags[way.rows] & RST) == 0))
    row, of, ack = way.rows[some], of[some], ack[some]
    more = np.flatnonzero(ack > before(running(ack, of), of)) if len(ack) else some[:0]
    return _Rows(row[more], of[more], ack[more])


def _held_by(sent: _Rows, of: Column, number: Column) -> Column:
    """Return the index in `sent` of the segment that holds the byte before each acknowledgement; -1 if none does."""
    # Each connection is lifted above all before it. Crafted numbers may leave 64 bits; then nothing is found, or the
    # wrong segment of the same connection.
    low = min(int(sent.number.min()), int(number.min()))
    span = max(int(sent.number.max()), int(number.max())) - low + 2
    place = np.searchsorted(sent.of * span + (sent.number - low), of * span + (number - low), "left") - 1
    return np.where((place >= 0) & (sent.of[np.maximum(place, 0)] == of), place, -1)


def _disturbed(found: Connections, acks: _Rows, again: _Rows, sent: _Rows, held: Column) -> Column:
    """Return whether something outstanding with the timed segment had been sent again before the ACK."""
    if not len(again.row):
        return np.zeros(len(acks.row), bool)
    mask = np.zeros(found.rows.size, bool)
    mask[again.row] = True
    last = latest(mask, found.of, found.begin, acks.row)
    most = running(again.number, again.of)
    disturbed: Column = (last >= 0) & (sent.number[np.maximum(held, 0)] < most[np.maximum(last, 0)])
    return disturbed


def _rates(found: Connections, sent: _Rows, acks: _Rows, held: Column) -> tuple[Column, Column, Column]:
    """Of each sample: bits per second (0 where there is nothing to measure from), over how many ns, how many bytes."""
    rows = found.rows
    mask = np.zeros(rows.size, bool)
    mask[acks.row] = True
    # The sender's state at sending: the last of these ACKs, and the time at which the segment that it covers was sent.
    known = latest(mask, found.of, found.begin, sent.row)
    place = np.maximum(known, 0)
    acked = np.where(known >= 0, acks.number[place], 0)
    heard_at = np.where(known >= 0, rows.at[acks.row[place]], 0)
    sent_at = np.where(known >= 0, rows.at[sent.row[held[place]]], 0)
    # Everything had been acknowledged: both clocks start with this segment.
    idle = (acked >= sent.number) | (known < 0)
    starts = np.maximum.accumulate(np.where(idle, np.arange(len(idle)), -1))
    since = np.where(starts >= 0, rows.at[sent.row[np.maximum(starts, 0)]], 0)
    heard_at, sent_at = np.maximum(heard_at, since), np.maximum(sent_at, since)
    delivered = acks.number - np.maximum(acked[held], 1)
    elapsed = np.maximum(rows.at[acks.row] - heard_at[held], rows.at[sent.row[held]] - sent_at[held])
    counts = (delivered > 0) & (elapsed > 0) & (sent.number[held] > 0)
    rate = np.zeros(len(held), np.int64)
    rate[counts] = (delivered[counts] * (8.0 * NS) / elapsed[counts]).astype(np.int64)
    return rate, elapsed, delivered
