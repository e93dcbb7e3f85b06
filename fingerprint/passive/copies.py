# SPDX-License-Identifier: MIT
"""One segment, seen twice.

Question   Which frames show a segment that was captured already, and were not sent again by the host?
Method     A capture on all interfaces (`any`), at a mirror of both directions, or on two VLANs of one router holds each
           packet more than once; networks double some as well. Such a frame has the same header, checksum and
           SACK blocks included, as one before it, however many frames lie between. It is a copy if
             its IP number is the same as well, where the sender counts its packets by them, within 180 ms, or at any
             time if its stamp is the same; or
             it stands in another file, with the same such number or the same stamp, at any time; or else
             it carries data, SYN or FIN, comes within a millisecond, and the other side sent nothing meanwhile; or
             it is a plain ACK of that kind, in a connection that has copies of the other kinds; or
             it carries data in such a connection, whatever passed meanwhile, within 10 ms (a SYN: at any time) if its
             stamp is the same.
Reads as   rows that are left out before anything is counted, so that no loss and no repeat is claimed.
Fails as   it is a retransmission: later copies, and repeats of a host whose packets share one IP number.
Differs    from tshark, which calls them retransmissions, and has no round trip of a handshake that was doubled.
Source     RFC 791 3.1 and RFC 6864 (the number differs while packets may be under way)
"""

from __future__ import annotations

import numpy as np

from configtron.fingerprint.passive.columns import COUNTED, FILE_SHIFT, STAMPED, Column, Rows, radix_order
from configtron.model.nouns import FIN, SYN

# A copy passes on the same machine or the next; a timer or three duplicate ACKs take longer on all but the shortest
# paths, and then with another IP number, or (a clock of stamps ticks each ms) with a later stamp.
STAMPED_NS, PLAIN_NS = 10_000_000, 1_000_000
# Less than the shortest timer, so that those of a host that keeps the number of what it sends again can be read.
NUMBERED_NS = 180_000_000
ALIKE = ("side", "seq", "ack", "flags", "window", "length", "tsval", "tsecr", "ident", "check")
# An odd number that spreads the bits of another; its multiples are cut to `HASH_BITS`: with a million rows, hardly
# ever are two that differ equal, and then a copy between them is missed.
SPREAD, HASH_BITS = np.uint64(0x9E3779B97F4A7C15), np.uint64(48)


def copied(rows: Rows, of: Column) -> Column:
    """Return which rows are copies. `rows` by connection (`of`), within it by time."""
    found = np.zeros(rows.size, bool)
    earlier, later = _alike(rows, of)
    if not len(later):
        return found
    gap = rows.at[later] - rows.at[earlier]
    numbered = (rows.ident[later] != 0) & _varies(rows, of)[of[later], rows.side[later]]
    takes = (rows.length[later] > 0) | ((rows.flags[later] & (SYN | FIN)) != 0)
    # No timer of a handshake is so short, whatever passed meanwhile.
    syn = (rows.flags[later] & SYN) != 0
    # Two files may be of two machines, whose clocks differ.
    apart = rows.frame[later] >> FILE_SHIFT != rows.frame[earlier] >> FILE_SHIFT
    plain = ~numbered & (gap >= 0)
    soon = plain & (gap <= PLAIN_NS)
    alone = _alone(rows, found, earlier, later)
    stamped = (rows.bits[later] & STAMPED) != 0
    sure = (apart & (numbered | stamped)) | (numbered & (stamped | (gap <= NUMBERED_NS)))
    sure |= soon & takes & (alone | syn)
    doubled = np.zeros(int(of[-1]) + 1, bool)
    doubled[of[later[sure]]] = True
    sure |= doubled[of[later]] & takes & (soon | (plain & stamped & (syn | (gap <= STAMPED_NS))))
    found[later[sure]] = True
    found[later[soon & doubled[of[later]] & _alone(rows, found, earlier, later)]] = True
    return found


def _alone(rows: Rows, copies: Column, earlier: Column, later: Column) -> Column:
    """Return whether the other side sent nothing between these rows that is no copy."""
    theirs = [np.cumsum((rows.side != side) & ~copies) for side in (0, 1)]
    none, ones = (sent[later] == sent[earlier] for sent in theirs)
    alone: Column = np.where(rows.side[later] == 1, ones, none)
    return alone


def _alike(rows: Rows, of: Column) -> tuple[Column, Column]:
    """Return the rows that equal an earlier one of their connection: (the nearest such one, the row)."""
    mixed = of.astype(np.uint64)
    for word in (rows.seq, rows.ack, rows.check.astype(np.uint64) << np.uint64(16) | rows.ident):
        mixed = (mixed ^ word) * SPREAD
        mixed ^= mixed >> np.uint64(32)
    order = radix_order(mixed >> (np.uint64(64) - HASH_BITS))
    mixed = mixed[order]
    at = np.flatnonzero(mixed[1:] == mixed[:-1])
    earlier, later = order[at], order[at + 1]
    alike = (of[earlier] == of[later]) & ((rows.bits[later] & COUNTED) == 0)
    for name in ALIKE:
        column = getattr(rows, name)
        alike &= column[earlier] == column[later]
    return earlier[alike], later[alike]


def _varies(rows: Rows, of: Column) -> Column:
    """By connection and side: whether IP numbers differ from packet to packet."""
    found = np.zeros((int(of[-1]) + 1, 2), bool)
    for side in (0, 1):
        way = np.flatnonzero(rows.side == side)
        differs = (rows.ident[way[1:]] != rows.ident[way[:-1]]) & (of[way[1:]] == of[way[:-1]])
        found[of[way[1:][differs]], side] = True
    return found
