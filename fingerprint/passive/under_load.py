# SPDX-License-Identifier: MIT
"""Rows -> characteristics of a path that shows them only under load: runs of losses, spacing of ACKs, late rate.

Question   Do losses come in runs, are ACKs gathered, is a transfer slowed down after it began (a policer)?
Method     Runs: segments that were sent again, each counted once, form a run where they follow one another in the
           stream. Spacing: times between ACKs that acknowledge new data, without those of `TOGETHER_NS` and less and
           without those of a whole round trip, in which the window was used up or nothing was left to send. Rates:
           bytes acknowledged within two round trips (at least `WINDOW_NS`) before each such ACK; late are those of
           the transfer's second half. The round trip is that of the handshake.
Reads as   columns over connections, by the names of `summary.LOAD`. Counts are of rows that no earlier part of the
           connection had: those of all rows less those of the rows that were counted then.
Fails as   0 runs where nothing was sent again; `ABSENT` rates for fewer than `LEAST_ACKS` such ACKs.
Differs    from tcp_info, which has none of them. Of a connection of which rows are forgotten (`gathering.py`), the
           late rate is that of its latest part.
Source     RFC 2018; Flach et al., SIGCOMM 2016 (policers); tcp_bbr.c (ACK aggregation)
"""

from __future__ import annotations

import numpy as np

from configtron.fingerprint.passive.columns import ABSENT, COUNTED, Column
from configtron.fingerprint.passive.connections import Connections, edges
from configtron.fingerprint.passive.retransmissions import CAUSES, Retransmissions
from configtron.fingerprint.passive.round_trips import advancing

NS = 1_000_000_000
# ACKs closer than this count as one.
TOGETHER_NS = 200_000
# A delivery rate is averaged over so many round trips, and at least so long: over fewer packets it is chance.
RATE_TRIPS, WINDOW_NS = 2, 50_000_000
# Fewest ACKs from which their spacing and a delivery rate are taken.
LEAST_ACKS = 8


def under_load(found: Connections, number: int, again: Retransmissions, rtt_ns: Column) -> dict[str, Column]:
    """Return columns over connections of side `number`'s segments; rtt_ns (connections,) of the handshake, or less than
    0."""
    counted = (found.rows.bits & COUNTED) != 0
    return _runs(found, again, counted) | _spacing(found, number, rtt_ns, counted)


def _runs(found: Connections, again: Retransmissions, counted: Column) -> dict[str, Column]:
    data = (again.kind < len(CAUSES)) & (found.rows.length[again.row] > 0)
    row, of = again.row[data], again.of[data]
    whole, before = (_counts_of_runs(found, row[some], of[some]) for some in (slice(None), counted[row]))
    return {name: whole[name] - before[name] for name in whole}


def _counts_of_runs(found: Connections, row: Column, of: Column) -> dict[str, Column]:
    """Return runs, the segments in them, and their bytes, by connection."""
    start, length = found.seq[row], found.rows.length[row].astype(np.int64)
    # of a segment that was sent again several times, the longest first
    order = np.lexsort((-length, start, of))
    of, start, length = of[order], start[order], length[order]
    fresh = np.ones(len(of), bool)
    fresh[1:] = (of[1:] != of[:-1]) | (start[1:] != start[:-1])
    of, start, length = of[fresh], start[fresh], length[fresh]
    begins = np.ones(len(of), bool)
    begins[1:] = (of[1:] != of[:-1]) | (start[1:] > (start + length)[:-1])
    total = np.zeros(found.total, np.int64)
    np.add.at(total, of, length)
    return {
        "again_runs": np.bincount(of[begins], minlength=found.total),
        "again_segments": np.bincount(of, minlength=found.total),
        "again_bytes": total,
    }


def _spacing(found: Connections, number: int, rtt_ns: Column, counted: Column) -> dict[str, Column]:
    acks = advancing(found, 1 - number)
    # an ACK of the SYN alone shows nothing of data
    data = acks.number > 1
    row, of, acked = acks.row[data], acks.of[data], acks.number[data]
    whole = _gaps(found, row, of, rtt_ns)
    before = _gaps(found, row[counted[row]], of[counted[row]], rtt_ns)
    columns = {name: whole[name] - before[name] for name in whole}
    late, most = (np.full(found.total, ABSENT, np.int64) for _ in range(2))
    begin, end = edges(of, found.total)
    for connection in np.flatnonzero(end - begin >= LEAST_ACKS).tolist():
        some = slice(int(begin[connection]), int(end[connection]))
        window_ns = max(RATE_TRIPS * int(rtt_ns[connection]), WINDOW_NS)
        late[connection], most[connection] = late_rate(found.rows.at[row[some]], acked[some], window_ns)
    return columns | {"late_rate": late, "window_rate_most": most}


def _gaps(found: Connections, row: Column, of: Column, rtt_ns: Column) -> dict[str, Column]:
    """Return ACKs of new data, the gaps between them that count, and their sum in ns, by connection."""
    gap = np.diff(found.rows.at[row])
    longest = np.maximum(rtt_ns, WINDOW_NS)[of[1:]]
    busy = (of[1:] == of[:-1]) & (gap < longest) & (gap > TOGETHER_NS)
    total = np.zeros(found.total, np.int64)
    np.add.at(total, of[1:][busy], gap[busy])
    return {
        "data_acks": np.bincount(of, minlength=found.total),
        "ack_gaps": np.bincount(of[1:][busy], minlength=found.total),
        "ack_gap_sum": total,
    }


def late_rate(at_ns: Column, acked: Column, window_ns: int) -> tuple[int, int]:
    """Return (median rate of the later half, largest rate), bit/s, by the times and numbers of ACKs of new data;
    `ABSENT` for a transfer that is shorter than the window."""
    before = np.searchsorted(at_ns, at_ns - window_ns)
    rates = (acked - acked[before]) * 8.0 * NS / window_ns
    late = rates[(at_ns - at_ns[0] >= window_ns) & (at_ns > (at_ns[0] + at_ns[-1]) / 2)]
    if not len(late) or rates.max() <= 0:
        return ABSENT, ABSENT
    return int(np.median(late)), int(rates.max())
