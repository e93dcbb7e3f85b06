# SPDX-License-Identifier: MIT
"""Initial congestion window, from a conversation that no probe provoked.

Question   How many segments did the server send before it could have heard one ACK of its data?
Method     With timestamps: the server's segments whose echo (TSecr) is older than the stamp (TSval) of the client's
           first ACK of that data; no matter where the capture stood. Without: those that passed before that ACK plus
           nine tenths of the time from here to the server and back, and behind the ACK up to the first pause. That
           time is the shortest of the connection: handshakes are often slower than the path, which may be shorter yet.
           If no other round trip confirms the handshake's, a bound counts what passed before that ACK alone.
Reads as   Exact (C) only if the window, and not the server, ended the flight: every segment of it (a first one, with
           the head of an answer, aside) is as large as both ends agreed (the MSS options, less those in use), nothing
           of it was repeated, the client's window had room for another, and another full segment came as soon as the
           first ACK could bring it, no sooner and no later, with no new data of the client before it. Else a lower
           bound (L): the flight's bytes in segments of the largest size that the client takes, which holds for stacks
           that count bytes too.
Fails as   no-handshake (without its SYN no flight is known to be the first), one-sided, no-data, options-cut (a
           capture cut so short that the largest segment is unknown); synack-repeated: the window may have been
           cut to one segment (RFC 5681 3.1), so a longer flight is a bound.
           A segment that its sender sent a round trip after the one before is none of the flight: it may be a probe.
           A server that goes on and never has more under way than its first flight, or after the ACKs less than they
           let out, is stopped by its send buffer, or writes so: no-growth, a bound.
           A flight that ends where a TLS record ends (one that begins in its first segment) is as long as what the
           server wrote: server-paced (`gathering.py`).
           On a path shorter than a millisecond an ACK and the server's own pace look the same: short-path, a bound.
Differs    from counting segments before the client's first ACK: a capture at the client shows that ACK while half of
           the flight is still under way. Frames that offloading merged count as the segments they were. From taking
           the largest segment seen for the MSS: a server that takes turns (TLS) may never send a full one.
Source     RFC 6928; RFC 7323 section 3; RFC 5681 3.1; RFC 6691 (options count against the MSS); RFC 896 (Nagle)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import STAMPED, Column
from configtron.fingerprint.passive.connections import Connections, edges, highest, leader, running
from configtron.fingerprint.passive.retransmissions import Sent
from configtron.model.nouns import FIN, RST, SYN

# Data that the ACK let out is here after one round trip to the server; a tenth less for jitter.
EARLY = 0.9
# Fresh data sooner after the flight's last segment than this share of the round trip was not waiting for the ACK.
SILENCE = 0.5
# Fresh data later than the ACK could bring it was not waiting either. Tolerance: a quarter of the round trip for
# jitter, and 10 ms for a busy host, but these at most half a round trip.
LATE, LATE_NS, LATE_SHARE = 1.25, 10_000_000, 0.5
# Below this round trip an ACK cannot be distinguished from a delay by the scheduler of either host.
SHORT_PATH_NS = 1_000_000
# Without timestamps, a pause behind the first ACK ends the flight, if it is this share of the round trip, and so many
# times as long as any pause before that ACK: what follows it may be what the ACK let out.
PAUSE_SHARE, PAUSE_TIMES = 0.1, 3
# How often a clock of timestamps ticks where tail loss probes are sent (Linux, Windows, FreeBSD).
TICK_NS = 1_000_000
# The least pause before a probe: two round trips of 5 ms; on shorter paths a round trip decides.
PROBE_NS = 10_000_000
# A congestion window has grown to at least GROWN times the first flight once JUDGED times its bytes were sent.
JUDGED, GROWN = 4, 1.25
# The MSS of a SYN without the option (RFC 9293 3.7.1).
DEFAULT_MSS = 536
# Bytes of options in every segment once timestamps are agreed (RFC 7323 appendix A, with padding).
STAMP_BYTES = 12
PROOFS = (
    "ack-clocked", "response-ended", "short-segment", "server-paced", "client-data", "short-path", "window-limited",
    "repeated", "lost", "no-growth", "unverified",
    "no-handshake", "one-sided", "no-data", "beginning-lost", "options-cut",
)  # fmt: skip
# A head is left out only if other segments follow it.
HEADED_LEAST = 2
# From here on there is no value.
NONE = PROOFS.index("no-handshake")


class Flights(NamedTuple):
    """The first flight of each connection.

    segments, size, mss   its segments, its bytes, and the bytes that one segment is counted as
    proof                 index into `PROOFS`
    stamped               whether timestamps decide which segments belong to it
    first, last           its first and last row
    merged                whether offloading merged frames
    synack_again          whether the SYN-ACK was repeated
    """

    segments: Column
    size: Column
    mss: Column
    proof: Column
    stamped: Column
    first: Column
    last: Column
    merged: Column
    synack_again: Column


class HandshakeFacts(NamedTuple):
    """The handshake of each connection.

    whole             both SYNs were captured
    cut               the capture cut off TCP options
    rtt, rtt_server   round trip, whole and from the capture to the server (ns); 0: unknown
    sure              the handshake and a request have the same round trip to the server, so it is the path's
    limit, cap        bytes of the largest segment, less timestamps, that both ends or the client alone offers to take
    floor             the client offers 536 or less: some servers then send 536 all the same
    room              the client's window (bytes); 0: unknown
    synacks           SYN-ACKs that were captured
    """

    whole: Column
    cut: Column
    rtt: Column
    rtt_server: Column
    sure: Column
    limit: Column
    cap: Column
    floor: Column
    room: Column
    synacks: Column


def first_flights(found: Connections, sent: Sent, known: HandshakeFacts) -> Flights:
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
    ticked, stamp = _stamp_before(found, place) if rows.size else (heard, heard)
    stamped = heard & ((rows.bits[place] & STAMPED) != 0) & ticked if rows.size else heard
    by_time = rows.at[row] < ack_at[of] + (EARLY * known.rtt_server[of]).astype(np.int64)
    begin, after = edges(of, count)
    # An echo between the two, but that of the stream's first byte, is of an ACK that was not captured.
    limit = stamp[of]
    if len(of):
        opening = np.where(start[begin[of]] == 1, rows.tsecr[row[begin[of]]], limit)
        limit = np.where((opening - limit).view(np.int32) > 0, opening, limit)
    echo = (rows.tsecr[row] - limit).view(np.int32) if len(of) else by_time
    flying = np.where(stamped[of] & ((rows.bits[row] & STAMPED) != 0), echo <= 0, by_time)
    pause = _pauses(found, row, of)
    late = np.maximum(known.rtt, 2 * TICK_NS)[of]
    probing = flying & (known.rtt[of] > 0) & (pause >= late)
    behind = rows.at[row] > ack_at[of]
    pace = np.maximum(PAUSE_SHARE * known.rtt_server, PAUSE_TIMES * highest(of, np.where(behind, 0, pause), count, 0))
    probing |= flying & ~stamped[of] & behind & (pause >= np.maximum(pace, 1)[of])
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
    top = highest(of, np.where(inside, end, 0), count, 0)
    size = _sizes(known, rows.length[row].astype(np.int64), of, fresh)
    length = rows.length[row].astype(np.int64)
    missing = np.maximum(top - 1, 0) - np.bincount(of[fresh], length[fresh], count).astype(np.int64)
    last = np.maximum(stop - 1, 0)
    marks = _Marks(row, of, start, end, begin, after, stop, top, size, ack_at, old & inside, missing > 0)
    proof = _proofs(found, known, marks)
    if len(of):
        stopped = (stop < after) & probing[np.minimum(stop, len(of) - 1)]
        proof[stopped & (proof == PROOFS.index("ack-clocked"))] = PROOFS.index("server-paced")
    for connection in np.flatnonzero(proof == PROOFS.index("ack-clocked")).tolist():
        if _stays(found, marks, old, int(known.rtt[connection]), connection):
            proof[connection] = PROOFS.index("no-growth")
    # Only an ACK that let data out confirms a round trip that nothing else does.
    heard_of = highest(of, np.where(inside & (rows.at[row] <= ack_at[of]), end, 0), count, 0)
    unsure = ~stamped & ~known.sure & (proof != PROOFS.index("ack-clocked")) & (heard_of > 1)
    top = np.where(unsure, heard_of, top)
    segments = -(-np.maximum(top - 1, 0) // size.counted)
    first = row[np.minimum(begin, max(len(row) - 1, 0))] if len(row) else begin
    final = row[np.minimum(last, max(len(row) - 1, 0))] if len(row) else begin
    again = known.synacks > 1
    return Flights(segments, np.maximum(top - 1, 0), size.counted, proof, stamped, first, final, size.merged, again)


class _Sizes(NamedTuple):
    """Segment sizes of each connection.

    counted   bytes that one segment is counted as
    full      whether all segments of the flight are that large
    merged    whether offloading merged frames
    """

    counted: Column
    full: Column
    merged: Column


def _sizes(known: HandshakeFacts, length: Column, of: Column, fresh: Column) -> _Sizes:
    """Return the segment sizes of each connection.

    length, of   payload bytes and connection of each row with server data
    fresh        which of these rows belong to the first flight

    No segment is larger than the client offers to take (`cap`), except from servers whose segments have 536 bytes even
    if the client offers less. Any other larger frame was merged by offloading. A server that offers less than the
    client usually sends no more than it offers itself; a flight of multiples of that size shows it.
    """
    count = len(known.cap)
    largest = highest(of, length, count, 0)
    honoured = np.bincount(of[length == known.cap[of]], minlength=count) > 0
    merged = (largest > known.cap) & (~known.floor | honoured)
    raised = (largest > known.cap) & ~merged
    # A head that the server wrote by itself takes one segment of the window; if full ones follow it at once, no other
    # segment of the flight is short, and the sum of bytes is the same number of segments.
    others = fresh & ((np.diff(of, prepend=-1) == 0) | (np.bincount(of[fresh], minlength=count) < HEADED_LEAST)[of])
    uneven = (others & ((length % size[of] != 0) | (length <= 0)) for size in (known.limit, known.cap))
    multiples = [np.bincount(of[one], minlength=count) == 0 for one in uneven]
    # A frame with a size between the two offers is several segments only if other frames were merged as well.
    agreed = multiples[0] & ((largest <= known.limit) | merged)
    counted = np.where(agreed, known.limit, np.where(raised, largest, known.cap))
    return _Sizes(np.maximum(counted, 1), (agreed | multiples[1]) & ~raised, merged)


def _pauses(found: Connections, row: Column, of: Column) -> Column:
    """Return how long after the row before its sender sent each data row, by its own clock where that is shown; ns.

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
    """Return each connection's first client row that acknowledges server data (`row`, of connections `of`); -1: none.

    One that acknowledges data, or repeats an acknowledgement after data passed: it lets data out as well (RFC 3042).
    """
    flags, length = found.rows.flags, found.rows.length
    data = np.full(found.total, len(found.of), np.int64)
    data[of[::-1]] = row[::-1]
    plain = (length == 0) & ((flags & (SYN | FIN | RST)) == 0)
    later = plain & (np.arange(len(found.of)) > data[found.of])
    # One that was overtaken by the request shows nothing: it was sent before.
    ours = np.flatnonzero(~found.server)
    sent = running(found.seq[ours] + length[ours], found.of[ours])
    later[ours] &= found.seq[ours] >= sent
    rows = np.flatnonzero(~found.server & ((found.ack > 1) | later))
    return leader(found.of, rows, found.total)


