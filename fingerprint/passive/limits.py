# SPDX-License-Identifier: MIT
"""Rows -> each connection's time, shared out by what limited it.

Question   Why did this connection take so long: who or what was waited for, and for how long?
Method     The rows are put into the order in which the main sender (of more bytes) saw them: what the other side sent
           comes later by the round trip from here to that sender. Between two rows the connection waits for the next
           data. What it waits for is read from the state at the sender (unacknowledged bytes, room in the window, who
           spoke last, repeats not yet acknowledged) and from the data that ended the wait:
             handshake        until the client's first segment that is no SYN
             path-mtu         repeats of full segments, none of which arrived, while smaller ones did
             timeout, tail-probe, fast-retransmit, loss   before a repeat of that cause, and until the other side
                              acknowledges what was outstanding at the repeat (loss: no cause was captured)
             receive-window   no room for the next segment
             server, client   nothing outstanding, and it is that side's turn
             congestion       new data as soon as an ACK came, or full segments spaced within a round trip
             sender           new data that no ACK released: the application, or its send buffer, had no more
             round-trip       the last bytes, or a request, are on their way
             end              all data is acknowledged, none follows
Stop when  the connection's last row; so the shares add up to its duration in whole nanoseconds.
Reads as   columns `limit_NAME_PART` over connections. They add up over the parts of a long connection. `limits` grades
           them.
Fails as   `unknown` for what was never acknowledged, and while the smaller sender has data outstanding. A capture
           behind a path MTU hole does not show the lost segments: the wait is `server`. If an answer was slow and lost
           its first segment too, the wait is `server`. A connection of more packets than are kept at once is read in
           parts. What a later part shows (a shorter round trip, a larger share of the flight delivered) changes no wait
           of an earlier one. The sum stays exact.
Differs    from T-RAT, which guesses flights from one direction and calls one limit for a whole connection: flights blur
           where segments are paced. From Siekkinen and others, who compare scores with thresholds: here each wait has
           its evidence. As in both, where both windows end at the same byte, the receive window is named; and a fixed
           congestion window (of a route, or BBR's at its rate) looks like a send buffer. Away from the sender, the
           jitter of the path blurs what released data, and the sender's timers are not seen: losses are read from its
           repeats, and before them from gaps in the IPv4 identification of its packets (grade L).
Source     Zhang, Breslau, Paxson, Shenker, On the Characteristics and Origins of Internet Flow Rates, SIGCOMM 2002
           (T-RAT); Siekkinen, Urvoy-Keller, Biersack, En-Najjary, Root Cause Analysis for Long-Lived TCP Connections,
           CoNEXT 2005
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from configtron.fingerprint.passive.columns import ABSENT, COUNTED, SACKED, Column
from configtron.fingerprint.passive.connections import NEVER, Connections, Shares, before, highest, leader, running
from configtron.fingerprint.passive.first_flight import STAMP_BYTES
from configtron.fingerprint.passive.retransmissions import CAUSES, PROBE_RTTS, TIMER_NS, Retransmissions, Sent
from configtron.model.nouns import FIN, RST, SYN

# What a connection waits for. `unknown`: the packets do not tell.
LIMITS = ("handshake", "server", "client", "receive-window", "sender", "congestion", "timeout", "tail-probe",
          "fast-retransmit", "loss", "path-mtu", "round-trip", "end", "unknown")  # fmt: skip
(HANDSHAKE, SERVER, CLIENT, WINDOW, SENDER, CONGESTION, TIMEOUT, PROBE, FAST, LOSS, MTU, TRIP, END,
 UNKNOWN) = range(len(LIMITS))  # fmt: skip
# The limit of a repeat, by its cause.
OF_CAUSE = np.array([{"rto": TIMEOUT, "tlp": PROBE, "fast": FAST}.get(cause, LOSS) for cause in CAUSES])
# Columns of each limit: nanoseconds, how often, the first and last frame (file << 40 | number) of the evidence.
PARTS = {"ns": "sum", "times": "sum", "first": "min", "last": "max"}
# After the earlier parts of a connection: the main sender's largest flight (bytes; `LOST_FLIGHT` after a loss), and the
# bytes acknowledged when that flight last grew, or at the first row if it never did (`ABSENT`: no earlier part).
PAST = ("limit_flight", "limit_grown")
# What the shares and their grades are read from.
_READ = ("clock", "syns", "synacks", "frag_needed", "rtt", *(
    f"{side}_{name}" for side in ("client", "server") for name in ("bytes", "zero_windows")
), "rtt_client", "rtt_server", *(f"limit_{limit}_{part}" for limit in LIMITS for part in PARTS))  # fmt: skip
# A capture is at the sender if its round trip to the sender is below this share of the whole one. Elsewhere it sees
# only a part of the waits for losses.
NEAR_SHARE = 0.1
# A round trip is divided by these. An ACK released the data that follows it within an eighth plus `SOON_NS` for the
# host. A full segment is paced if it follows the one before within a quarter plus `SOON_NS`. The other side's rows are
# delayed by the shortest round trip less a sixteenth, because of its jitter.
SOON_DIVISOR, PACED_DIVISOR, EARLY_DIVISOR = 8, 4, 16
SOON_NS = 1_000_000
# One number sorts by connection and time if the longest duration times the number of connections is below this (ns).
MOST_NS = 1 << 62
# A segment of less payload passes every path (RFC 791: 576 bytes with headers). A full segment is stuck if it was sent
# more often than `STUCK_MOST`.
LEAST_FULL, STUCK_MOST = 512, 2
# A congestion window grows before this many windows are delivered. `LOST_FLIGHT` (bytes) stands for the largest flight
# after a loss: no flight is level then.
LEVEL_FLIGHTS = 4
LOST_FLIGHT = 1 << 60
# A larger gap in the IPv4 identification is no loss. Before an answer, a gap of up to `ASKED_LOST` packets does not
# explain the delay. Frames of more payload than `PLAIN_MOST` (Ethernet's 1500 bytes less headers) may be merged.
LOST_MOST, ASKED_LOST, PLAIN_MOST = 1000, 2, 1460


T = TypeVar("T")


class Limit(NamedTuple):
    """A share of a connection's time.

    limit    one of `LIMITS`
    ns       the time, in nanoseconds; of all limits together it is the connection's duration exactly
    times    how many waits; of losses, how many repeats
    grade    "B" two kinds of evidence, "C" one, "L" at least, "N" unknown
    frames   the first and the last frame that ended such a wait (file << 40 | number)
    """

    limit: str
    ns: int
    times: int
    grade: str
    frames: tuple[int, ...]


def limits(numbers: Mapping[str, float | None]) -> tuple[Limit, ...]:
    """Return the shares of a connection's time, the largest first, from its numbers (`ConnectionReport.numbers`).

    Empty where it has no times, or no time passed, and for `live`, which does not share it out.
    """
    return limits_of({name: np.array([numbers[name] or 0]) for name in _READ if name in numbers}, limit_of)[0]


def limit_of(number: int, ns: int, times: int, grade: str, one: int, other: int) -> Limit:
    """Return a share by the number of its limit in `LIMITS` and its two frames; 0 is none."""
    return Limit(LIMITS[number], ns, times, grade, tuple(sorted({one, other} - {0})))


def limits_of(columns: Mapping[str, Column], of: Callable[[int, int, int, str, int, int], T]) -> list[tuple[T, ...]]:
    """Return for each connection what `of`, for example `limit_of`, makes of each of its `limits`."""
    count = len(columns["clock"])
    if _READ[-1] not in columns:
        return [()] * count
    ns, times, first, last = (
        np.stack([columns[f"limit_{limit}_{part}"].astype(np.int64) for limit in LIMITS], axis=1) for part in PARTS
    )
    ns[columns["clock"] > 0] = 0
    main = columns["server_bytes"] >= columns["client_bytes"]
    near = np.where(main, columns["rtt_server"], columns["rtt_client"])
    grade = np.full(ns.shape, "C")
    far = (near <= 0) | (near >= NEAR_SHARE * columns["rtt"])
    grade[far, TIMEOUT : MTU + 1] = "L"
    grade[np.maximum(columns["syns"], columns["synacks"]) > 1, HANDSHAKE] = "B"
    grade[np.where(main, columns["client_zero_windows"], columns["server_zero_windows"]) > 0, WINDOW] = "B"
    grade[columns["frag_needed"] > 0, MTU] = "B"
    grade[:, UNKNOWN] = "N"
    order = np.argsort(-ns, axis=1, kind="stable")
    some = np.take_along_axis(ns, order, axis=1) > 0
    parts = (ns, np.maximum(times, 1), grade, np.maximum(first, 0), np.maximum(last, 0))
    made = list(
        map(of, order[some].tolist(), *(np.take_along_axis(part, order, axis=1)[some].tolist() for part in parts))
    )
    ends = np.cumsum(some.sum(axis=1)).tolist()
    return [tuple(made[begin:end]) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def largest(columns: Mapping[str, Column]) -> tuple[Column, Column]:
    """Return the number in `LIMITS` of each connection's largest share, and its part of the duration (NaN: no time)."""
    none = np.zeros(len(columns["clock"]), np.int64)
    shares = np.stack([columns.get(f"limit_{limit}_ns", none) for limit in LIMITS])
    total = np.where(columns["clock"] > 0, 0, shares.sum(axis=0))
    part: Column = np.divide(shares.max(axis=0), total, out=np.full(len(total), np.nan), where=total > 0)
    return shares.argmax(axis=0), part


