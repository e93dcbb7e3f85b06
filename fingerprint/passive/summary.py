# SPDX-License-Identifier: MIT
"""The facts of each connection and of each side: columns over connections.

Rules for this file: a column's name stands in `CONNECTION_COLUMNS` with its unit and how parts of a long connection are
put together; -1 means "not known here" and becomes a missing value in the output. Times are ns inside, s in the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import ABSENT, COUNTED, CUT, LATE, SACK_OK, STAMPED, Column
from configtron.fingerprint.passive.connections import (
    NEVER,
    PASSES,
    Connections,
    Direction,
    Passes,
    Repeats,
    highest,
    latest,
    leader,
    running,
)
from configtron.fingerprint.passive.first_flight import DEFAULT_MSS, STAMP_BYTES, Flights, HandshakeFacts, first_flights
from configtron.fingerprint.passive.later_flights import IDLE_NS, LaterFlight, later_flights
from configtron.fingerprint.passive.limits import LIMITS, PARTS, PAST, share_time
from configtron.fingerprint.passive.retransmissions import (
    CAUSES,
    KINDS,
    Retransmissions,
    Sent,
    closed_before,
    retransmissions,
    sent_by,
)
from configtron.fingerprint.passive.round_trips import round_trips
from configtron.fingerprint.passive.under_load import under_load
from configtron.fingerprint.stream import DUPLICATE_GAP_S
from configtron.fingerprint.window_proofs import SHIFT_MOST
from configtron.model.nouns import ACK, FIN, RST, SYN

# Copies of a SYN-ACK that come within this are one answer sent twice, not a timer's (`stream.DUPLICATE_GAP_S`).
DUPLICATE_NS = round(DUPLICATE_GAP_S * 1e9)
SIDES = ("client", "server")
# Values of the column `clock`. A SYN and its answer may come within one tick of a coarse clock; more segments do not.
# No connection lasts a year: one of its packets has no time.
CLOCK_STEP, NO_TIMES, STILL_MOST, APART_NS = 1, 2, 2, 31_536_000 * 10**9


class ColumnMeaning(NamedTuple):
    """One column: unit, the way to join the parts of a connection read in parts, and its meaning."""

    unit: str
    join: str
    says: str


# `join`: first (the opening showed it), sum, max, min or last (of the parts that know it).
CONNECTION = {
    "frame": ColumnMeaning("", "first", "file << 40 | number of the first frame"),
    "started": ColumnMeaning("ns", "first", "time of the first segment"),
    "ended": ColumnMeaning("ns", "max", "time of the last segment"),
    "packets": ColumnMeaning("", "sum", "segments, without copies"),
    "copies": ColumnMeaning("", "sum", "frames that show a segment once more: fingerprint/passive/copies.py"),
    "syns": ColumnMeaning("", "max", "SYNs"),
    "synacks": ColumnMeaning("", "max", "SYN-ACKs"),
    "rtt": ColumnMeaning("ns", "first", "SYN to the ACK that ends the handshake, none of them repeated"),
    "rtt_server": ColumnMeaning("ns", "first", "SYN to SYN-ACK: from here to the server and back"),
    "rtt_client": ColumnMeaning("ns", "first", "SYN-ACK to ACK: from here to the client and back"),
    "sack": ColumnMeaning("", "first", "1: both sides agreed on SACK"),
    "stamps": ColumnMeaning("", "first", "1: both sides agreed on timestamps"),
    "options_cut": ColumnMeaning("", "first", "1: the options of a SYN were not captured"),
    "out_of_order": ColumnMeaning("", "sum", "segments that were recorded behind later ones"),
    "frag_needed": ColumnMeaning("", "sum", "ICMP messages that a packet of this connection was too big"),
    "frag_needed_mtu": ColumnMeaning("bytes", "min", "the smallest MTU in them"),
    "clock": ColumnMeaning(
        "", "max", "1: a clock was set back between the segments; 2: they have no times, or all the same"
    ),
}
SIDE = {
    "mss": ColumnMeaning("bytes", "first", "maximum segment size option"),
    "wscale": ColumnMeaning("", "first", "window scale option"),
    "syn_window": ColumnMeaning("bytes", "first", "window of the SYN or SYN-ACK, as on the wire"),
    "first_window": ColumnMeaning(
        "bytes", "first", "window of the first ACK after it, scaled; the server's of the request"
    ),
    "max_window": ColumnMeaning("bytes", "max", "largest window, scaled"),
    "ttl": ColumnMeaning("", "first", "TTL or hop limit of the first segment"),
    "packets": ColumnMeaning("", "sum", "segments, without copies"),
    "data": ColumnMeaning("", "sum", "segments that carry data"),
    "payload": ColumnMeaning("bytes", "sum", "data with repeats"),
    "bytes": ColumnMeaning("bytes", "max", "length of the stream seen, without repeats"),
    "largest": ColumnMeaning("bytes", "max", "largest payload of one captured segment"),
    "first_data": ColumnMeaning("ns", "first", "time of the first data"),
    "last_data": ColumnMeaning("ns", "max", "time of the last data"),
    **{kind: ColumnMeaning("", "sum", f"{kind}: fingerprint/passive/retransmissions.py") for kind in KINDS},
    "keep_alives": ColumnMeaning("", "sum", "keep-alive segments of one byte"),
    "out_of_window": ColumnMeaning("", "sum", "data beyond the other side's window"),
    "zero_windows": ColumnMeaning("", "sum", "segments that close the window"),
    "idle_restarts": ColumnMeaning("", "sum", "data after a second without any segment"),
    "fins": ColumnMeaning("", "max", "1: sent a FIN"),
    "resets": ColumnMeaning("", "last", "1: its last segment was a RST"),
}
# Only of captures at one of the ends (`live`): fingerprint/passive/round_trips.py.
TRIPS = {
    "trips": ColumnMeaning("", "sum", "round trips sampled of what this side sent"),
    "trip_sum": ColumnMeaning("ns", "sum", "their sum"), "trip_least": ColumnMeaning("ns", "min", "the shortest"),
    "trip_smoothed": ColumnMeaning("ns", "last", "smoothed as a stack does, after the last sample"),
    "trip_steps": ColumnMeaning("", "sum", "samples that follow another"),
    "trip_change": ColumnMeaning("ns", "sum", "sum of the differences between them"),
    "rate_last": ColumnMeaning("bit/s", "last", "latest delivery rate"),
    "rate_most": ColumnMeaning("bit/s", "max", "largest delivery rate"),
}  # fmt: skip
# The same: fingerprint/passive/under_load.py.
LOAD = {
    "again_runs": ColumnMeaning("", "sum", "runs of segments that were sent again"),
    "again_segments": ColumnMeaning("", "sum", "segments in them"),
    "again_bytes": ColumnMeaning("bytes", "sum", "bytes in them"),
    "data_acks": ColumnMeaning("", "sum", "ACKs of new data of this side"),
    "ack_gaps": ColumnMeaning("", "sum", "times between them within a busy round trip"),
    "ack_gap_sum": ColumnMeaning("ns", "sum", "their sum"),
    "late_rate": ColumnMeaning("bit/s", "last", "median delivery rate of the transfer's later half"),
    "window_rate_most": ColumnMeaning("bit/s", "max", "largest delivery rate over two round trips"),
    "last_window": ColumnMeaning("bytes", "last", "latest window of this side that was open, scaled"),
}  # fmt: skip
# Why it took so long (not of `live`): fingerprint/passive/limits.py.
LIMITED = {
    f"limit_{limit}_{part}": ColumnMeaning("ns" if part == "ns" else "", join, f"{limit}: {part}")
    for limit in LIMITS
    for part, join in PARTS.items()
} | {name: ColumnMeaning("bytes", "last", "so far: fingerprint/passive/limits.py") for name in PAST}
CONNECTION_COLUMNS = {
    **CONNECTION,
    **LIMITED,
    **{f"{side}_{name}": about for side in SIDES for name, about in (*SIDE.items(), *TRIPS.items(), *LOAD.items())},
}


class ConnectionSummary(NamedTuple):
    """Columns by name, and the server's first flights; by connection, later flights of those that have any."""

    columns: dict[str, Column]
    flights: Flights
    later: dict[int, list[LaterFlight]]


