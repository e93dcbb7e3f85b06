# SPDX-License-Identifier: MIT
"""One segment, seen twice.

Question   Which frames show a segment that was captured already, and were not sent again by the host?
Method     A capture on all interfaces (`any`), at a mirror of both directions, or on two VLANs of one router holds each
           packet more than once; networks double some as well. Such a frame has the same header, checksum and
           SACK blocks included, as one of the few before it. It is a copy if
             its IP number is the same as well, where the sender counts its packets by them, within 10 ms; or else
             it carries data, SYN or FIN, comes within a millisecond, and the other side sent nothing meanwhile; or
             it is a plain ACK of that kind, in a connection that has copies of the other kinds.
Reads as   rows that are left out before anything is counted, so that no loss and no repeat is claimed.
Fails as   it is a retransmission: later copies, and repeats of a host whose packets share one IP number.
Differs    from tshark, which calls them retransmissions, and has no round trip of a handshake that was doubled.
Source     RFC 791 3.1 and RFC 6864 (the number differs while packets may be under way)
"""

from __future__ import annotations

import numpy as np

from configtron.fingerprint.passive.columns import COUNTED, Column, Rows
from configtron.model.nouns import FIN, SYN

# A copy passes on the same machine or the next; a timer or three duplicate ACKs take longer on all but the shortest
# paths, and then with another IP number.
NUMBERED_NS, PLAIN_NS = 10_000_000, 1_000_000
# So many frames of the same side may lie between: a burst that passes one interface, then the next.
BETWEEN_MOST = 8
ALIKE = ("flags", "window", "length", "tsval", "tsecr", "ident", "check")


def copied(rows: Rows, of: Column) -> Column:
    """Return which rows are copies. `rows` by connection (`of`), within it as captured."""
    found = np.zeros(rows.size, bool)
    for side in (0, 1):
        way = np.flatnonzero(rows.side == side)
        _one_way(rows, of, way, found)
    return found


def _one_way(rows: Rows, of: Column, way: Column, found: Column) -> None:
    key = rows.seq[way].astype(np.uint64) << np.uint64(32) | rows.ack[way]
    pairs = [_alike(rows, of, way, key, lag) for lag in range(1, min(BETWEEN_MOST, max(len(way) - 1, 0)) + 1)]
    earlier, later = (np.concatenate(part) for part in zip(*pairs, strict=True)) if pairs else (way[:0], way[:0])
    if not len(later):
        return
    gap = rows.at[later] - rows.at[earlier]
    # Equal places are lags within the way; other rows between them in the connection are the other side's.
    place = np.zeros(rows.size, np.int64)
    place[way] = np.arange(len(way))
    alone = later - earlier == place[later] - place[earlier]
    numbered = (rows.ident[later] != 0) & _varies(rows.ident[way], of[way])[of[later]]
    takes = (rows.length[later] > 0) | ((rows.flags[later] & (SYN | FIN)) != 0)
    # No timer of a handshake is so short, whatever passed meanwhile.
    syn = (rows.flags[later] & SYN) != 0
    soon = (gap >= 0) & (gap <= PLAIN_NS) & (alone | syn) & ~numbered
    sure = (numbered & (gap >= 0) & (gap <= NUMBERED_NS)) | (soon & takes)
    doubled = np.zeros(int(of[-1]) + 1, bool)
    doubled[of[later[sure]]] = True
    found[later[sure | (soon & doubled[of[later]])]] = True


def _alike(rows: Rows, of: Column, way: Column, key: Column, lag: int) -> tuple[Column, Column]:
    """Return the rows of one side that equal the one `lag` before: (that one, the row)."""
    at = np.flatnonzero(key[lag:] == key[:-lag])
    earlier, later = way[at], way[at + lag]
    alike = (of[earlier] == of[later]) & ((rows.bits[later] & COUNTED) == 0)
    for name in ALIKE:
        column = getattr(rows, name)
        alike &= column[earlier] == column[later]
    return earlier[alike], later[alike]


def _varies(ident: Column, of: Column) -> Column:
    """By connection: whether a side's IP numbers differ from packet to packet."""
    found = np.zeros(int(of[-1]) + 1, bool)
    differs = (ident[1:] != ident[:-1]) & (of[1:] == of[:-1])
    found[of[1:][differs]] = True
    return found
