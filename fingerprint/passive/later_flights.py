# SPDX-License-Identifier: MIT
"""Congestion windows later in a connection, from flights that a server begins while it has nothing in flight.

Question   How many segments may the server have in flight at a request, and after an idle second?
Method     Such a flight begins with new data while all earlier data is acknowledged. The client has sent a new request,
           which the server acknowledges (its content does not matter, so TLS is read too), or the server was silent for
           a second. The rows after the server's last data before the flight, up to its last data before the next such
           flight, are read as a connection of their own, whose sequence numbers begin there. `first_flight.py` reads
           it like any other, with the client's window of that moment.
Stop when  the next such flight begins, or `ROWS_MOST` rows after the flight's first.
Reads as   in `first_flight.py`. Left out are flights of a single segment, which show no window, the connection's first
           flight, and those after the 64th.
Fails as   nothing, where the connection's options are unknown or only one side was captured.
Differs    from reading the largest number of bytes in flight: data that an ACK released is not counted. Where the
           server had no more to send, and no window ended the flight, it is a bound.
Source     as `first_flight.py`; RFC 5681 4.1 (idle connections)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import Column
from configtron.fingerprint.passive.connections import NEVER, Connections, edges, running
from configtron.fingerprint.passive.first_flight import NONE, PROOFS, PROVEN, HandshakeFacts, first_flights
from configtron.fingerprint.passive.retransmissions import Sent
from configtron.model.nouns import RST, SYN

# A pause longer than this lets a server's window start anew (RFC 9293 / RFC 5681 4.1: an RTO; the initial one is 1 s).
IDLE_NS = 1_000_000_000
# Rows from a flight's first segment on, and rows before it that are searched for repeats. Together no more than
# `gathering.TAIL`, so that a connection that is read in parts reads the same.
ROWS_MOST, BEFORE_MOST = 200, 50
# A single segment shows no window. At most `FLIGHTS_MOST` flights of a connection are kept, to bound its memory.
SEGMENTS_LEAST, FLIGHTS_MOST = 2, 64


class LaterFlight(NamedTuple):
    """A flight that a server begins later in a connection.

    at_ns, frames    time of its first segment (ns); frames of its segments (`Rows.frame`)
    segments         the window that it shows; grade: C (exact) or L (a bound); proof: how it ended
    why              "idle": the server had sent nothing for a second; else "request"
    flight           the members of `first_flight.Flights`
    sent, silent_ns  bytes that the server had sent before it, and how long it had been silent (ns)
    again            whether the server repeated data within `BEFORE_MOST` rows before it
    settled          whether all its `ROWS_MOST` rows are there, so that no later row changes it
    """

    at_ns: int
    frames: tuple[int, ...]
    segments: int
    grade: str
    proof: str
    why: str
    flight: tuple[int, ...]
    sent: int
    silent_ns: int
    again: bool
    settled: bool


def later_flights(found: Connections, sent: Sent, known: HandshakeFacts, shift: Column) -> dict[int, list[LaterFlight]]:
    """Return, by connection, the later flights in order; connections without any are left out.

    sent    the server's segments
    shift   by connection: scale of the client's window (negative: unknown)
    """
    rows = found.rows
    data = np.flatnonzero(rows.length[sent.row] > 0)
    row, of, start, end = sent.row[data], sent.of[data], sent.start[data], sent.end[data]
    # Data that continues the stream, where another row stands between it and the data before.
    new = np.flatnonzero((of[1:] == of[:-1]) & (start[1:] == end[:-1]) & (row[1:] - row[:-1] > 1)) + 1
    new = new[(sent.top[data][new] == start[new]) & (known.whole & ~known.cut & (shift >= 0))[of[new]]]
    ours = np.flatnonzero(~found.server & (found.ack > NEVER) & ((rows.flags & RST) == 0))
    if not len(new) or not len(ours):
        return {}
    reach = running(found.seq[ours] + rows.length[ours] + ((rows.flags[ours] & SYN) != 0), found.of[ours])
    last, earlier = (np.searchsorted(ours, row[place]) - 1 for place in (new, new - 1))
    spoke = np.cumsum(rows.length[ours] > 0)
    quiet = running(found.ack[ours], found.of[ours])[last] == start[new]
    # The server acknowledges all that the client sent. It answers new data of the client, or it was silent for a second
    # and the client's last row had reached it.
    silent = rows.at[row[new]] - rows.at[row[new - 1]]
    heard = rows.at[row[new]] - rows.at[ours[last]] >= known.rtt_server[of[new]]
    quiet &= (found.ack[row[new]] >= reach[last]) & ((spoke[last] > spoke[earlier]) | (heard & (silent >= IDLE_NS)))
    chosen = quiet & (earlier >= 0) & (found.of[ours[earlier]] == of[new])
    new, last, earlier, silent = new[chosen], last[chosen], earlier[chosen], silent[chosen]
    # Each flight's data ends before the next flight, or with its connection's last data.
    _, after = edges(of, found.total)
    following = np.minimum(np.append(new[1:], len(of)), after[of[new]])
    long = (following - new >= SEGMENTS_LEAST) & (end[following - 1] - start[new] > known.limit[of[new]])
    new, last, earlier, silent, following = (column[long] for column in (new, last, earlier, silent, following))
    if not len(new):
        return {}
    begin = row[new - 1] + 1
    size = np.minimum(row[following - 1] + 1, row[new] + ROWS_MOST) - begin
    kept = np.arange(size.sum()) + np.repeat(begin - (np.cumsum(size) - size), size)
    mine = HandshakeFacts(*(column[of[new]] for column in known))
    mine = mine._replace(room=rows.window[ours[last]].astype(np.int64) << shift[of[new]])
    apart = _apart(found, sent, kept, np.repeat(np.arange(len(new)), size), (reach[earlier] - 1, start[new] - 1))
    flights = first_flights(*apart, mine)
    old = np.append(0, np.cumsum(sent.old))
    since = np.searchsorted(sent.row, np.maximum(row[new] - BEFORE_MOST, found.begin[of[new]]))
    again = old[data[new]] > old[since]
    settled = row[new] + ROWS_MOST <= found.end[of[new]]
    result: dict[int, list[LaterFlight]] = {}
    for one in np.flatnonzero((flights.proof < NONE) & (flights.segments >= SEGMENTS_LEAST)).tolist():
        place, flight = int(new[one]), tuple(column[one].item() for column in flights)
        proof, final = PROOFS[flight[3]], np.searchsorted(row, kept[flight[6]], "right")
        at, frames = int(rows.at[row[place]]), tuple(rows.frame[row[place:final]].tolist())
        told = flight[0], "C" if proof == PROVEN else "L", proof, "idle" if silent[one] >= IDLE_NS else "request"
        more = int(start[place]) - 1, int(silent[one])
        later = LaterFlight(at, frames, *told, flight, *more, bool(again[one]), bool(settled[one]))
        result.setdefault(int(of[place]), []).append(later)
    return result


def _apart(
    found: Connections, sent: Sent, kept: Column, of: Column, base: tuple[Column, Column]
) -> tuple[Connections, Sent]:
    """Return rows as connections of their own, with the members that `first_flights` reads, and the server's segments.

    kept, of   the rows, in order; the number of each row's new connection
    base       by new connection: the sequence numbers (client's, server's) before its first byte
    """
    server, (begin, end) = found.server[kept], edges(of, len(base[0]))
    client_less, server_less = (side[of] for side in base)
    seq = found.seq[kept] - np.where(server, server_less, client_less)
    ack = found.ack[kept] - np.where(server, client_less, server_less)
    part = found._replace(rows=found.rows.take(kept), of=of, server=server, seq=seq, ack=ack, begin=begin, end=end)
    place = np.full(found.rows.size, -1)
    place[kept] = np.arange(len(kept))
    its = Sent(*(column[place[sent.row] >= 0] for column in sent))
    row = place[its.row]
    less = server_less[row]
    return part, its._replace(row=row, of=of[row], start=its.start - less, end=its.end - less, top=its.top - less)