def _stamp_before(found: Connections, ack: Column) -> tuple[Column, Column]:
    """Return (whether the client's clock had moved on when it sent that ACK: else its stamp distinguishes nothing; its
    latest stamp before, or the one before the ACK's)."""
    rows = found.rows
    earlier = np.flatnonzero(~found.server & (np.arange(len(found.of)) < ack[found.of]) & ((rows.bits & STAMPED) != 0))
    last = np.full(found.total, -1, np.int64)
    last[found.of[earlier]] = earlier
    stamp = np.where(last < 0, rows.tsval[ack] - np.uint32(1), rows.tsval[np.maximum(last, 0)])
    return stamp != rows.tsval[ack], stamp


class _Marks(NamedTuple):
    """Data rows of servers (the first five, `again`), and by connection the measurements of the flight."""

    row: Column
    of: Column
    start: Column
    end: Column
    begin: Column
    after: Column
    stop: Column
    top: Column
    size: _Sizes
    ack_at: Column
    again: Column
    missing: Column


def _proofs(found: Connections, known: HandshakeFacts, marks: _Marks) -> Column:
    """Return which of `PROOFS` holds; the later assignments are the graver."""
    rows, count = found.rows, found.total
    proof = np.full(count, PROOFS.index("ack-clocked"))
    if len(marks.row):
        last = np.clip(marks.stop - 1, 0, len(marks.row) - 1)
        following = np.clip(marks.stop, 0, len(marks.row) - 1)
        more = (marks.stop < marks.after) & (marks.end[following] > marks.top)
        proof[~more] = PROOFS.index("unverified")
        next_at = rows.at[marks.row[following]]
        pause = next_at - rows.at[marks.row[last]]
        slack = np.minimum(LATE_SHARE * known.rtt, LATE_NS)
        late = marks.ack_at + (LATE * known.rtt_server + slack).astype(np.int64)
        prompt = (next_at >= marks.ack_at) & (next_at <= late) & (pause >= SILENCE * known.rtt)
        proof[more & (~prompt | (known.rtt <= 0))] = PROOFS.index("server-paced")
        proof[more & (known.rtt > 0) & (known.rtt < SHORT_PATH_NS)] = PROOFS.index("short-path")
        proof[more & _client_spoke(found, marks.row[last], marks.row[following])] = PROOFS.index("client-data")
        # A server with a queue sends full segments: a short one was held back until the ACK, or written after it.
        short = ~marks.size.full | (more & (rows.length[marks.row[following]] < marks.size.counted))
        proof[short] = PROOFS.index("short-segment")
        finished = np.zeros(count, bool)
        fins = np.flatnonzero((rows.flags[marks.row] & FIN) != 0)
        finished[marks.of[fins[fins < marks.stop[marks.of[fins]]]]] = True
        proof[finished | (~more & short)] = PROOFS.index("response-ended")
        proof[np.bincount(marks.of[marks.again], minlength=count) > 0] = PROOFS.index("repeated")
        # A hole within the flight, or behind it: its tail may be missing.
        proof[marks.missing | (more & (marks.start[following] > marks.top))] = PROOFS.index("lost")
        proof[(known.room > 0) & (marks.top - 1 + marks.size.counted > known.room)] = PROOFS.index("window-limited")
    proof[(marks.stop == marks.begin) | (marks.top <= 1) | _orphans(marks)] = PROOFS.index("beginning-lost")
    proof[marks.after == marks.begin] = PROOFS.index("no-data")
    ways = [np.bincount(found.of[found.server == side], minlength=count) for side in (True, False)]
    proof[known.cut] = PROOFS.index("options-cut")
    proof[~known.whole] = PROOFS.index("no-handshake")
    proof[np.minimum(*ways) == 0] = PROOFS.index("one-sided")
    return proof


