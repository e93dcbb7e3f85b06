# SPDX-License-Identifier: MIT
"""Characteristics of a path, measured at the server during a load: one number for each row of `characteristics.py`.

Question   What distinguishes networks of the same bandwidth, round trip and loss: a full buffer, a policer?
Method     When a connection ends the kernel broadcasts its `struct tcp_info` on a netlink socket; a tap on the servers'
           device records every packet's sequence, acknowledgement and time. A load is represented by the connection
           that carried most bytes, a path by the median over loads under the default congestion control, window and
           pacing, so that a column means the same in every row.
           The kernel keeps no runs of losses: here a run is retransmitted segments that follow one another in the
           stream, however many times each was sent again.
Reads as   a value for each characteristic; one that no load could show is left out.
Source     linux/tcp.h, linux/sock_diag.h (SKNLGRP_INET_TCP_DESTROY); Flach and others 2016
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from configtron.fingerprint.tcp_info import NEVER_US, field_of
from configtron.lab.testbed.tap import Seen
from configtron.lab.testbed.wires import SERVERS
from configtron.linux.sock_diag import INFO, Destroyed

# Bytes of a `struct tcp_info` that has every field read here (up to snd_wnd, Linux 5.4).
INFO_BYTES = 232
HTTPS = 443
# A delivery rate is averaged over so many round trips, and at least so long: over fewer packets it is chance.
RATE_TRIPS, RATE_LEAST_S = 2.0, 0.05
# ACKs closer than this count as one.
TOGETHER_S = 0.0002
# Fewest ACKs from which their spacing and a delivery rate are taken.
LEAST_ACKS = 8

View = Mapping[str, float]


class ClosedConnections:
    """The kernel's broadcasts about connections that ended; `read` returns those since the last call."""

    def __init__(self) -> None:
        self._destroyed = Destroyed(SERVERS)

    def read(self) -> list[tuple[int, View]]:
        """Return (bytes acknowledged, characteristics) of each ended connection."""
        infos = (one.attributes.get(INFO, b"") for one in self._destroyed.read())
        return [view_of(info) for info in infos if len(info) >= INFO_BYTES]

    def close(self) -> None:
        self._destroyed.close()


def view_of(info: bytes) -> tuple[int, View]:
    """(bytes acknowledged, characteristics) by a `struct tcp_info`; without a round-trip sample those are left out."""
    window, reordering, rate, rtt_us, rttvar_us, min_rtt_us = (
        field_of(info, name) for name in ("snd_wnd", "reordering", "delivery_rate", "rtt_us", "rttvar_us", "min_rtt_us")
    )
    found = {"window_bytes": float(window), "reordering": float(reordering)}
    if rate:
        found["delivery_kbps"] = rate * 8e-3
    if rtt_us and min_rtt_us != NEVER_US:
        found |= {"min_rtt_ms": min_rtt_us / 1e3, "jitter_ms": rttvar_us / 1e3}
        found["queue_ms"] = max(0.0, (rtt_us - min_rtt_us) / 1e3)
    return field_of(info, "bytes_acked"), found


def of_load(endings: Sequence[tuple[int, View]], seen: Seen, rtt_s: float) -> View:
    """Return a load's characteristics, by kernel and packets, of the connection that carried most bytes.

    rtt_s: the path's round trip, seconds.
    """
    kernel = max(endings, key=lambda one: one[0])[1] if endings else {}
    sent = seen[(seen["port"] == HTTPS) & (seen["payload"] > 0)]
    if not len(sent):
        return kernel
    peers, counts = np.unique(sent["peer"], return_counts=True)
    peer = peers[counts.argmax()]
    acks = seen[(seen["peer"] == HTTPS) & (seen["port"] == peer)]
    return {**kernel, **_runs(sent), **_rhythm(sent[sent["peer"] == peer], acks, rtt_s)}


def _runs(sent: Seen) -> View:
    """`loss_run`: mean length of runs of retransmitted segments, over all connections."""
    runs: list[int] = []
    for peer in np.unique(sent["peer"]):
        own = sent[sent["peer"] == peer]
        first: dict[int, int] = {}
        again: set[int] = set()
        for sequence, payload in zip(own["sequence"].tolist(), own["payload"].tolist(), strict=True):
            if sequence in first:
                again.add(sequence)
            first[sequence] = max(first.get(sequence, 0), payload)
        end = -1
        for sequence in sorted(again):
            if sequence == end:
                runs[-1] += 1
            else:
                runs.append(1)
            end = sequence + first[sequence]
    return {"loss_run": float(np.mean(runs))} if runs else {}


def _rhythm(sent: Seen, acks: Seen, rtt_s: float) -> View:
    """`ack_gap_ms`: mean time between ACKs; `delivery_share`: delivery rate in the later half over its maximum."""
    total = _unwrapped(acks["acknowledged"])
    at_s = acks["at_ns"] / 1e9
    moved = np.flatnonzero(np.diff(total) > 0) + 1
    if len(moved) < LEAST_ACKS:
        return {}
    at_s, total = at_s[moved], total[moved]
    gaps = np.diff(at_s)
    # without gaps of a whole round trip: there the window was used up, or nothing was left to send
    busy = gaps[(gaps < max(rtt_s, RATE_LEAST_S)) & (gaps > TOGETHER_S)]
    found = {"ack_gap_ms": float(busy.mean() * 1e3)} if len(busy) else {}
    window_s = max(RATE_TRIPS * rtt_s, RATE_LEAST_S)
    before = np.searchsorted(at_s, at_s - window_s)
    rates = (total - total[before]) / window_s
    whole = at_s - at_s[0] >= window_s
    late = rates[whole & (at_s > (at_s[0] + at_s[-1]) / 2)]
    if len(late) and rates.max() > 0:
        found["delivery_share"] = float(min(1.0, np.median(late) / rates.max()))
    return found


def _unwrapped(numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Acknowledgements counted on from the first."""
    wide = numbers.astype(np.int64)
    steps: NDArray[np.int64] = np.diff(wide, prepend=wide[:1])
    return np.cumsum((steps + 2**31) % 2**32 - 2**31)


def of_path(views: Iterable[View]) -> dict[str, float]:
    """Return the median of each characteristic over the loads that have it."""
    every = list(views)
    names = sorted({name for view in every for name in view})
    return {name: round(median(view[name] for view in every if name in view), 6) for name in names}