def summarise(
    found: Connections, too_big: dict[int, list[int]], past: Mapping[int, Mapping[str, int]] = {}, *,
    trips: bool = False, passes: Passes = PASSES,
) -> ConnectionSummary:  # fmt: skip
    """Everything about every connection; with `trips`, the round trips of both sides too.

    past      columns of the earlier parts of connections, by first frame
    too_big   the MTUs that ICMP messages name, by connection
    passes    what goes over every row
    """
    told = {"frag_needed": np.zeros(found.total, np.int64), "frag_needed_mtu": np.full(found.total, ABSENT, np.int64)}
    told |= {name: np.full(found.total, ABSENT if name == PAST[1] else 0) for name in PAST}
    for connection, frame in enumerate(found.rows.frame[found.begin].tolist() if past and not trips else ()):
        for name in PAST if frame in past else ():
            told[name][connection] = past[frame][name]
    for connection, sizes in too_big.items():
        told["frag_needed"][connection], told["frag_needed_mtu"][connection] = len(sizes), min(sizes)
    at, parts = 0, []
    for part in found.parts():
        some = {name: column[at : at + part.total] for name, column in told.items()}
        parts.append(_summarise_part(part, some, passes, trips=trips))
        at += part.total
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    flights = Flights(*map(np.concatenate, zip(*(part.flights for part in parts), strict=True)))
    # Rows of a part count from its first connection's.
    sizes = [len(part.flights.first) for part in parts]
    firsts = np.cumsum(sizes) - sizes
    before = np.repeat(found.begin[firsts], sizes)
    later = {
        int(first) + one: rest for first, part in zip(firsts, parts, strict=True) for one, rest in part.later.items()
    }
    return ConnectionSummary(columns, flights._replace(first=flights.first + before, last=flights.last + before), later)