def share_time(
    found: Connections, sent: Sequence[Sent], again: Sequence[Retransmissions], scales: Sequence[Column],
    columns: Mapping[str, Column], shares: Shares | None = None,
) -> dict[str, Column]:  # fmt: skip
    """Return the columns of all limits, and `PAST` after these rows, over connections.

    columns               of the summary, with `PAST` after the earlier parts
    sent, again, scales   by side (client, server): its segments, its repeats, the shift of its windows (-1: unknown)
    shares                a native function that computes the same. Without it, or where it returns None, numpy does
    """
    rows = found.rows
    main = columns["server_bytes"] >= columns["client_bytes"]
    trips = [_shortest_trip(found, sent, number, columns) for number in (0, 1)]
    late = np.where(main, trips[1], trips[0])
    late -= late // EARLY_DIVISOR
    cause, alive = np.full(rows.size, -1, np.int8), np.zeros(rows.size, bool)
    for side, repeats in zip(sent, again, strict=True):
        caused = repeats.kind < len(CAUSES)
        cause[repeats.row[caused]] = repeats.kind[caused]
        alive[side.row[side.alive]] = True
    segment, offered = _segment_size(main, columns)
    facts = _Facts(
        found.begin, found.end, columns["ended"], late, np.where(np.minimum(*trips) > 0, trips[0] + trips[1], 0),
        np.where(main, scales[0], scales[1]), segment, offered * 31 // 32, main, columns["sack"] == 1,
        found.opened[:, 0] | found.opened[:, 1], columns["frag_needed"] > 0,
        # how many packets a merged frame was is not known without the MSS
        (np.maximum(columns["client_mss"], columns["server_mss"]) > 0) | (segment <= PLAIN_MOST),
    )  # fmt: skip
    seen = (
        rows.at, rows.frame, found.seq, found.ack, rows.length, rows.flags, rows.window, rows.ident, rows.bits,
        found.server, cause, alive,
    )  # fmt: skip
    past = columns[PAST[0]], columns[PAST[1]]
    parts = None if shares is None else shares(seen, facts, past, len(LIMITS))
    if parts is None:
        parts = _shares(found, facts, past, cause, alive)
    return dict(zip(PAST, parts[len(PARTS) :], strict=True)) | {
        f"limit_{limit}_{part}": values[:, number]
        for number, limit in enumerate(LIMITS)
        for part, values in zip(PARTS, parts, strict=False)
    }