def _stays(found: Connections, marks: _Marks, old: Column, rtt_ns: int, connection: int) -> bool:
    """Return whether a server sends much more data but never has more in flight than at first (`JUDGED`, `GROWN`).

    A congestion window grows with each acknowledgement (RFC 5681 3.1). A send buffer does not, nor do the portions of
    a program that writes its page in pieces. A loss ends the growth, so only data before the first loss counts.
    """
    part = slice(int(marks.stop[connection]), int(marks.after[connection]))
    start, end, at = marks.start[part], marks.end[part], found.rows.at[marks.row[part]]
    flight = int(marks.top[connection]) - 1
    whole = np.ones(len(end), bool)
    whole[1:] = start[1:] == end[:-1]
    torn = np.flatnonzero(old[part] | ~whole)
    upto = int(torn[0]) if len(torn) else len(end)
    if not upto:
        return False
    # On a bottleneck the ACKs of one flight take longer than a round trip: the unacknowledged bytes show the growth.
    if int((end[:upto] - _acknowledged(found, marks.row[part][:upto], connection)).max()) > GROWN * flight:
        return False
    following, size = int(end[upto - 1]) - int(start[0]), int(marks.size.counted[connection])
    trip = int(EARLY * rtt_ns)
    first = np.searchsorted(at[:upto], at[:upto] - trip, "right")
    most = int((end[:upto] - start[np.minimum(first, np.arange(upto))]).max())
    soon = int(end[int(np.searchsorted(at[:upto], at[0] + trip, "right")) - 1]) - int(start[0])
    # Bytes that fit into one more flight come at once; more bytes come in flights that grow.
    kept_back = soon + size < min(flight, following)
    return kept_back or (most <= GROWN * flight if following > GROWN * flight else most + size < following)