def _summarise_part(found: Connections, told: dict[str, Column], passes: Passes, *, trips: bool) -> ConnectionSummary:
    count = found.total
    rows = found.rows
    columns: dict[str, Column] = {
        "frame": rows.frame[found.begin], "started": rows.at[found.begin],
        "ended": np.maximum.reduceat(rows.at, found.begin) if count else found.begin,
        "packets": _counted(found.of, (rows.bits & COUNTED) == 0, count),
        "copies": np.bincount(found.copies_of, minlength=count), **told,
        "out_of_order": _counted(found.of, (rows.bits & (COUNTED | LATE)) == LATE, count),
    }  # fmt: skip
    still = (columns["ended"] == columns["started"]) & ((columns["packets"] > STILL_MOST) | (columns["ended"] == 0))
    still |= columns["ended"] - columns["started"] > APART_NS
    columns["clock"] = np.where(found.stepped, CLOCK_STEP, np.where(still, NO_TIMES, 0))
    timeless = columns["clock"] > 0
    ways = [found.way(0), found.way(1)]
    opening = _opening(found, columns)
    # No round trip is 0: the clock is too coarse to show it.
    for name in ("rtt_server", "rtt_client", "rtt"):
        columns[name][timeless | (columns["rtt"] == 0)] = ABSENT
    for number, side in enumerate(SIDES):
        _side(found, ways[number], opening[number], number, side, columns)
    whole = found.opened.all(axis=1) & (columns["options_cut"] == 0)
    scales = scales_of(columns, whole)
    sent = [sent_by(found, way) for way in ways]
    repeats = []
    for number, side in enumerate(SIDES):
        last_window = _windows(found, ways[number], scales[number], number, side, columns)
        again = _stream(found, sent[number], number, side, columns, passes.repeats)
        repeats.append(again)
        columns[f"{side}_first_data"][timeless] = ABSENT
        _beyond(found, sent[number], scales, number, side, columns)
        if trips:
            more = round_trips(found, number) | under_load(found, number, again, columns["rtt"])
            more["last_window"] = last_window
            columns |= {f"{side}_{name}": column for name, column in more.items()}
    if not trips:
        columns |= share_time(found, sent, repeats, scales, columns, passes.shares)
    known = _known(found, columns, whole, opening)
    later = later_flights(found, sent[1], known, scales[0])
    return ConnectionSummary(columns, first_flights(found, sent[1], known), later)