class _Facts(NamedTuple):
    """What the shares of each connection need, besides its rows.

    begin, end, ended     its first row, the row after its last; time of its last segment (ns)
    late, rtt             by how much the main sender sees the other side's rows later; round trip (ns, 0: unknown)
    scale, segment        shift of the other side's windows (-1: unknown); payload of the main sender's full segments
    agreed                payload (bytes) of full segments that the sides agreed on
    main, sack            whether the server is the main sender; whether SACK was agreed
    opened, told          whether a SYN was seen; whether a router reported the path MTU
    unmerged              whether gaps in the identification show how many packets were lost
    """

    begin: Column
    end: Column
    ended: Column
    late: Column
    rtt: Column
    scale: Column
    segment: Column
    agreed: Column
    main: Column
    sack: Column
    opened: Column
    told: Column
    unmerged: Column


def _shares(
    found: Connections, facts: _Facts, past: tuple[Column, Column], cause: Column, alive: Column
) -> tuple[Column, ...]:
    """Return, by connection and limit, the columns of `PARTS`, and `past` after these rows.

    past          by connection: the columns of `PAST`
    cause, alive  of each row
    """
    rows, count, main, late = found.rows, found.total, facts.main, facts.late
    by_main = found.server == main[found.of]
    at = rows.at + np.where(by_main, 0, late[found.of])
    # the rows are nearly in order: a sort by a single number is quick
    since = np.maximum(at - rows.at[found.begin][found.of], 0)
    span = int(since.max(initial=0)) + 1
    order = np.argsort(since + found.of * span, kind="stable") if span * count < MOST_NS else np.lexsort((at, found.of))
    of, at, by_main, cause, alive = found.of[order], at[order], by_main[order], cause[order], alive[order]
    flow = _Flow(found, order, of, at, by_main, cause, alive, facts.scale, facts.segment, count)
    level, *past_now = flow.level(*past)
    flow.lost[~facts.unmerged[of]] = 0
    code = flow.codes(main, facts.rtt, facts.sack, facts.agreed, level)
    if (stuck := flow.stuck(facts.told)).any():
        code[stuck] = MTU
    opening, opened = flow.opening(main)
    # a request that the capture begins with travels to the sender
    code[found.begin[~by_main[found.begin]]] = TRIP
    code[opening] = HANDSHAKE
    counted = (rows.bits[order] & COUNTED) != 0
    shared = np.maximum(highest(of[counted], rows.at[order][counted], count, 0), rows.at[found.begin])
    at = np.minimum(np.maximum(at, shared[of]), facts.ended[of])
    took = at - before(at, of, 0)
    took[found.begin] = at[found.begin] - shared
    # the segment that ends the handshake travels to the sender, as the request does: that time is a round trip's
    travel = np.where(opened & ~by_main, np.minimum(took, late[of]), 0)
    place = of * len(LIMITS) + code
    shares = _sums(place, took - travel, count) + _sums(of * len(LIMITS) + TRIP, travel, count)
    new = np.flatnonzero((took > travel) & ~counted)
    starts = np.where((code >= TIMEOUT) & (code <= MTU), flow.cause >= 0, code != before(code, of, -1))
    begins = new[starts[new]]
    times = np.bincount(place[begins], minlength=count * len(LIMITS)).reshape(count, -1)
    frame, hops = rows.frame[order], np.flatnonzero((travel > 0) & ~counted)
    first, last = (np.full(count * len(LIMITS), ABSENT, np.int64) for _ in range(2))
    for some, at_limit in ((new, place[new]), (hops, of[hops] * len(LIMITS) + TRIP)):
        first[at_limit[::-1]] = frame[some][::-1]
        last[at_limit] = np.maximum(last[at_limit], frame[some])
    return shares, times, first.reshape(count, -1), last.reshape(count, -1), *past_now


