"""Initial congestion window, from a conversation that nobody provoked.

Question   How many segments did the server send before it could have heard one ACK of its data?
Method     With timestamps: the server's segments whose echo (TSecr) is older than the stamp (TSval) of the client's
           first ACK of that data; no matter where the capture stood. Without: those that passed before that ACK plus
           nine tenths of the time from here to the server and back.
Reads as   Exact (C) only if the window, and not the server, ended the flight: its last segment is full, nothing of it
           was repeated, the client's window had room for another segment, and fresh data came no sooner than the ACK
           could bring it. Else a lower bound (L).
Fails as   no-handshake (without its SYN nobody knows that a flight is the first), one-sided, no-data, synack-repeated,
           options-cut (a capture so short that nobody knows how large a segment may be).
           A segment that its sender sent a round trip after the one before is none of the flight: it may be a probe.
Differs    from counting segments before the client's first ACK: a capture at the client shows that ACK while half of
           the flight is still under way. Frames that offloading merged count as the segments they were.
Source     RFC 6928; RFC 7323 section 3; RFC 5681 3.1
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import STAMPED, Column
from configtron.fingerprint.passive.connections import Connections, edges, running
from configtron.fingerprint.passive.repeats import Sent
from configtron.nouns import FIN, RST, SYN

# Data that the ACK let out is here after one round trip to the server; a tenth less for jitter.
EARLY = 0.9
# Fresh data sooner after the flight's last segment than this share of the round trip was not waiting for the ACK.
SILENCE = 0.5
# ... nor was data that came so much later than the ACK could bring it: a quarter for jitter, 10 ms for a busy host.
LATE, LATE_NS = 1.25, 10_000_000
# The path may make segments smaller than both ends offer (tunnels: 1280 of 1500); smaller ones end a write.
FULL = 0.8
# How often a clock of timestamps ticks where tail loss probes are sent (Linux, Windows, FreeBSD).
TICK_NS = 1_000_000
# The least pause before a probe: two round trips of 5 ms; on shorter paths a round trip says it.
PROBE_NS = 10_000_000
# What a SYN without the option offers (RFC 9293 3.7.1).
DEFAULT_MSS = 536
# Bytes of options in every segment once timestamps are agreed.
STAMP_BYTES = 12
PROOFS = (
    "ack-clocked", "response-ended", "short-segment", "server-paced", "window-limited", "repeated", "lost",
    "unverified",
    "no-handshake", "one-sided", "no-data", "synack-repeated", "beginning-lost", "options-cut",
)  # fmt: skip
# From here on there is no value.
NONE = PROOFS.index("no-handshake")


class Flights(NamedTuple):
    """By connection: segments, bytes, segment size, which of `PROOFS`, whether timestamps told, first and last row."""

    segments: Column
    size: Column
    mss: Column
    proof: Column
    stamped: Column
    first: Column
    last: Column
    merged: Column


class Known(NamedTuple):
    """By connection, what the handshake said. Times in ns, 0: unknown; `limit`: bytes of a segment; `room`: window."""

    whole: Column
    cut: Column
    rtt: Column
    rtt_server: Column
    limit: Column
    stamps: Column
    room: Column
    synacks: Column


def first_flights(found: Connections, sent: Sent, known: Known) -> Flights:
    """Read every connection's first flight. `sent`: by the server."""
    rows, count = found.rows, found.total
    data = np.flatnonzero(rows.length[sent.row] > 0)
    row, of = sent.row[data], sent.of[data]
    # A FIN takes a number, and is no byte of the flight.
    start, old = sent.start[data], sent.old[data]
    end = sent.end[data] - ((rows.flags[row] & FIN) != 0)
    acked = _first_acks(found, row, of)
    heard = acked >= 0
    place = np.maximum(acked, 0)
    ack_at = np.where(heard, rows.at[place] if rows.size else 0, np.iinfo(np.int64).max // 2)
    stamped = heard & ((rows.bits[place] & STAMPED) != 0) & _ticked(found, place) if rows.size else heard
    by_time = rows.at[row] < ack_at[of] + (EARLY * known.rtt_server[of]).astype(np.int64)
    echo = (rows.tsecr[row] - rows.tsval[place[of]]).view(np.int32) if rows.size else by_time
    flying = np.where(stamped[of] & ((rows.bits[row] & STAMPED) != 0), echo < 0, by_time)
    begin, after = edges(of, count)
    pause = _pauses(found, row, of)
    late = np.maximum(known.rtt, 2 * TICK_NS)[of]
    probing = flying & (known.rtt[of] > 0) & (pause >= late)
    flying &= ~probing
    # Once anything came later, the flight is over.
    stop = np.minimum.reduceat(np.append(np.where(flying, len(of), np.arange(len(of))), len(of)), begin)[:count]
    stop = np.where(after > begin, np.minimum(stop, after), begin)
    # A last one by itself may be a probe of a server that knows a shorter round trip than we.
    alone = (stop > begin + 1) & (pause[np.maximum(stop - 1, 0)] >= PROBE_NS) if len(of) else stop > after
    probing[stop[alone] - 1] = True
    stop = stop - alone
    inside = np.arange(len(of)) < stop[of]
    fresh = inside & ~old
    top = _most(np.where(inside, end, 0), of, count)
    # A super-frame holds segments of the agreed size; an offer that was raised gives segments that are no multiple.
    full = np.maximum(known.limit - STAMP_BYTES * known.stamps, 1)
    largest = _most(rows.length[row], of, count)
    raised = (known.limit <= DEFAULT_MSS) & (largest >= DEFAULT_MSS - STAMP_BYTES) & (largest % full != 0)
    merged = (largest > full) & ~raised
    mss = np.maximum(np.where(merged, full, largest), 1)
    length = rows.length[row].astype(np.int64)
    pieces = -(-length // mss[of])
    missing = np.maximum(top - 1, 0) - np.bincount(of[fresh], length[fresh], count).astype(np.int64)
    segments = np.bincount(of[fresh], pieces[fresh], count).astype(np.int64) + -(-np.maximum(missing, 0) // mss)
    last = np.maximum(stop - 1, 0)
    marks = _Marks(row, of, start, end, begin, after, stop, top, mss, full, ack_at, old & inside, missing > 0)
    proof = _proofs(found, known, marks)
    if len(of):
        stopped = (stop < after) & probing[np.minimum(stop, len(of) - 1)]
        proof[stopped & (proof == PROOFS.index("ack-clocked"))] = PROOFS.index("server-paced")
    first = row[np.minimum(begin, max(len(row) - 1, 0))] if len(row) else begin
    final = row[np.minimum(last, max(len(row) - 1, 0))] if len(row) else begin
    return Flights(segments, np.maximum(top - 1, 0), mss, proof, stamped, first, final, merged)


def _pauses(found: Connections, row: Column, of: Column) -> Column:
    """How long after the row before its sender sent each data row, by its own clock where that is shown; ns.

    After a round trip the flight had ended, though no ACK was heard: new data may be a tail loss probe (RFC 8985 7.3),
    which goes beyond the window.
    """
    rows = found.rows
    pauses = np.zeros(len(row), np.int64)
    if len(row) < 2:
        return pauses
    both = (rows.bits[row[1:]] & rows.bits[row[:-1]] & STAMPED) != 0
    ticks = (rows.tsval[row[1:]] - rows.tsval[row[:-1]]).view(np.int32).astype(np.int64)
    pause = np.where(both, ticks * TICK_NS, rows.at[row[1:]] - rows.at[row[:-1]])
    pauses[1:] = np.where(of[1:] == of[:-1], pause, 0)
    return pauses


def _first_acks(found: Connections, row: Column, of: Column) -> Column:
    """Each connection's first client row that tells of server data (`row`, of connections `of`); -1 if there is none.

    One that acknowledges data, or repeats an acknowledgement after data passed: it lets data out as well (RFC 3042).
    """
    flags, length = found.rows.flags, found.rows.length
    data = np.full(found.total, len(found.of), np.int64)
    data[of[::-1]] = row[::-1]
    plain = (length == 0) & ((flags & (SYN | FIN | RST)) == 0)
    later = plain & (np.arange(len(found.of)) > data[found.of])
    # One that was overtaken by the request says nothing: it was sent before.
    ours = np.flatnonzero(~found.server)
    sent = running(found.seq[ours] + length[ours], found.of[ours])
    later[ours] &= found.seq[ours] >= sent
    rows = np.flatnonzero(~found.server & ((found.ack > 1) | later))
    first = np.full(found.total, -1, np.int64)
    first[found.of[rows[::-1]]] = rows[::-1]
    return first


def _ticked(found: Connections, ack: Column) -> Column:
    """Whether the client's clock had moved on when it sent that ACK: else its stamp tells nothing apart."""
    rows = found.rows
    earlier = np.flatnonzero(~found.server & (np.arange(len(found.of)) < ack[found.of]) & ((rows.bits & STAMPED) != 0))
    last = np.full(found.total, -1, np.int64)
    last[found.of[earlier]] = earlier
    moved: Column = (last < 0) | (rows.tsval[np.maximum(last, 0)] != rows.tsval[ack])
    return moved


def _most(values: Column, of: Column, count: int) -> Column:
    found = np.zeros(count, np.int64)
    np.maximum.at(found, of, values)
    return found


class _Marks(NamedTuple):
    """Data rows of servers (the first five, `again`), and by connection what was measured of the flight."""

    row: Column
    of: Column
    start: Column
    end: Column
    begin: Column
    after: Column
    stop: Column
    top: Column
    mss: Column
    full: Column
    ack_at: Column
    again: Column
    missing: Column


def _proofs(found: Connections, known: Known, marks: _Marks) -> Column:
    """Which of `PROOFS` holds; the later assignments are the graver."""
    rows, count = found.rows, found.total
    proof = np.full(count, PROOFS.index("ack-clocked"))
    if len(marks.row):
        last = np.clip(marks.stop - 1, 0, len(marks.row) - 1)
        following = np.clip(marks.stop, 0, len(marks.row) - 1)
        more = (marks.stop < marks.after) & (marks.end[following] > marks.top)
        proof[~more] = PROOFS.index("unverified")
        next_at = rows.at[marks.row[following]]
        pause = next_at - rows.at[marks.row[last]]
        late = marks.ack_at + (LATE * known.rtt_server).astype(np.int64) + LATE_NS
        prompt = (next_at >= marks.ack_at) & (next_at <= late) & (pause >= SILENCE * known.rtt)
        proof[more & (~prompt | (known.rtt <= 0))] = PROOFS.index("server-paced")
        short = (rows.length[marks.row[last]] % marks.mss != 0) | (marks.mss < FULL * marks.full)
        proof[short] = PROOFS.index("short-segment")
        finished = np.zeros(count, bool)
        fins = np.flatnonzero((rows.flags[marks.row] & FIN) != 0)
        finished[marks.of[fins[fins < marks.stop[marks.of[fins]]]]] = True
        proof[finished | (~more & short)] = PROOFS.index("response-ended")
        proof[np.bincount(marks.of[marks.again], minlength=count) > 0] = PROOFS.index("repeated")
        # A hole within the flight, or behind it: its tail may be what is missing.
        proof[marks.missing | (more & (marks.start[following] > marks.top))] = PROOFS.index("lost")
        proof[(known.room > 0) & (marks.top - 1 + marks.mss > known.room)] = PROOFS.index("window-limited")
    proof[(marks.stop == marks.begin) | _orphans(marks)] = PROOFS.index("beginning-lost")
    proof[marks.after == marks.begin] = PROOFS.index("no-data")
    proof[known.synacks > 1] = PROOFS.index("synack-repeated")
    ways = [np.bincount(found.of[found.server == side], minlength=count) for side in (True, False)]
    proof[known.cut] = PROOFS.index("options-cut")
    proof[~known.whole] = PROOFS.index("no-handshake")
    proof[np.minimum(*ways) == 0] = PROOFS.index("one-sided")
    return proof


def _orphans(marks: _Marks) -> Column:
    """Whether all there is of a flight is one row that does not begin the stream.

    How long after the beginning it was sent nobody knows, so it may have been a probe, or what an ACK let out.
    """
    first = np.clip(marks.begin, 0, max(len(marks.row) - 1, 0))
    later = marks.start[first] > 1 if len(marks.row) else marks.stop < 0
    orphan: Column = (marks.stop == marks.begin + 1) & later
    return orphan
