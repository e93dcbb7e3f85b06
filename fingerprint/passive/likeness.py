# SPDX-License-Identifier: MIT
"""Which probe each conversation is like, and how its opening went: columns over connections.

Question   Which script of ours could have held this conversation?
Method     A handshake that was never completed is like `rto`; one in which the server's first flight stayed
           unacknowledged until the server repeated itself, or long after, is like `icw`; any other is like `rwin`.
Reads as   a probe's name for each connection.
Fails as   `rwin`, the probe that concludes least, where the SYN or its options were not captured.
Differs    from our own probes, which know what they sent: a client that is merely slow can look like `icw`.
Source     RFC 9293 3.8.6.3 (delayed ACKs); RFC 5681 4.2 (an ACK every second segment)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import Column
from configtron.fingerprint.passive.connections import Connections, leader
from configtron.fingerprint.passive.heads import Heads
from configtron.fingerprint.passive.summary import ConnectionSummary

# An ACK of data that waits longer than this many round trips, and longer than a delayed ACK ever does (200 ms, RFC 9293
# 3.8.6.3 allows 500), was withheld; three segments are acknowledged at once.
WITHHELD_RTTS, WITHHELD_S = 1.5, 0.06
WITHHELD_SEGMENTS = 3
# After every row of a batch.
NO_ROW = np.iinfo(np.int64).max


class Likeness(NamedTuple):
    """What the readers must know of each connection.

    probe    the probe that the conversation is like: "rto", "icw" or "rwin"
    whole    whether both SYNs were captured
    went_on  whether the client sent more than its SYN, or must have
    cut      whether the options of a SYN were not captured
    speaks   whether bytes of either stream were kept
    """

    probe: Column
    whole: Column
    went_on: Column
    cut: Column
    speaks: Column


def likeness(found: Connections, summary: ConnectionSummary, heads: Heads) -> Likeness:
    """Return the columns; `heads`: the bytes that were kept of the connections' streams."""
    acknowledged = ~found.server & (found.ack >= 1)
    answered: Column = np.bincount(found.of[acknowledged], minlength=found.total) > 0
    opened, cut = found.opened[:, 0], summary.columns["options_cut"] == 1
    probe = np.where(_withheld(found, summary), "icw", "rwin")
    # Without a SYN: whether the client never answered or was not captured is unknown; without options, the agreed ones.
    probe = np.where(opened & ~cut, np.where(answered, probe, "rto"), "rwin")
    payloads = [frame for frame, head in heads.kept.items() if head.payload]
    kept = np.isin(found.rows.frame, np.array(payloads, np.int64))
    speaks: Column = np.bincount(found.of[kept], minlength=found.total) > 0
    whole: Column = found.opened[:, 0] & found.opened[:, 1]
    return Likeness(probe, whole, answered | ~opened, cut, speaks)


def _withheld(found: Connections, summary: ConnectionSummary) -> Column:
    """Return whether the first flight was left unacknowledged on purpose."""
    rows, of, count = found.rows, found.of, found.total
    sent = np.flatnonzero(found.server & (rows.length > 0))
    first = leader(of, sent, count)
    # A segment of the client after data came, if it brings no data itself, acknowledges that data: duplicate ACKs too.
    # One that acknowledges data which the capture shows later was no later: the clocks of two files differ.
    after = np.arange(rows.size) > np.where(first < 0, NO_ROW, first)[of]
    heard = leader(of, np.flatnonzero(~found.server & ((found.ack > 1) | (after & (rows.length == 0)))), count)
    flight = sent[sent < np.where(heard < 0, NO_ROW, heard)[of[sent]]]
    segments = np.bincount(of[flight], minlength=count)
    repeated = np.bincount(of[flight[found.seq[flight] == 1]], minlength=count) > 1
    until = rows.at[np.where(heard < 0, found.end - 1, heard)]
    waited = until - rows.at[np.maximum(first, 0)]
    least = np.maximum(WITHHELD_RTTS * _round_trip_ns(found, summary), WITHHELD_S * 1e9)
    late = (segments >= WITHHELD_SEGMENTS) & (waited > least)
    withheld: Column = (first >= 0) & (repeated | late)
    return withheld


def _round_trip_ns(found: Connections, summary: ConnectionSummary) -> Column:
    """Return the handshake's round trip; where Karn's rule forbids one, how soon the server's first segment came."""
    first = leader(found.of, np.flatnonzero(found.server), found.total)
    at = found.rows.at
    came = at[np.where(first < 0, found.begin, first)] - at[found.begin]
    rtt = summary.columns["rtt"]
    return np.where(rtt < 0, came, rtt)