def _sums(place: Column, values: Column, count: int) -> Column:
    """Return whole sums by connection and limit."""
    found = np.zeros(count * len(LIMITS), np.int64)
    np.add.at(found, place, values)
    return found.reshape(count, -1)


def _shortest_trip(found: Connections, sent: Sequence[Sent], number: int, columns: Mapping[str, Column]) -> Column:
    """Return the shortest time (ns, 0: unknown) from here to side `number` and back: from fresh data of the other side
    to the next row of this one, if that acknowledges it. A SYN that was repeated shows none."""
    rows, other = found.rows, sent[1 - number]
    place = np.arange(rows.size)
    answer = np.minimum.accumulate(np.where(found.server == bool(number), place, rows.size)[::-1])[::-1]
    fresh = other.full & ~other.old & (answer[other.row] < rows.size)
    opens = (rows.flags[other.row] & SYN) != 0
    fresh &= ~opens | ((columns["syns"] <= 1) & (columns["synacks"] <= 1))[other.of]
    row, end, of = other.row[fresh], other.end[fresh], other.of[fresh]
    then = answer[row]
    answers = (found.of[then] == of) & (found.ack[then] >= end) & ((rows.flags[then] & RST) == 0)
    shortest = np.full(found.total, np.iinfo(np.int64).max)
    np.minimum.at(shortest, of[answers], (rows.at[then] - rows.at[row])[answers])
    return np.where(shortest == np.iinfo(np.int64).max, 0, np.maximum(shortest, 1))


