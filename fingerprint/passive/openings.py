# SPDX-License-Identifier: MIT
"""Connections in groups of equal openings, in which the inferences find the same values, in other frames.

Question   Which connections need not be read, because one that was read has an equal opening?
Method     Of a conversation like the `rwin` probe's, without kept streams, the inferences read one SYN and one SYN-ACK;
           in the server's later segments TTL, timestamps and their clock; and the window of its first ACK of data.
           Where all of these are equal, the findings are too. Only their frames differ: those of three segments
           (`PLACES`).
Reads as   a group number for each connection, and three of its rows.
Fails as   `UNIQUE`: the connection is read by itself, for example where SYNs were repeated or the clock was set back.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from configtron.fingerprint.passive.columns import DF, STAMPED, Column, hashed
from configtron.fingerprint.passive.gathering import Batch
from configtron.fingerprint.passive.traces import OPENING_MOST, read_options, without_times
from configtron.fingerprint.stack import of_other_clock
from configtron.model.nouns import ACK, OPT_TIMESTAMPS, RST, SYN

# In place of a group number: the connection is read by itself.
UNIQUE = -1
# How many segments the observations name: SYN-ACK, the server's first later segment, its first ACK of data.
PLACES = 3


def equal_openings(batch: Batch, chosen: Column) -> tuple[Column, Column]:
    """Return (group numbers, rows) of the `chosen` connections.

    The group number is `UNIQUE`, or equal for equal openings. The rows have the shape (connections, `PLACES`).
    """
    found, rows = batch.found, batch.found.rows
    begin = found.begin[chosen]
    place = begin[:, None] + np.arange(OPENING_MOST)
    there = place < found.end[chosen, None]
    place = np.where(there, place, begin[:, None])
    flags, ttl = np.where(there, rows.flags[place], 0), rows.ttl[place]
    stamped = (rows.bits[place] & STAMPED) != 0
    heard = found.server[place] & ((flags & (SYN | ACK)) == ACK)
    later, acks = heard & ((flags & RST) == 0), heard & (found.ack[place] > 1)
    first, acked = later.argmax(axis=1), acks.argmax(axis=1)
    lead = np.arange(len(begin)), first
    ticks = (rows.tsval[place] - rows.tsval[place[:, 1:2]]).view(np.int32).astype(np.int64)
    at = (rows.at[place] - rows.at[begin][:, None]) / 1e9
    began = stamped[:, 1]
    other = began & (later & stamped & of_other_clock(ticks, at - at[:, 1:2])).any(axis=1)
    places = np.stack((place[:, 1], place[lead], place[np.arange(len(begin)), acked]), axis=1)
    layouts: dict[tuple[tuple[int, object], ...], int] = {}
    heads = [map(batch.heads.kept.get, frames) for frames in rows.frame[place[:, :2]].T.tolist()]
    options = [[without_times(head.options) if head else b"" for head in some] for some in heads]
    kinds = [np.array([layouts.setdefault(_layout(one), len(layouts)) for one in some], np.int64) for some in options]
    has_stamps = np.array([any(kind == OPT_TIMESTAMPS for kind, _ in layout) for layout in layouts], bool)
    plain = (
        ((flags[:, :2] & (SYN | ACK | RST)) == (SYN, SYN | ACK)).all(axis=1)
        & (found.server[place[:, :2]] == (0, 1)).all(axis=1)
        & (((flags & SYN) != 0).sum(axis=1) == 2) & (batch.summary.columns["clock"][chosen] == 0)
        & (~later | ((ttl == ttl[lead][:, None]) & (stamped == stamped[lead][:, None]))).all(axis=1)
        & (rows.frame[places[:, 0]] < np.where(first > 0, rows.frame[places[:, 1]], np.iinfo(np.int64).max))
    )  # fmt: skip
    if len(has_stamps):
        plain &= has_stamps[kinds[1]] == began
    synack, pairs = places[:, 0], rows.pair[begin].tolist()
    numbers = group_numbers(
        np.array([batch.ends.version(pair) for pair in pairs], np.int64), *kinds,
        flags[:, 0], flags[:, 1], rows.window[synack], rows.ttl[synack],
        rows.tos[synack], rows.ident[synack] != 0, rows.bits[synack] & DF, rows.length[synack] > 0, first > 0,
        ttl[lead], stamped[lead], other, acked > 0, rows.window[places[:, 2]], first == acked,
    )  # fmt: skip
    return np.where(plain, numbers, UNIQUE), places


@lru_cache(maxsize=4096)
def _layout(options: bytes) -> tuple[tuple[int, object], ...]:
    """Return TCP options as (kind, data); for timestamps the data is (length, whether TSval is nonzero)."""
    return tuple(
        (kind, (len(data), any(data[:4])) if kind == OPT_TIMESTAMPS else data) for kind, data in read_options(options)
    )


def group_numbers(*columns: Column) -> Column:
    """Return a number for each row of these integer columns; equal rows, and only those, have the same number."""
    rows = np.stack([column.astype(np.int64) for column in columns])
    _, first, numbers = np.unique(hashed(rows), return_index=True, return_inverse=True)
    if not (rows == rows[:, first[numbers]]).all():
        # Two different rows have the same hash.
        numbers = np.unique(rows, axis=1, return_inverse=True)[1].reshape(-1)
    return numbers