def _known(found: Connections, columns: dict[str, Column], whole: Column, opening: list[Column]) -> HandshakeFacts:
    """Return the facts of the handshake that first flights need."""
    rows, trips = found.rows, [np.maximum(column, 0) for column in _trips(found, columns, opening)]
    if (timed := trips[1] > 0).any():
        # A handshake is slower than the path where a proxy connects first, or a queue is cold.
        least = round_trips(found, 0, SYN | RST)["trip_least"]
        shorter = np.where(timed & (least != ABSENT), np.maximum(trips[1] - least, 0), 0)
        trips = [np.maximum(trip - shorter, 0) for trip in trips]
    room = np.where(whole, columns["client_first_window"], 0)
    offers = [np.where(columns[f"{side}_mss"] > 0, columns[f"{side}_mss"], DEFAULT_MSS) for side in SIDES]
    # Some servers agree on timestamps, and send none.
    sends = found.server & (rows.length > 0) & ((rows.bits & STAMPED) != 0)
    less = STAMP_BYTES * ((columns["stamps"] > 0) & (np.bincount(found.of[sends], minlength=found.total) > 0))
    return HandshakeFacts(
        whole=found.opened[:, 0] & found.opened[:, 1], cut=columns["options_cut"] == 1, rtt=trips[0],
        rtt_server=trips[1], limit=np.maximum(np.minimum(*offers) - less, 1), cap=np.maximum(offers[0] - less, 1),
        floor=offers[0] <= DEFAULT_MSS, room=np.maximum(room, 0), sack=columns["sack"] == 1, synacks=columns["synacks"],
    )  # fmt: skip


def _trips(found: Connections, columns: dict[str, Column], opening: list[Column]) -> tuple[Column, Column]:
    """Return round trips (whole, to the server) for timing a flight: where copies of the SYN-ACK came sooner than any
    timer sends one, the first copy is the answer all the same. -1: unknown."""
    rows, of, count = found.rows, found.of, found.total
    flags = rows.flags & (SYN | ACK | RST)
    answers = np.flatnonzero((flags == SYN | ACK) & found.server)
    syn, answer = (np.maximum(row, 0) for row in opening)
    last = highest(of[answers], rows.at[answers], count, 0)
    doubled = (columns["syns"] == 1) & (columns["synacks"] > 1) & (last - rows.at[answer] < DUPLICATE_NS)
    if not doubled.any():
        return columns["rtt"], columns["rtt_server"]
    acks = np.flatnonzero((flags == ACK) & ~found.server & (found.ack >= 1))
    third = leader(of, acks, count)
    there, back = rows.at[answer] - rows.at[syn], rows.at[np.maximum(third, 0)] - rows.at[answer]
    fine = doubled & (third >= 0) & (there >= 0) & (back >= 0)
    return np.where(fine, there + back, columns["rtt"]), np.where(fine, there, columns["rtt_server"])


def _counted(of: Column, mask: Column, count: int) -> Column:
    return np.bincount(of[mask], minlength=count)


def _opening(found: Connections, columns: dict[str, Column]) -> list[Column]:
    """Return handshake columns; each side's first SYN's row (-1: none)."""
    rows, of, count = found.rows, found.of, found.total
    flags = rows.flags & (SYN | ACK | RST)
    syns = np.flatnonzero((flags == SYN) & ~found.server)
    answers = np.flatnonzero((flags == SYN | ACK) & found.server)
    # Of two SYN-ACKs with unlike numbers, the one that the client acknowledges counts: its number is 0.
    told = answers[np.argsort(found.seq[answers] != 0, kind="stable")]
    first = [leader(of, syns, count), leader(of, told, count)]
    # Data in the SYN (RFC 7413) that the SYN-ACK took moves the first ACK on.
    taken = np.where(first[1] >= 0, found.ack[np.maximum(first[1], 0)], 1)
    # A later segment that acknowledges the SYN-ACK ends the handshake too: the bare ACK may be lost, or overtaken.
    acks = np.flatnonzero((flags == ACK) & ~found.server & (found.ack == 1) & (found.seq >= taken[of]))
    third = leader(of, acks, count)
    columns["syns"] = np.bincount(of[syns], minlength=count)
    columns["synacks"] = np.bincount(of[answers], minlength=count)
    # Karn's rule: a repeated segment gives no round trip.
    single = (columns["syns"] == 1) & (columns["synacks"] == 1)
    at = [rows.at[np.maximum(row, 0)] for row in (*first, third)]
    there, back = at[1] - at[0], at[2] - at[1]
    done = single & (third >= 0) & (back >= 0) & (there >= 0)
    columns["rtt_server"] = np.where(single & (there >= 0), there, ABSENT)
    columns["rtt_client"] = np.where(done, back, ABSENT)
    columns["rtt"] = np.where(done, there + back, ABSENT)
    bits = [np.where(row >= 0, rows.bits[np.maximum(row, 0)], 0) for row in first]
    cut = ((bits[0] | bits[1]) & CUT) != 0
    columns["options_cut"] = cut.astype(np.int64)
    both = (first[0] >= 0) & (first[1] >= 0) & ~cut
    for name, bit in (("sack", SACK_OK), ("stamps", STAMPED)):
        columns[name] = np.where(both, (bits[0] & bits[1] & bit) != 0, ABSENT)
    return first