def _segment_size(main: Column, columns: Mapping[str, Column]) -> tuple[Column, Column]:
    """Return the payload (bytes) of the main sender's full segments, and that which the sides agreed on."""
    offers = [np.where(columns[f"{side}_mss"] > 0, columns[f"{side}_mss"], 1 << 16) for side in ("client", "server")]
    agreed = np.minimum(*offers) - STAMP_BYTES * np.maximum(columns["stamps"], 0)
    largest = np.where(main, columns["server_largest"], columns["client_largest"])
    return np.maximum(np.minimum(agreed, largest), 1), agreed


class _Flow:
    """The rows in the order of the main sender, and before each of them what that sender knew.

    acked, flight, room  bytes acknowledged, outstanding, left in the other side's window (unknown: the largest int64)
    tops, acks           by sender (main, other): highest sequence number sent, acknowledged, up to this row
    next, none           the next row (from this one on) with data of either side; whether there is none
    heard, spoke, wrote  the last row before this one with an ACK of the other side, data of either side, data of main
    repeated, recover    the main sender's last repeat before this row; the highest number that it had sent by then
    data, closed, lost   whether it has data of the stream; whether a side has ended it; packets missing before it
    final, sides         by connection: the main sender's last data row; how many rows of main, ACKs of the other side
    counted, kept        whether an earlier part counted it; by connection: the highest number they acknowledge
    """

    def __init__(
        self, found: Connections, order: Column, of: Column, at: Column, by_main: Column, cause: Column, alive: Column,
        scale: Column, segment: Column, count: int,
    ) -> None:  # fmt: skip
        rows = found.rows
        self.found, self.of, self.at, self.by_main, self.cause = found, of, at, by_main, cause
        self.flags, self.length, self.seq = rows.flags[order], rows.length[order].astype(np.int64), found.seq[order]
        self.sacked, self.counted = ((rows.bits[order] & bit) != 0 for bit in (SACKED, COUNTED))
        self.segment = segment[of]
        ack, size = found.ack[order], len(of)
        counts = ((self.flags & RST) == 0) & (((self.flags & SYN) == 0) | (self.seq == 0))
        self.end = self.seq + self.length + ((self.flags & (SYN | FIN)) != 0)
        told = counts & (ack > NEVER)
        kept = told & ~by_main & self.counted
        self.kept = highest(of[kept], ack[kept], count, 0)
        window = rows.window[order].astype(np.int64) << np.where((self.flags & SYN) != 0, 0, np.maximum(scale, 0)[of])
        self.tops = [_upto(self.end, counts & side, of) for side in (by_main, ~by_main)]
        self.acks = [_upto(ack, told & side, of) for side in (~by_main, by_main)]
        self.acked, top = (before(column, of, 0) for column in (self.acks[0], self.tops[0]))
        self.flight = top - self.acked
        self.other_flight = before(self.tops[1] - self.acks[1], of, 0)
        self.heard = _last(told & ~by_main, of)
        known = (scale[of] >= 0) & (self.heard >= 0)
        self.room = np.where(known, (ack + window)[self.heard] - top, np.iinfo(np.int64).max)
        self.data = counts & (self.length > 0) & ~alive
        place = np.arange(size)
        last = np.where(self.data | (cause >= 0), place, size)
        self.next = np.minimum.accumulate(last[::-1])[::-1]
        self.none = self.next >= size
        self.next = np.minimum(self.next, size - 1)
        self.none |= of[self.next] != of
        self.spoke = _last(self.data, of)
        self.closed = _last((self.flags & (FIN | RST)) != 0, of) >= 0
        self.wrote = _last(self.data & by_main, of)
        self.lost = self._lost(rows.ident[order].astype(np.int64), count)
        self.repeated = _last((cause >= 0) & by_main, of)
        self.recover = before(_upto(self.tops[0], (cause >= 0) & by_main, of), of, 0)
        self.final = found.begin.copy()
        self.final[of[self.data & by_main]] = np.flatnonzero(self.data & by_main)
        self.sides = [np.bincount(of[side], minlength=count) for side in (by_main & counts, told & ~by_main)]

    def _lost(self, ident: Column, count: int) -> Column:
        """Return how many packets of the main sender are missing before each of its rows, by the IPv4 identification
        that its host counts up; 0 where it does not count."""
        of = self.of
        previous = _last(self.by_main, of)
        step = np.where(self.by_main & (previous >= 0), (ident - ident[previous]) & 0xFFFF, 0)
        # how many packets a merged frame held is not known
        merged = (previous >= 0) & (self.length[previous] > self.segment)
        gap = np.where(merged, 0, step - 1)
        # a counter that the host's other conversations use too jumps whenever the other side has spoken
        turn = (step > 0) & (gap < LOST_MOST) & ~before(self.by_main, of, False)
        steady = np.bincount(of[turn & (gap == 0)], minlength=count)
        counts = (steady > 0) & (steady * 2 >= np.bincount(of[turn], minlength=count))
        found: Column = np.where(counts[of] & (gap > 0) & (gap < LOST_MOST), gap, 0)
        return found

    def level(self, flight: Column, grown: Column) -> tuple[Column, Column, Column]:
        """Return, by row, whether the flight stays the same while more than `LEVEL_FLIGHTS` times as much is delivered
        without a loss; and, by connection, `PAST` after these rows. A send buffer bounds such a flight; a congestion
        window would grow.

        flight, grown  by connection: `PAST` after the earlier parts
        Rows kept from an earlier part have gaps between them, so only the others show a flight.
        """
        of, begin, end = self.of, self.found.begin, self.found.end
        acked = np.maximum(self.acks[0], self.kept[of])
        grown = np.where(grown == ABSENT, acked[begin], grown)
        most = np.maximum(running(np.where(self.by_main & ~self.counted, self.tops[0] - acked, 0), of), flight[of])
        grew = most > np.maximum(before(most, of, 0), flight[of])
        since = _last(grew, of)
        place = np.where(grew, np.arange(len(of)), len(of))
        until = np.minimum.accumulate(place[::-1])[::-1]
        until = np.where(until < end[of], until, self.final[of])
        delivered = acked[until] - np.where(since >= 0, acked[since], grown[of])
        # a loss makes a congestion window smaller than it was
        shrinks = self.by_main & ~self.counted
        shrinks &= (self.cause == CAUSES.index("rto")) | (self.cause == CAUSES.index("fast"))
        found: Column = (delivered > LEVEL_FLIGHTS * most) & (_last(shrinks, of) < 0)
        flight = np.where(np.bincount(of[shrinks], minlength=len(end)) > 0, LOST_FLIGHT, most[end - 1])
        grown[of[grew]] = acked[grew]
        return found[self.next], flight, grown

    def codes(self, main: Column, rtt: Column, sack: Column, agreed: Column, level: Column) -> Column:
        """Return what the connection waited for before each row: one of `LIMITS`, by number.

        main, rtt, sack   by connection: whether the server is the main sender, round trip (ns, 0: unknown), SACK agreed
        agreed            by connection: payload (bytes) of full segments that the sides agreed on
        level             by row: whether the flight is level
        """
        of, at, then = self.of, self.at, self.next
        rtt, wrote = rtt[of], np.maximum(self.wrote, 0)
        turn = [np.where(main[of] == side, SERVER, CLIENT) for side in (True, False)]
        idle = self.flight <= 0
        asked = (self.spoke < 0) | ~self.by_main[self.spoke]
        short = (self.wrote >= 0) & (self.length[wrote] % self.segment != 0)
        heard = np.where(self.heard[then] >= 0, at[then] - at[self.heard[then]], at[then])
        released = (heard <= rtt // SOON_DIVISOR + SOON_NS) & ~level
        paced = ~idle & ((self.wrote[then] < 0) | (at[then] - at[self.wrote[then]] <= rtt // PACED_DIVISOR + SOON_NS))
        code = np.where(idle & asked, turn[0], np.where(~short & (released | paced), CONGESTION, SENDER))
        # a packet that was lost before it came here leaves a gap in the sender's IPv4 identification
        lost, silence = self.lost[then], at[then] - at[np.maximum(self.spoke[then], self.found.begin[of])]
        timer = (lost > np.where(idle & asked, ASKED_LOST, 0)) & (
            silence >= np.where(rtt > 0, PROBE_RTTS * rtt, TIMER_NS)
        )
        probe = sack[of] & ((lost == 1) | (self.seq[then] > self.acked + self.flight))
        smaller = self.segment < agreed[of]
        code = np.where(timer, np.where(probe, PROBE, np.where(smaller & (self.wrote < 0), MTU, TIMEOUT)), code)
        need = np.minimum(self.length[then], self.segment)
        code[self.room < need] = WINDOW
        other = ~self.by_main[then]
        theirs = np.where(self.flight > 0, TRIP, np.where(~asked | (self.other_flight <= 0), turn[1], UNKNOWN))
        theirs[self.room <= 0] = WINDOW
        code[other] = theirs[other]
        final = self.acks[0][self.found.end - 1][of] >= self.tops[0][self.found.end - 1][of]
        # a client that asked and has not closed still waits for the answer
        spoke = np.maximum(self.spoke, 0)
        waits = (self.spoke >= 0) & (self.by_main[spoke] != main[of]) & ~self.closed
        answer = np.where(self.room > 0, SERVER, WINDOW)
        code[self.none] = np.where(idle, np.where(waits, answer, END), np.where(final, TRIP, UNKNOWN))[self.none]
        # a tail loss probe shows no loss while the window is full
        full = self.room < self.segment
        again = ~self.none & (self.cause[then] >= 0) & ((self.room > 0) | (self.length[then] > 1))
        repairing = self.acked < self.recover
        closing = (self.flight <= 1) & (self.other_flight <= 1)
        for some, row in ((again, then), (repairing, self.repeated)):
            limit = np.where(closing & (self.length[row] == 0), END, OF_CAUSE[self.cause[row]])
            code = np.where(some, np.where(full & (limit == PROBE), WINDOW, limit), code)
        code[(np.minimum(*self.sides) == 0)[of]] = UNKNOWN
        return code

    def opening(self, main: Column) -> tuple[Column, Column]:
        """Return whether each row stands in the handshake, and whether it is the client's segment that ends it."""
        theirs = self.by_main != main[self.of]
        client = theirs & ((self.flags & SYN) == 0)
        # without any segment of the client nothing tells when the handshake ended
        opened: Column = self.found.opened.any(axis=1) & (np.bincount(self.of[theirs], minlength=len(main)) > 0)
        early = (_last(client, self.of) < 0) & opened[self.of]
        return early, early & client

    def stuck(self, told: Column) -> Column:
        """Return whether, before each row, full segments were lost again and again while smaller ones passed. One loss
        is enough where a router reported the path MTU (`told`, by connection)."""
        of, count = self.of, self.found.total
        full = self.by_main & self.data & (self.length >= self.segment) & (self.segment >= LEAST_FULL)
        first = leader(of, np.flatnonzero(full & (self.acks[0] <= self.seq)), count)
        some = np.maximum(first, 0)
        start = np.where(first >= 0, self.seq[some], -1)[of]
        later = np.arange(len(of)) > some[of]
        sends = np.bincount(of[full & (self.seq == start)], minlength=count)
        small = self.by_main & self.data & later & (self.seq <= start) & (self.end > start) & ~full
        smaller = leader(of, np.flatnonzero(small), count)
        until = np.where(smaller >= 0, smaller, self.found.end - 1)
        passes = np.bincount(of[later & ~self.by_main & self.sacked], minlength=count) > 0
        passes |= (smaller >= 0) & (self.acks[0][self.found.end - 1] > start[self.found.begin])
        # the other side sends new data and repeats none: the ACKs of the main sender arrive
        heard = np.bincount(of[later & ~self.by_main & (self.end > before(self.tops[1], of, 0))], minlength=count) > 0
        deaf = np.bincount(of[later & ~self.by_main & (self.cause >= 0)], minlength=count) > 0
        passes |= heard & ~deaf
        hole = (
            (first >= 0) & (told | ((sends > STUCK_MOST) & passes)) & (self.acks[0][until] <= start[self.found.begin])
        )
        repair = self.acked < np.minimum(self.tops[0][until][of], self.recover)
        found: Column = hole[of] & later & ((self.acked <= start) | repair)
        return found


def _upto(values: Column, some: Column, of: Column) -> Column:
    """Return, for each row, the largest value of the rows `some` so far in its connection, at least 0."""
    return running(np.where(some, np.maximum(values, 0), 0), of)


def _last(some: Column, of: Column) -> Column:
    """Return, for each row, the last of the rows `some` before it in its connection; -1 if there is none."""
    found = before(np.maximum.accumulate(np.where(some, np.arange(len(of)), -1)), of, -1)
    return np.where((found >= 0) & (of[found] == of), found, -1)
