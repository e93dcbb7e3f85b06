# SPDX-License-Identifier: MIT
"""Initial congestion window, from captured connections that no probe opened.

Question   How many segments did the server send before it could have heard one ACK of its data?
Method     With timestamps: count the server's segments whose echo (TSecr) is older than the stamp (TSval) of the
           client's first ACK of that data. This holds wherever the capture stood. Without: count the segments that
           passed until nine tenths of a round trip (capture to server) after that ACK; after the ACK, only up to the
           first pause. The round trip is the connection's shortest, since handshakes are often slower than the path.
           The path may be faster still (a proxy that connects first, and then fetches, is slow both times), so a bound
           counts only what passed before that ACK.
Stop when  the first segment that an ACK may have released, or a pause of a round trip.
Reads as   Exact (C) only if the window ended the flight, not the server. That needs all of these. Every segment has the
           agreed size (the smaller MSS option, less the options in use); one before the last may be short.
           Nothing was retransmitted. The client's window had room for one more segment. Another full segment came
           just when the first ACK could release it, and the client sent no new data before it. Else a lower bound
           (L): the flight's bytes in segments of the largest size that the client takes. This bound holds for stacks
           that count bytes, too.
Fails as   no-handshake (without its SYN no flight is known to be the first), one-sided, no-data, options-cut (a
           capture cut so short that the largest segment is unknown); synack-repeated: the window may have been
           cut to one segment (RFC 5681 3.1), so a longer flight is a bound.
           A segment that the server sent a round trip after the one before does not belong to the flight: it may be a
           tail loss probe.
           The server sends on, but never has more in flight than at first, or keeps back what the ACKs let out (each
           a segment more than it acknowledges), as with writes under Nagle: no-growth, a bound. The same if it sends
           more than the ACKs allow, or before any ACK of new data: its window is larger. With timestamps, only ACKs up
           to the one that the server echoes count.
           A program that writes its next piece (Nagle) just when the ACK comes looks like a window. One connection (C)
           does not exclude this; two that agree (B) make it unlikely.
           The flight's last segment has PSH, which a stack sets when nothing more is queued. The server wrote no more,
           and the last segment is full by chance: server-paced. Some stacks push for another reason (each segment,
           or where a long write fills half of the largest window): then a window is no more than a bound.
           On a path shorter than a millisecond an ACK and the server's own pace look the same: short-path, a bound.
Differs    from counting segments before the client's first ACK: a capture at the client shows that ACK while half of
           the flight is still on its way; and a frame that offloading merged counts as several segments here. From
           taking the largest segment seen for the MSS: a server that waits for answers (TLS) may never send a full one.
Source     RFC 6928; RFC 7323 section 3; RFC 5681 3.1; RFC 6691 (options count against the MSS); RFC 896 (Nagle);
           RFC 9293 3.9.1.2 (PSH on the last segment)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import STAMPED, Column
from configtron.fingerprint.passive.connections import Connections, edges, highest, leader, running
from configtron.fingerprint.passive.retransmissions import Sent
from configtron.model.nouns import FIN, PSH, RST, SYN

# Data that the ACK released passes one round trip (capture to server) after it; a tenth less for jitter.
EARLY = 0.9
# Fresh data that follows the flight's last segment within this share of a round trip did not wait for the ACK.
SILENCE = 0.5
# Fresh data that comes later than the ACK would release it did not wait for the ACK either. Tolerance: a quarter of
# the round trip for jitter; 10 ms for a busy host, but at most half a round trip.
LATE, LATE_NS, LATE_SHARE = 1.25, 10_000_000, 0.5
# On a shorter round trip than this, waiting for an ACK looks like a scheduling delay of either host.
SHORT_PATH_NS = 1_000_000
# Without timestamps, a pause after the first ACK ends the flight if it is at least this share of the round trip and at
# least this many times the longest pause before that ACK: the ACK may have released what follows.
PAUSE_SHARE, PAUSE_TIMES = 0.1, 3
# The tick of the timestamp clock of stacks that send tail loss probes (Linux, Windows, FreeBSD).
TICK_NS = 1_000_000
# The shortest pause before a last segment that makes it a possible probe: two round trips of 5 ms.
PROBE_NS = 10_000_000
# No stack sends a probe sooner (tcp_schedule_loss_probe() of Linux: two round trips and TCP_TIMEOUT_MIN).
SOON_NS = 2_000_000
# Once a server has sent JUDGED times the bytes of its first flight, its window is at least GROWN times that flight.
JUDGED, GROWN = 4, 1.25
# First data rows of a connection that are read at first: they nearly always hold its first flight, and always a later
# one (`ROWS_MOST`).
HEAD = 256
# The MSS of a SYN without the option (RFC 9293 3.7.1).
DEFAULT_MSS = 536
# Bytes of options in every segment once timestamps are agreed (RFC 7323 appendix A, with padding).
STAMP_BYTES = 12
# ACKs let a segment out, but it leaves this share of a round trip after the one before: it waited for the program.
WAIT = 0.3
# The time (ns) of what does not come.
NEVER = np.iinfo(np.int64).max // 2
PROOFS = (
    "ack-clocked", "response-ended", "short-segment", "server-paced", "client-data", "short-path", "window-limited",
    "repeated", "lost", "no-growth", "unverified",
    "no-handshake", "one-sided", "no-data", "beginning-lost", "options-cut",
)  # fmt: skip
# The proof of an exact window. From `NONE` on, a flight has no value.
PROVEN = "ack-clocked"
NONE = PROOFS.index("no-handshake")


class Flights(NamedTuple):
    """The first flight of each connection.

    segments, size, mss   number of segments, number of bytes, and the segment size (bytes) that it is counted in
    proof                 index into `PROOFS`
    stamped               whether timestamps decide which segments belong to it
    first, last           its first and last row
    merged                whether offloading merged frames
    sack                  whether both sides agreed on SACK
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
    sack: Column
    synack_again: Column