def _side(found: Connections, way: Direction, syn: Column, number: int, side: str, columns: dict[str, Column]) -> None:
    rows, count = found.rows, found.total
    fresh = (rows.bits[way.rows] & COUNTED) == 0
    place, seen = np.maximum(syn, 0), syn >= 0
    columns[f"{side}_mss"] = np.where(seen, rows.mss[place], ABSENT)
    columns[f"{side}_wscale"] = np.where(seen, rows.wscale[place], ABSENT)
    columns[f"{side}_syn_window"] = np.where(seen, rows.window[place].astype(np.int64), ABSENT)
    spoke = way.end > way.begin
    first = way.rows[np.minimum(way.begin, max(len(way.rows) - 1, 0))] if len(way.rows) else np.zeros(count, int)
    columns[f"{side}_ttl"] = np.where(spoke, rows.ttl[first].astype(np.int64), ABSENT)
    columns[f"{side}_packets"] = _counted(way.of, fresh, count)
    flags = rows.flags[way.rows]
    columns[f"{side}_fins"] = (np.bincount(way.of[(flags & FIN) != 0], minlength=count) > 0).astype(np.int64)
    # A side that goes on after a reset was not reset: it lay outside the window, or another forged it (RFC 5961 3.2).
    last = np.where(spoke, ABSENT, 0)
    last[way.of[fresh]] = (flags[fresh] & RST) != 0
    columns[f"{side}_resets"] = last
    shut = fresh & (rows.window[way.rows] == 0) & ((flags & RST) == 0)
    columns[f"{side}_zero_windows"] = _counted(way.of, shut, count)


def scales_of(columns: dict[str, Column], whole: Column) -> list[Column]:
    """Return shifts of each side's windows: agreed only if both SYNs had the option; -1 where one is missing or cut."""
    both = (columns["client_wscale"] >= 0) & (columns["server_wscale"] >= 0)
    shifts = (np.minimum(columns[f"{side}_wscale"], SHIFT_MOST) for side in SIDES)
    return [np.where(whole, np.where(both, shift, 0), ABSENT) for shift in shifts]


def _windows(
    found: Connections, way: Direction, scale: Column, number: int, side: str, columns: dict[str, Column]
) -> Column:
    """Fill in the columns of a side's windows; return the latest of each connection that was open, bytes: a closed one
    does not show its size."""
    rows, count = found.rows, found.total
    flags = rows.flags[way.rows]
    later = np.flatnonzero(((flags & (SYN | RST)) == 0) & ((flags & ACK) != 0))
    index, of = way.rows[later], way.of[later]
    known = scale[of] >= 0
    scaled = rows.window[index].astype(np.int64) << np.maximum(scale[of], 0)
    columns[f"{side}_max_window"] = highest(of[known], scaled[known], count, ABSENT)
    wanted = leader(of, np.flatnonzero(known & (found.ack[index] >= 1 + number)), count)
    columns[f"{side}_first_window"] = np.where(wanted < 0, ABSENT, np.append(scaled, 0)[wanted])
    last, opened = np.full(count, ABSENT, np.int64), known & (rows.window[index] > 0)
    last[of[opened]] = scaled[opened]
    return last