def _acknowledged(found: Connections, row: Column, connection: int) -> Column:
    """Return the client's highest ACK in the capture before each of these rows of the server.

    The server knows of no more than that, wherever the capture stood, so bytes beyond it were in flight.
    """
    begin, end = int(found.begin[connection]), int(found.end[connection])
    ours = begin + np.flatnonzero(~found.server[begin:end])
    acks = np.maximum.accumulate(np.append(1, found.ack[ours]))
    highest: Column = np.maximum(acks[np.searchsorted(ours, row)], 1)
    return highest


def _client_spoke(found: Connections, last: Column, following: Column) -> Column:
    """Return whether the client sent data before row `following` that the server had not acknowledged in row `last`.

    The row `following` may then be the answer to this data, and not be due to an ACK.

    last, following   rows of the server: the last of the first flight, and the next; one of each by connection
    """
    rows = found.rows
    ours = np.flatnonzero(~found.server & ((rows.flags & RST) == 0))
    if not len(ours):
        return np.zeros(len(last), bool)
    of = found.of[ours]
    reach = running(found.seq[ours] + rows.length[ours] + ((rows.flags[ours] & FIN) != 0), of)
    place = np.maximum(np.searchsorted(ours, following) - 1, 0)
    spoke: Column = (of[place] == found.of[following]) & (ours[place] < following) & (reach[place] > found.ack[last])
    return spoke


def _orphans(marks: _Marks) -> Column:
    """Return whether all there is of a flight is one row that does not begin the stream.

    Its delay after the beginning is unknown, so it may have been a probe, or data that an ACK released.
    """
    first = np.clip(marks.begin, 0, max(len(marks.row) - 1, 0))
    later = marks.start[first] > 1 if len(marks.row) else marks.stop < 0
    orphan: Column = (marks.stop == marks.begin + 1) & later
    return orphan