class HandshakeFacts(NamedTuple):
    """The handshake of each connection.

    whole             both SYNs were captured
    cut               the capture cut off TCP options
    rtt, rtt_server   round trip between client and server, and between the capture and the server (ns); 0: unknown
    limit, cap        largest payload (bytes, without timestamps): by the smaller MSS offer; by the client's MSS offer
    floor             the client offers an MSS of 536 or less; some servers then still send 536
    room              the client's window (bytes); 0: unknown
    sack              both sides agreed on SACK
    synacks           SYN-ACKs that were captured
    """

    whole: Column
    cut: Column
    rtt: Column
    rtt_server: Column
    limit: Column
    cap: Column
    floor: Column
    room: Column
    sack: Column
    synacks: Column


def first_flights(found: Connections, sent: Sent, known: HandshakeFacts, head: int = HEAD) -> Flights:
    """Read every connection's first flight. `sent`: by the server; `head`: data rows of each to read first."""
    rows, count = found.rows, found.total
    data = np.flatnonzero(rows.length[sent.row] > 0)
    row, of = sent.row[data], sent.of[data]
    # A FIN takes a sequence number, but it is no byte of the flight.
    start, old = sent.start[data], sent.old[data]
    end = sent.end[data] - ((rows.flags[row] & FIN) != 0)
    length = rows.length[row].astype(np.int64)
    largest, honoured = highest(of, length, count, 0), np.bincount(of[length == known.cap[of]], minlength=count) > 0
    all_row, all_start, all_end, all_old, (all_begin, all_after) = row, start, end, old, edges(of, count)
    begin, after = all_begin, all_after
    if (longer := after - begin > head).any():
        near = np.flatnonzero(np.arange(len(of)) < (begin + head)[of])
        row, of, start, end, old, length = (column[near] for column in (row, of, start, end, old, length))
        begin, after = edges(of, count)
    acked = _first_acks(found, row, of)
    heard = acked >= 0
    place = np.maximum(acked, 0)
    ack_at = np.where(heard, rows.at[place] if rows.size else 0, NEVER)
    ticked, stamp = _stamp_before(found, place) if rows.size else (heard, heard)
    stamped = heard & ((rows.bits[place] & STAMPED) != 0) & ticked if rows.size else heard
    by_time = rows.at[row] < ack_at[of] + (EARLY * known.rtt_server[of]).astype(np.int64)
    # A segment whose echo is between the two stamps answers an ACK that the capture missed. The segment with the first
    # byte of the stream answers none: its echo may raise the limit.
    limit = stamp[of]
    if len(of):
        opening = np.where(start[begin[of]] == 1, rows.tsecr[row[begin[of]]], limit)
        limit = np.where((opening - limit).view(np.int32) > 0, opening, limit)
    echo = (rows.tsecr[row] - limit).view(np.int32) if len(of) else by_time
    flying = np.where(stamped[of] & ((rows.bits[row] & STAMPED) != 0), echo <= 0, by_time)
    pause, ticked = _pauses(found, row, of)
    probing = flying & (known.rtt[of] > 0) & (pause >= known.rtt[of])
    behind = rows.at[row] > ack_at[of]
    pace = np.maximum(PAUSE_SHARE * known.rtt_server, PAUSE_TIMES * highest(of, np.where(behind, 0, pause), count, 0))
    # If the handshake is much slower than the path, a probe may come within the handshake's round trip.
    slow = (known.rtt[of] > 0) & (pause >= np.maximum(SILENCE * known.rtt[of], PROBE_NS))
    probing |= flying & ~stamped[of] & np.where(behind, pause >= np.maximum(pace, 1)[of], slow)
    flying &= ~probing
    # The first segment outside ends the flight.
    stop = np.minimum.reduceat(np.append(np.where(flying, len(of), np.arange(len(of))), len(of)), begin)[:count]
    stop = np.where(after > begin, np.minimum(stop, after), begin)
    near_end = (stop >= after - 2) | ~np.append(behind, False)[after - 1]
    if longer.any() and (longer & (near_end | found.stepped)).any():
        return first_flights(found, sent, known, len(all_row))
    # A lone last segment may be a tail loss probe, if the server measured a shorter round trip than we did.
    # If the capture stands behind a slow link, only the sender's timestamps show the pause.
    final = np.maximum(stop - 1, 0)
    before = np.arange(len(of)) < final[of]
    usual = [PAUSE_TIMES * highest(of, np.where(before, some, 0), count, 0) for some in (ticked, pause)]
    alone = stop > begin + 1
    if len(of):
        alone &= (
            (pause[final] >= PROBE_NS) | (ticked[final] > usual[0]) | (pause[final] > np.maximum(usual[1], SOON_NS))
        )
    probing[stop[alone] - 1] = True
    stop = stop - alone
    inside = np.arange(len(of)) < stop[of]
    fresh = inside & ~old
    top = highest(of, np.where(inside, end, 0), count, 0)
    size = _sizes(known, length, of, fresh, largest, honoured)
    missing = np.maximum(top - 1, 0) - np.bincount(of[fresh], length[fresh], count).astype(np.int64)
    last = np.maximum(stop - 1, 0)
    marks = _Marks(row, of, start, end, begin, after, stop, top, size, ack_at, old & inside, missing > 0)
    proof = _proofs(found, known, marks)
    if len(of):
        following = np.minimum(stop, len(of) - 1)
        stopped = (stop < after) & probing[following]
        # A stack with no more to send pushes its last segment (RFC 9293 3.9.1.2).
        stopped |= (rows.flags[row[last]] & PSH) != 0
        # The wait for the ACK must be at least the longest pause in the flight, without timestamps `PAUSE_TIMES` it.
        # A flight of one segment has no pause: the pause after the next segment counts instead.
        beyond = np.minimum(stop + 1, len(of) - 1)
        lone = (stop == begin + 1) & ~stamped
        stopped |= lone & ((beyond >= after) | (length[beyond] < size.counted))
        most = np.maximum(highest(of, np.where(inside, pause, 0), count, 0), np.where(lone, pause[beyond], 0))
        stopped |= pause[following] < np.where(stamped, most, PAUSE_TIMES * most)
        proof[stopped & (proof == PROOFS.index(PROVEN))] = PROOFS.index("server-paced")
    # From here on row, start, end, stop and after count all data rows; the other members still count the head.
    marks = marks._replace(row=all_row, start=all_start, end=all_end, after=all_after, stop=stop - begin + all_begin)
    for one in np.flatnonzero(proof == PROOFS.index(PROVEN)).tolist():
        trips, room = (int(known.rtt[one]), int(known.rtt_server[one])), int(known.room[one])
        if _grows_otherwise(found, marks, all_old, trips, room or 1 << 40, one, stamped=bool(stamped[one])):
            proof[one] = PROOFS.index("no-growth")
    # Only an ACK that released data confirms a round trip.
    before_ack = highest(of, np.where(inside & (rows.at[row] <= ack_at[of]), end, 0), count, 0)
    unsure = ~stamped & (proof != PROOFS.index(PROVEN)) & (before_ack > 1)
    top = np.where(unsure, before_ack, top)
    segments = -(-np.maximum(top - 1, 0) // size.counted)
    first = row[np.minimum(begin, max(len(row) - 1, 0))] if len(row) else begin
    last_row = row[np.minimum(last, max(len(row) - 1, 0))] if len(row) else begin
    again = known.synacks > 1
    bounds = segments, np.maximum(top - 1, 0), size.counted
    return Flights(*bounds, proof, stamped, first, last_row, size.merged, known.sack, again)


class _Sizes(NamedTuple):
    """Segment sizes of each connection.

    counted   the segment size (bytes) that the flight is counted in
    full      whether all segments of the flight have that size
    merged    whether offloading merged frames
    """

    counted: Column
    full: Column
    merged: Column


def _sizes(
    known: HandshakeFacts, length: Column, of: Column, fresh: Column, largest: Column, honoured: Column
) -> _Sizes:
    """Return the segment sizes of each connection.

    length, of   payload bytes and connection of each row with server data
    fresh        which of these rows belong to the first flight
    largest      of each connection: payload bytes of its largest row; honoured: whether any row has just `cap`

    No segment is larger than the client's MSS allows (`cap`). One exception: some servers send 536 bytes even if the
    client offers less. Offloading merged every other larger frame. A server that offers a smaller MSS than the client
    usually sends segments of its own size; the flight then consists of multiples of it.
    """
    count = len(known.cap)
    merged = (largest > known.cap) & (~known.floor | honoured)
    raised = (largest > known.cap) & ~merged
    # A short segment, such as a response head that the server wrote separately, takes one segment of the window. If
    # there is one at most, and the last is full, counting bytes gives the same number of segments.
    final = np.full(count, len(of))
    final[of[fresh]] = np.flatnonzero(fresh)
    uneven = [fresh & (length % size[of] != 0) for size in (known.limit, known.cap)]
    multiples = [(np.bincount(of[one], minlength=count) <= 1) & ~np.append(one, False)[final] for one in uneven]
    # A frame whose size is between the two offers counts as several segments only if other frames were merged.
    agreed = multiples[0] & ((largest <= known.limit) | merged)
    counted = np.where(agreed, known.limit, np.where(raised, largest, known.cap))
    return _Sizes(np.maximum(counted, 1), (agreed | multiples[1]) & ~raised, merged)


def _pauses(found: Connections, row: Column, of: Column) -> tuple[Column, Column]:
    """Return the sender's pause before each data row (ns): as captured or, if longer, by its timestamps; and that by
    timestamps alone, 0 below two ticks.

    Data after a pause of a round trip is outside the flight: it may be a tail loss probe (RFC 8985 7.3), which the
    window does not limit.
    """
    rows = found.rows
    pauses, ticked = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
    if len(row) < 2:
        return pauses, ticked
    both = (rows.bits[row[1:]] & rows.bits[row[:-1]] & STAMPED) != 0
    ticks = (rows.tsval[row[1:]] - rows.tsval[row[:-1]]).view(np.int32).astype(np.int64)
    same = of[1:] == of[:-1]
    # One tick may pass at any moment.
    ticked[1:] = np.where(same & both & (ticks > 1), ticks * TICK_NS, 0)
    pauses[1:] = np.where(same, np.maximum(ticked[1:], rows.at[row[1:]] - rows.at[row[:-1]]), 0)
    return pauses, ticked


def _first_acks(found: Connections, row: Column, of: Column) -> Column:
    """Return each connection's first client row that acknowledges server data; -1: none.

    A duplicate ACK after server data counts too, since it can release data (RFC 3042).

    row, of   rows with server data, and the connection of each
    """
    flags, length = found.rows.flags, found.rows.length
    data = np.full(found.total, len(found.of), np.int64)
    data[of[::-1]] = row[::-1]
    plain = (length == 0) & ((flags & (SYN | FIN | RST)) == 0)
    later = plain & (np.arange(len(found.of)) > data[found.of])
    # An ACK that the request overtook shows nothing: the client sent it before the request.
    ours = np.flatnonzero(~found.server)
    sent = running(found.seq[ours] + length[ours], found.of[ours])
    later[ours] &= found.seq[ours] >= sent
    rows = np.flatnonzero(~found.server & ((found.ack > 1) | later))
    return leader(found.of, rows, found.total)


def _stamp_before(found: Connections, ack: Column) -> tuple[Column, Column]:
    """Return (whether the client's latest stamp before that ACK differs from the ACK's; that latest stamp).

    If both are equal, the stamps cannot tell what the ACK released. Without an earlier stamp: the ACK's, less one tick.
    """
    rows = found.rows
    earlier = np.flatnonzero(~found.server & (np.arange(len(found.of)) < ack[found.of]) & ((rows.bits & STAMPED) != 0))
    last = np.full(found.total, -1, np.int64)
    last[found.of[earlier]] = earlier
    stamp = np.where(last < 0, rows.tsval[ack] - np.uint32(1), rows.tsval[np.maximum(last, 0)])
    return stamp != rows.tsval[ack], stamp


class _Marks(NamedTuple):
    """Where each first flight stands among the data rows of servers.

    row, of, start, end   of each data row: its row and connection, its first sequence number and the one after its last
    again                 of each data row: whether it repeats data within the flight
    begin, stop, after    of each connection: data rows at which it begins, its flight stops, and it is over
    top                   of each connection: the sequence number after the flight's last byte
    size, ack_at          of each connection: segment sizes; time of the first ACK of data (ns)
    missing               of each connection: whether bytes of the flight were not captured
    """

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
    """Return the proof of each connection (index into `PROOFS`); a later assignment overrides an earlier one."""
    rows, count = found.rows, found.total
    proof = np.full(count, PROOFS.index(PROVEN))
    if len(marks.row):
        last = np.clip(marks.stop - 1, 0, len(marks.row) - 1)
        following = np.clip(marks.stop, 0, len(marks.row) - 1)
        more = (marks.stop < marks.after) & (marks.end[following] > marks.top)
        proof[~more] = PROOFS.index("unverified")
        next_at = rows.at[marks.row[following]]
        pause = next_at - rows.at[marks.row[last]]
        slack = np.clip(LATE_SHARE * known.rtt_server, SHORT_PATH_NS, LATE_NS)
        late = marks.ack_at + (LATE * known.rtt_server + slack).astype(np.int64)
        prompt = (next_at >= marks.ack_at) & (next_at <= late) & (pause >= SILENCE * known.rtt)
        proof[more & (~prompt | (known.rtt <= 0))] = PROOFS.index("server-paced")
        proof[more & (known.rtt > 0) & (known.rtt < SHORT_PATH_NS)] = PROOFS.index("short-path")
        proof[more & _client_spoke(found, marks.row[last], marks.row[following])] = PROOFS.index("client-data")
        # A server with queued data sends full segments. A short one was held until the ACK (Nagle), or written later.
        short = ~marks.size.full | (more & (rows.length[marks.row[following]] < marks.size.counted))
        proof[short] = PROOFS.index("short-segment")
        finished = np.zeros(count, bool)
        fins = np.flatnonzero((rows.flags[marks.row] & FIN) != 0)
        finished[marks.of[fins[fins < marks.stop[marks.of[fins]]]]] = True
        proof[finished | (~more & short)] = PROOFS.index("response-ended")
        proof[np.bincount(marks.of[marks.again], minlength=count) > 0] = PROOFS.index("repeated")
        # Bytes are missing in the flight, or behind it (its tail may be lost).
        proof[marks.missing | (more & (marks.start[following] > marks.top))] = PROOFS.index("lost")
        proof[(known.room > 0) & (marks.top - 1 + marks.size.counted > known.room)] = PROOFS.index("window-limited")
    proof[(marks.stop == marks.begin) | (marks.top <= 1) | _lone_later_rows(marks)] = PROOFS.index("beginning-lost")
    proof[marks.after == marks.begin] = PROOFS.index("no-data")
    served = np.add.reduceat(found.server, found.begin, dtype=np.int64) if count else found.begin
    proof[known.cut] = PROOFS.index("options-cut")
    proof[~known.whole] = PROOFS.index("no-handshake")
    proof[(served == 0) | (served == found.end - found.begin)] = PROOFS.index("one-sided")
    return proof


def _grows_otherwise(
    found: Connections, marks: _Marks, old: Column, trips: tuple[int, int], room: int, connection: int, *, stamped: bool
) -> bool:
    """Return whether a server sends more than a window of its first flight's size lets out, or keeps back what such a
    window lets out: then its program or its send buffer limits it. `trips`: whole round trip, and that to the server
    (ns); `room`: the client's window (bytes); `stamped`: whether an echo names the latest ACK that the server had.

    Each ACK lets out what it acknowledges and at least a segment more, at most twice what it acknowledges (RFC 5681
    3.1). After a loss a window shrinks, so only what leaves up to the first repeat counts.
    """
    part = slice(int(marks.stop[connection]), int(marks.after[connection]))
    rtt_ns, rtt_server_ns = trips
    row, end = marks.row[part], np.maximum.accumulate(marks.end[part])
    at = found.rows.at[row]
    # What follows a hole was sent before the server could know of the loss, for a round trip.
    hole = np.append(at[1:][marks.start[part][1:] > end[:-1]], NEVER)[0]
    upto = int(np.argmax(np.append(old[part] | (at > hole + LATE * rtt_ns), True)))
    row, end, at, length = (column[: upto + 1] for column in (row, end, at, found.rows.length[row]))
    lost = (at >= hole) | (np.arange(len(at)) == upto)
    flight, size = int(marks.top[connection]) - 1, int(marks.size.counted[connection])
    # Jitter lengthens the round trip to the server; this must not hide ACKs that the server had.
    early_ns = int(EARLY * max(2 * rtt_server_ns - rtt_ns, 0))
    # Until the server acknowledges new data, it echoes the stamp of the client's latest ACK (RFC 7323 4.3).
    echoes = found.ack[row] == found.ack[marks.row[part.start - 1]]
    echoes &= stamped & ((found.rows.bits[row] & STAMPED) != 0)
    acked, _ = _acknowledged(found, row, connection, at - early_ns, echoes)
    # Each acknowledged segment, a short head too, releases two segments.
    most = flight + 2 * acked + np.where(acked > 0, 2 * (-flight % size), 0)
    if not acked[0] or ((end - 1 > most) & ~lost).any():
        return True
    # More data follows a short segment without a further request, though nothing waits behind a full queue.
    same = found.ack[row[1:]] == found.ack[row[:-1]]
    short = (length % size != 0) & (end <= JUDGED * flight)
    if (short[:-1] & same).any():
        return True
    unacked = end - 1 - _acknowledged(found, row, connection, at - int(EARLY * rtt_server_ns))[0]
    if end[-1] - 1 > (1 + GROWN) * flight and unacked[~lost].max(initial=0) <= GROWN * flight:
        return True
    acked, acks = _acknowledged(found, row[1:], connection, at[1:] - int(rtt_server_ns + WAIT * rtt_ns))
    let = acked + np.minimum(flight + acks * size, room)
    waited = (at[1:] - at[:-1] > WAIT * rtt_ns) & (end[:-1] - 1 + np.minimum(size, length[1:]) <= let)
    # The last bytes of all may wait for an ACK (Nagle).
    waited &= (length[1:] % size == 0) | (np.arange(1, len(at)) < len(marks.row[part]) - 1)
    return bool((waited & same & (end[:-1] <= JUDGED * flight)).any())


def _acknowledged(
    found: Connections, row: Column, connection: int, at: Column, echoes: Column | bool = False
) -> tuple[Column, Column]:
    """Return the bytes that the client acknowledged in the capture before each of these rows of the server, and up to
    these times (`at`: ns); and how many ACKs did so. Where `echoes` holds, no ACK counts whose stamp is later
    than the echoed one.

    Wherever the capture stood, the server had seen no later ACK, so all bytes beyond it were in flight.
    """
    begin, end = int(found.begin[connection]), int(found.end[connection])
    ours = begin + np.flatnonzero(~found.server[begin:end])
    acks = np.maximum.accumulate(np.append(1, found.ack[ours]))
    place = np.minimum(np.searchsorted(ours, row), np.searchsorted(found.rows.at[ours], at, "right"))
    if np.any(echoes):
        base, bare = found.rows.tsval[ours[0]], (found.rows.bits[ours] & STAMPED) == 0
        stamps = np.where(bare, np.iinfo(np.int32).min, (found.rows.tsval[ours] - base).view(np.int32))
        echoed = np.searchsorted(np.maximum.accumulate(stamps), (found.rows.tsecr[row] - base).view(np.int32), "right")
        place = np.where(echoes, np.minimum(place, echoed), place)
    return acks[place] - 1, np.cumsum(np.diff(acks, prepend=1) > 0)[place]


def _client_spoke(found: Connections, last: Column, following: Column) -> Column:
    """Return whether the client sent data before row `following` that the server had not acknowledged in row `last`.

    The row `following` may then answer this data: no ACK need have released it.

    last, following   for each connection, the last row of the first flight and the server's next row
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


def _lone_later_rows(marks: _Marks) -> Column:
    """Return whether the flight is a single row that does not begin the stream.

    The beginning was lost. The delay after it is unknown, so the row may be a probe, or data that an ACK released.
    """
    first = np.clip(marks.begin, 0, max(len(marks.row) - 1, 0))
    later = marks.start[first] > 1 if len(marks.row) else marks.stop < 0
    orphan: Column = (marks.stop == marks.begin + 1) & later
    return orphan
