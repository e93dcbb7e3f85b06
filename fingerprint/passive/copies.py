# SPDX-License-Identifier: MIT
"""Duplicate frames: one segment that the capture holds twice.

Question   Which frames show a segment that was captured already, and that the host did not send again?
Method     A capture on all interfaces (`any`), at a mirror of both directions, or on two VLANs of one router holds each
           packet more than once; networks duplicate some as well. A copy has the same TCP header as an earlier frame,
           checksum and SACK blocks included, however many frames lie between. It is a copy if one of these holds:
             The sender gives each packet another IP identification, and both frames have the same; the copy comes
             within 180 ms, or at any time if both have the same timestamp.
             The copy is in another file, at any time, and has the same such identification or the same timestamp.
             The sender gives no such identification (nor in what follows). The copy carries data, SYN or FIN and comes
             within a millisecond, and the other side sent nothing meanwhile (a SYN: whatever it sent).
             The connection has copies by these rules, and the copy carries data or FIN and comes within a millisecond,
             or within 10 ms with the same timestamp (a SYN: at any time), whatever the other side sent meanwhile.
             The connection has copies by these rules, and the copy is a pure ACK within a millisecond; the other
             side sent nothing meanwhile.
Reads as   rows to leave out before anything is counted: they are neither losses nor retransmissions.
Fails as   a retransmission: a copy that comes later, or of a host whose packets all have the same IP identification.
Differs    from tshark, which calls copies retransmissions, and gives no round trip of a duplicated handshake.
Source     RFC 791 3.1 and RFC 6864 (identifications differ while packets may be in flight)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from configtron.fingerprint.passive.columns import COUNTED, FILE_SHIFT, STAMPED, Column, Rows, hashed, radix_order
from configtron.model.nouns import FIN, SYN

# A copy comes from this machine or the next. A timer or three duplicate ACKs take longer than these times, but for the
# shortest paths. A retransmission there has another IP identification, or a later timestamp (its clock ticks each ms).
STAMPED_NS, PLAIN_NS = 10_000_000, 1_000_000
# Shorter than the shortest retransmission timer: some hosts retransmit with the same IP identification.
NUMBERED_NS = 180_000_000
ALIKE = ("side", "seq", "ack", "flags", "window", "length", "tsval", "tsecr", "ident", "check")
# The bits that are kept of a row's hash. Among a million rows a collision is rare; it can hide a copy.
HASH_BITS = np.uint64(48)


# (rows, their connections) -> (earlier row, later row) of each pair of equal rows, in any order.
EqualPairs = Callable[[Rows, Column], tuple[Column, Column]]


def copied(rows: Rows, of: Column, equal: EqualPairs) -> Column:
    """Return which rows are copies. `rows` are sorted by connection (`of`), then by time; equal: `equal_pairs`."""
    found = np.zeros(rows.size, bool)
    earlier, later = equal(rows, of)
    if not len(later):
        return found
    gap = rows.at[later] - rows.at[earlier]
    numbered = (rows.ident[later] != 0) & _identification_varies(rows, of)[of[later], rows.side[later]]
    has_sequence = (rows.length[later] > 0) | ((rows.flags[later] & (SYN | FIN)) != 0)
    # No handshake timer is as short as `PLAIN_NS`, so a SYN may be a copy whatever the other side sent.
    syn = (rows.flags[later] & SYN) != 0
    # Two files may come from two machines, whose clocks differ.
    apart = rows.frame[later] >> FILE_SHIFT != rows.frame[earlier] >> FILE_SHIFT
    plain = ~numbered & (gap >= 0)
    soon = plain & (gap <= PLAIN_NS)
    unanswered = _unanswered(rows, found, earlier, later)
    stamped = (rows.bits[later] & STAMPED) != 0
    sure = (apart & (numbered | stamped)) | (numbered & (stamped | (gap <= NUMBERED_NS)))
    sure |= soon & has_sequence & (unanswered | syn)
    doubled = np.zeros(int(of[-1]) + 1, bool)
    doubled[of[later[sure]]] = True
    sure |= doubled[of[later]] & has_sequence & (soon | (plain & stamped & (syn | (gap <= STAMPED_NS))))
    found[later[sure]] = True
    found[later[soon & doubled[of[later]] & _unanswered(rows, found, earlier, later)]] = True
    return found


def _unanswered(rows: Rows, copies: Column, earlier: Column, later: Column) -> Column:
    """Return whether the other side sent nothing but copies between these rows."""
    theirs = [np.flatnonzero((rows.side != side) & ~copies) for side in (0, 1)]
    side_0, side_1 = (sent.searchsorted(later, "right") == sent.searchsorted(earlier, "right") for sent in theirs)
    unanswered: Column = np.where(rows.side[later] == 1, side_1, side_0)
    return unanswered


def equal_pairs(rows: Rows, of: Column) -> tuple[Column, Column]:
    """Return (earlier row, later row) of each pair of equal rows of a connection; the earlier is the nearest."""
    mixed = hashed((of, rows.seq, rows.ack, rows.check.astype(np.uint64) << np.uint64(16) | rows.ident))
    order = radix_order(mixed >> (np.uint64(64) - HASH_BITS))
    mixed = mixed[order]
    at = np.flatnonzero(mixed[1:] == mixed[:-1])
    earlier, later = order[at], order[at + 1]
    alike = (of[earlier] == of[later]) & ((rows.bits[later] & COUNTED) == 0)
    for name in ALIKE:
        column = getattr(rows, name)
        alike &= column[earlier] == column[later]
    return earlier[alike], later[alike]


def _identification_varies(rows: Rows, of: Column) -> Column:
    """Return, by connection and side, whether the IP identification ever changes from one packet to the next."""
    found = np.zeros((int(of[-1]) + 1, 2), bool)
    for side in (0, 1):
        way = np.flatnonzero(rows.side == side)
        differs = (rows.ident[way[1:]] != rows.ident[way[:-1]]) & (of[way[1:]] == of[way[:-1]])
        found[of[way[1:][differs]], side] = True
    return found