def _stream(
    found: Connections, sent: Sent, number: int, side: str, columns: dict[str, Column], repeats: Repeats | None
) -> Retransmissions:
    """Fill in the columns of a side's stream; return its repeats."""
    rows, count = found.rows, found.total
    fresh = (rows.bits[sent.row] & COUNTED) == 0
    length = rows.length[sent.row].astype(np.int64)
    data = length > 0
    # A reset's text (RFC 9293 3.5.3) is no part of the stream, and has crossed the path all the same.
    last = np.flatnonzero(
        ((rows.flags & RST) != 0) & (rows.length > 0) & ((rows.bits & COUNTED) == 0) & (found.server == bool(number))
    )
    resets = np.bincount(found.of[last], rows.length[last], count).astype(np.int64)
    columns[f"{side}_data"] = _counted(sent.of, fresh & data, count) + np.bincount(found.of[last], minlength=count)
    columns[f"{side}_payload"] = np.bincount(sent.of[fresh], length[fresh], count).astype(np.int64) + resets
    fin = (rows.flags[sent.row] & FIN) != 0
    reach, lone = data, (sent.start > sent.top) & (sent.top > NEVER)
    if lone.any():
        # A number beyond a hole may be corrupt: it counts if an ACK confirms it, or the stream goes on from there.
        told = np.flatnonzero((found.server != bool(number)) & (found.ack > NEVER))
        reach = data & ~(lone & (sent.end > highest(found.of[told], found.ack[told], count, NEVER)[sent.of]))
    columns[f"{side}_bytes"] = highest(sent.of[reach], (sent.end - fin)[reach] - 1, count, 0)
    columns[f"{side}_largest"] = highest(sent.of, length, count, 0)
    at = rows.at[sent.row[data]]
    first, last = np.full(count, ABSENT, np.int64), np.full(count, ABSENT, np.int64)
    first[sent.of[data][::-1]] = at[::-1]
    last[sent.of[data]] = at
    columns[f"{side}_first_data"], columns[f"{side}_last_data"] = first, last
    columns[f"{side}_keep_alives"] = _counted(sent.of, fresh & _kept_alive(found, sent, number), count)
    pause = np.zeros(len(sent.row), np.int64)
    later = sent.row > found.begin[sent.of]
    pause[later] = rows.at[sent.row[later]] - rows.at[sent.row[later] - 1]
    columns[f"{side}_idle_restarts"] = _counted(sent.of, fresh & data & (pause >= IDLE_NS) & ~sent.old, count)
    again = retransmissions(found, number, sent, np.maximum(columns["rtt"], 0), columns["sack"] == 1, repeats)
    # A closing sent again is no data lost.
    new = ((rows.bits[again.row] & COUNTED) == 0) & ((rows.length[again.row] > 0) | (again.kind >= len(CAUSES)))
    for place, kind in enumerate(KINDS):
        columns[f"{side}_{kind}"] = _counted(again.of, new & (again.kind == place), count)
    return again


def _kept_alive(found: Connections, sent: Sent, number: int) -> Column:
    """Return the keep-alives; a probe of a closed window is none."""
    alive = sent.alive.copy()
    index = np.flatnonzero(alive)
    alive[index[closed_before(found, number, sent.row[index])]] = False
    return alive


def _beyond(
    found: Connections, sent: Sent, scales: list[Column], number: int, side: str, columns: dict[str, Column]
) -> None:
    """Data past the right edge of every window that the other side had offered before."""
    rows, other = found.rows, 1 - number
    scale = scales[other]
    usable = (found.server == bool(other)) & (found.ack > NEVER) & ((rows.flags & RST) == 0)
    index = np.flatnonzero(usable)
    shift = np.where((rows.flags[index] & SYN) != 0, 0, np.maximum(scale[found.of[index]], 0))
    edge = running(found.ack[index] + (rows.window[index].astype(np.int64) << shift), found.of[index])
    # One byte beyond a closed window is a probe of it (RFC 9293 3.8.6.1).
    asked = np.flatnonzero((rows.length[sent.row] > 1) & (scale[sent.of] >= 0) & ~sent.old)
    row, of = sent.row[asked], sent.of[asked]
    last = latest(usable, found.of, found.begin, row)
    limit = np.where(last >= 0, edge[np.maximum(last, 0)], np.iinfo(np.int64).max) if len(index) else row + NEVER * -4
    fin = (rows.flags[row] & FIN) != 0
    out = ((rows.bits[row] & COUNTED) == 0) & (sent.end[asked] - fin > limit)
    columns[f"{side}_out_of_window"] = _counted(of, out, found.total)
