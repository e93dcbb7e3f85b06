# SPDX-License-Identifier: MIT
"""Characteristics of a client's path beyond bandwidth, round trip and loss, one row each, and categories of clients.

Rules for this file: those of `knobs.py`. A row is a field of `nouns.Context`, a column of contexts, of outcomes and of
a PLT-tensor's conditions, all under one name. An unknown number is None in a context and NaN in a column, never 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Characteristic:
    """A number that the server's kernel knows of a path.

    most    largest plausible value; `learn import` and `tensor.read` refuse more
    floor   added before the logarithm, in the same unit: smaller differences are measurement error
    """

    name: str
    unit: str
    most: float
    floor: float
    note: str
    source: str

    def ln(self, value: float) -> float:
        """The coordinate by which network classes are formed."""
        return math.log(value + self.floor)


# An hour, as for round trips; a terabit a second, as for bandwidths.
MOST_MS, MOST_KBPS = 3_600_000.0, 1e9
# RFC 7323 section 2.3: no window is larger than 2**30 bytes. Nor is a run longer than the segments such a window holds.
MOST_WINDOW_BYTES, MOST_SEGMENTS = 2.0**30, 2.0**20

CHARACTERISTICS: tuple[Characteristic, ...] = (
    Characteristic("min_rtt_ms", "ms", MOST_MS, 0.1, "least round trip: the path without its queue", "tcpi_min_rtt"),
    Characteristic("jitter_ms", "ms", MOST_MS, 1.0, "mean deviation of round trips", "tcpi_rttvar; RFC 6298"),
    Characteristic("delivery_kbps", "kbit/s", MOST_KBPS, 1.0, "latest delivery rate", "tcpi_delivery_rate"),
    Characteristic(
        "queue_ms",
        "ms",
        MOST_MS,
        2.0,
        "smoothed round trip under load less the least one: how much the bottleneck buffers",
        "tcpi_rtt - tcpi_min_rtt",
    ),
    Characteristic(
        "loss_run",
        "segments",
        MOST_SEGMENTS,
        0.1,
        "mean length of runs of lost segments: 1 where losses are independent; unknown where nothing was lost",
        "Gilbert 1960; holes between SACK blocks, RFC 2018",
    ),
    Characteristic(
        "window_bytes", "bytes", MOST_WINDOW_BYTES, 1460.0,
        "latest window that the client advertised; it grows with what the client reads", "tcpi_snd_wnd",
    ),
    Characteristic(
        "delivery_share",
        "share",
        1.0,
        0.02,
        "delivery rate late in a transfer over its maximum: well below 1 behind a policer whose bucket is empty",
        "tcpi_delivery_rate; Flach et al. 2016 (policers)",
    ),
    Characteristic(
        "ack_gap_ms", "ms", MOST_MS, 0.5, "mean time between ACKs of a busy connection: gathered ACKs come late",
        "tcp_bbr.c, ack aggregation",
    ),
    Characteristic(
        "reordering", "segments", MOST_SEGMENTS, 1.0, "how far segments overtake one another; 3 is the kernel's guess",
        "tcpi_reordering",
    ),
)  # fmt: skip

BY_NAME = {row.name: row for row in CHARACTERISTICS}
# Categories of a client's network and program; an AS number is a category, too.
NAMES = ("asn", "region", "device", "browser")
