"""Initial congestion window, from a conversation that nobody provoked.

Question   How many segments did the server send before it could have heard one ACK of its data?
Method     With timestamps: the server's segments whose echo (TSecr) is older than the stamp (TSval) of the client's
           first ACK of that data; no matter where the capture stood. Without: those that passed before that ACK plus
           nine tenths of the time from here to the server and back.
Reads as   Exact (C) only if the window, and not the server, ended the flight: its last segment is full, nothing of it
           was repeated, the client's window had room for another segment, and fresh data came no sooner than the ACK
           could bring it. Else a lower bound (L).
Fails as   no-handshake (without its SYN nobody knows that a flight is the first), one-sided, no-data, synack-repeated.
Differs    from counting segments before the client's first ACK: a capture at the client shows that ACK while half of
           the flight is still under way. Frames that offloading merged count as the segments they were.
Source     RFC 6928; RFC 7323 section 3; RFC 5681 3.1
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import STAMPED, Column
from configtron.fingerprint.passive.connections import Connections, edges
from configtron.fingerprint.passive.repeats import Sent
from configtron.nouns import FIN, RST, SYN

# Data that the ACK let out is here after one round trip to the server; a tenth less for jitter.
EARLY = 0.9
# Fresh data sooner after the flight's last segment than this share of the round trip was not waiting for the ACK.
SILENCE = 0.5
# What a SYN without the option offers (RFC 9293 3.7.1).
DEFAULT_MSS = 536
# Bytes of options in every segment once timestamps are agreed.
STAMP_BYTES = 12
PROOFS = (
    "ack-clocked", "response-ended", "short-segment", "server-paced", "window-limited", "repeated", "unverified",
    "no-handshake", "one-sided", "no-data", "synack-repeated",
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
    """By connection, what the handshake said. Times in ns, 0: unknown; windows in bytes; `ABSENT` options."""

    whole: Column
    rtt: Column
    rtt_server: Column
    offered: Column
    room: Column
    synacks: Column


def first_flights(found: Connections, sent: Sent, known: Known) -> Flights:
    """Read every connection's first flight. `sent`: by the server."""
    rows, count = found.rows, found.total
    data = np.flatnonzero(rows.length[sent.row] > 0)
    row, of = sent.row[data], sent.of[data]
    start, end, old = sent.start[data], sent.end[data], sent.old[data]
    acked = _first_acks(found, row, of)
    heard = acked >= 0
    place = np.maximum(acked, 0)
    ack_at = np.where(heard, rows.at[place] if rows.size else 0, np.iinfo(np.int64).max // 2)
    stamped = heard & ((rows.bits[place] & STAMPED) != 0) & _ticked(found, place) if rows.size else heard
    by_time = rows.at[row] < ack_at[of] + (EARLY * known.rtt_server[of]).astype(np.int64)
    echo = (rows.tsecr[row] - rows.tsval[place[of]]).view(np.int32) if rows.size else by_time
    flying = np.where(stamped[of] & ((rows.bits[row] & STAMPED) != 0), echo < 0, by_time)
    # Once anything came later, the flight is over.
    begin, after = edges(of, count)
    stop = np.minimum.reduceat(np.append(np.where(flying, len(of), np.arange(len(of))), len(of)), begin)[:count]
    stop = np.where(after > begin, np.minimum(stop, after), begin)
    inside = np.arange(len(of)) < stop[of]
    fresh = inside & ~old
    top = _most(np.where(inside, end, 0), of, count)
    limit = np.where(known.offered > 0, known.offered, DEFAULT_MSS)
    # A super-frame holds segments of the agreed size.
    full = limit - np.where(stamped, STAMP_BYTES, 0)
    largest = _most(np.where(fresh, rows.length[row], 0), of, count)
    merged = largest > full
    mss = np.maximum(np.where(merged, full, largest), 1)
    pieces = -(-rows.length[row].astype(np.int64) // mss[of])
    segments = np.bincount(of[fresh], pieces[fresh], count).astype(np.int64)
    last = np.maximum(stop - 1, 0)
    proof = _proofs(found, known, row, of, start, end, begin, after, stop, top, mss, ack_at, old & inside)
    first = row[np.minimum(begin, max(len(row) - 1, 0))] if len(row) else begin
    final = row[np.minimum(last, max(len(row) - 1, 0))] if len(row) else begin
    return Flights(segments, np.maximum(top - 1, 0), mss, proof, stamped, first, final, merged)


def _first_acks(found: Connections, row: Column, of: Column) -> Column:
    """Each connection's first client row that tells of server data (`row`, of connections `of`); -1 if there is none.

    One that acknowledges data, or repeats an acknowledgement after data passed: it lets data out as well (RFC 3042).
    """
    flags, length = found.rows.flags, found.rows.length
    data = np.full(found.total, len(found.of), np.int64)
    data[of[::-1]] = row[::-1]
    plain = (length == 0) & ((flags & (SYN | FIN | RST)) == 0)
    later = plain & (np.arange(len(found.of)) > data[found.of])
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


def _proofs(
    found: Connections, known: Known, row: Column, of: Column, start: Column, end: Column, begin: Column,
    after: Column, stop: Column, top: Column, mss: Column, ack_at: Column, again: Column,
) -> Column:  # fmt: skip
    """Which of `PROOFS` holds; the later assignments are the graver."""
    rows, count = found.rows, found.total
    if not len(row):
        proof = np.full(count, PROOFS.index("no-data"))
    else:
        last = np.clip(stop - 1, 0, len(row) - 1)
        following = np.clip(stop, 0, len(row) - 1)
        more = (stop < after) & (end[following] > top)
        proof = np.full(count, PROOFS.index("ack-clocked"))
        proof[~more] = PROOFS.index("unverified")
        pause = rows.at[row[following]] - rows.at[row[last]]
        prompt = (rows.at[row[following]] >= ack_at) & (pause >= SILENCE * known.rtt)
        proof[more & (~prompt | (known.rtt <= 0))] = PROOFS.index("server-paced")
        short = rows.length[row[last]] % mss != 0
        proof[short] = PROOFS.index("short-segment")
        finished = np.zeros(count, bool)
        fins = np.flatnonzero((rows.flags[row] & FIN) != 0)
        finished[of[fins[fins < stop[of[fins]]]]] = True
        proof[finished | (~more & short)] = PROOFS.index("response-ended")
        repeated = np.bincount(of[again], minlength=count) > 0
        proof[repeated] = PROOFS.index("repeated")
        proof[(known.room > 0) & (top - 1 + mss > known.room)] = PROOFS.index("window-limited")
        proof[after == begin] = PROOFS.index("no-data")
    proof[known.synacks > 1] = PROOFS.index("synack-repeated")
    one = np.minimum(np.bincount(found.of[found.server], minlength=count),
                     np.bincount(found.of[~found.server], minlength=count)) == 0  # fmt: skip
    proof[~known.whole] = PROOFS.index("no-handshake")
    proof[one] = PROOFS.index("one-sided")
    return proof
