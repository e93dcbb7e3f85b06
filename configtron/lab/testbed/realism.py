# SPDX-License-Identifier: MIT
"""The conditions of the study `realism`, and the figures that an earlier run measured on them.

Question   On which networks do configurations differ, though bandwidth, round trip and loss are the same?
Method     46 conditions: buffers of 0.1 to 10 bandwidth-delay products (`link`), policers, independent and bursty
           losses, neighbours, gathered ACKs, access links, traces, small receive windows. Where nothing else varies, a
           load's rate and round trip are drawn within 6 %, so that repeats differ as real visits do.
Reads as   `ROWS` and `DAMAGE`. The figures are of one run of six loads a cell on 2026-11-22, before this testbed had
           these conditions: no spread, neighbours with the page's own round trip, traces from a fixed moment, `results`
           in place of `shop` at 0.25 Mbit/s. They are for comparison (`studies/heterogeneity.py`); no default depends
           on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class PublishedStatic(NamedTuple):
    """Earlier figures of a set of configurations: its best static one, and regrets over the conditions, per cent.

    name     all: every configuration. guarded: no bbr, unpaced windows up to 30, 64 only paced. grid: of those, windows
             up to 30. grid+bbr: the same with bbr
    within   share of conditions in which the static one is within 5 % of the best
    gain     what the optimum of each condition gains on held-out loads, with its 5th and 95th percentile
    """

    name: str
    configuration: str
    mean: float
    p95: float
    most: float | None
    within: float | None
    gain: float
    gain_low: float | None
    gain_high: float | None


STATICS = (
    PublishedStatic("grid+bbr", "bbr/30/h2", 3.1, 14, 41, 87, 2.0, 0.5, 3.7),
    PublishedStatic("all", "bbr/64/h2", 5.1, 25, None, None, 3.8, None, None),
    PublishedStatic("grid", "cubic/30/fq/h2", 7.5, 36, 83, 72, 4.3, 1.5, 7.8),
    PublishedStatic("guarded", "cubic/64/fq/h2", 6.3, 33, 52, 70, 4.2, 1.9, 6.8),
)


class PublishedArms(NamedTuple):
    """Earlier figures of the grid: regret where the best of these configurations serves each condition, per cent."""

    configurations: tuple[str, ...]
    mean: float
    p95: float


ARMS = (
    PublishedArms(("cubic/30/fq/h2", "cubic/30/fq/h1"), 1.2, 8),
    PublishedArms(("cubic/30/fq/h2", "cubic/30/fq/h1", "cubic/10/fq/h2"), 0.6, 3.3),
    PublishedArms(("cubic/10/h1",), 33, 73),
    PublishedArms(("cubic/10/h2",), 33, 82),
)


class LabRow(NamedTuple):
    """A condition and its earlier figures: ms are geometric means over sites of a cell's median; the rest per cent.

    best       of all 44 configurations; regret of their best static one, bbr/64/h2
    guarded    best that the guard of `tune` permits; regret of their best static one, cubic/64/fq/h2; gain of the
               optimum over it on held-out loads
    h1_over_h2 how much longer the best of HTTP/2 takes than the best of HTTP/1.1 (above 0: six connections are faster)
    """

    condition: str
    default_h1_ms: int
    default_h2_ms: int
    best: str
    best_ms: int
    regret: int
    guarded: str
    guarded_ms: int
    guarded_regret: int
    guarded_gain: int
    h1_over_h2: int


ROWS = (
    LabRow("hotcloud:1/150/2.5", 4276, 5088, "bbr/30/h2", 3964, 1, "cubic/30/fq/h1", 4147, 9, 7, 12),
    LabRow("hotcloud:5/150/2.5", 2378, 4390, "bbr/64/h2", 1664, 0, "cubic/64/fq/h1", 1862, 52, 34, 75),
    LabRow("hotcloud:5/50/0,spread=6", 1009, 1003, "vegas/30/h2", 906, 2, "vegas/30/h2", 906, 2, 2, -7),
    LabRow("link:100/20/0.1,spread=6", 349, 306, "bbr/64/h2", 160, 0, "cubic/30/fq/h2", 172, 6, 6, -19),
    LabRow("link:20/60/0.1,spread=6", 1057, 1055, "bbr/30/h2", 537, 29, "cubic/30/fq/h2", 582, 17, 15, -17),
    LabRow("link:20/60/0.25,spread=6", 975, 784, "bbr/30/h2", 537, 3, "cubic/30/fq/h2", 569, 9, 8, -18),
    LabRow("link:20/60/1,spread=6", 670, 620, "cubic/64/h2", 503, 3, "cubic/64/fq/h2", 545, 0, 0, -5),
    LabRow("link:5/50/0.25,spread=6", 1357, 1216, "bbr/10/h2", 1054, 17, "cubic/30/fq/h2", 1104, 2, 2, -7),
    LabRow("policer:1.5/30/30000,spread=6", 1837, 1816, "reno/10/fq/h2", 1661, 7, "reno/10/fq/h2", 1661, 11, 10, -7),
    LabRow("policer:10/80/64000,spread=6", 1171, 1052, "bbr/30/h2", 743, 3, "reno/30/fq/h2", 767, 1, 1, -15),
    LabRow("policer:2/100/8000,spread=6", 3669, 4695, "bbr/4/h2", 2415, 22, "cubic/10/fq/h2", 2596, 12, 11, -6),
    LabRow("policer:5/50/128000,spread=6", 892, 842, "cubic/64/h2", 746, 2, "reno/64/fq/h2", 761, 1, 1, -1),
    LabRow("policer:5/50/16000,spread=6", 1411, 1759, "bbr/10/h2", 938, 26, "cubic/10/fq/h2", 1000, 20, 16, -2),
    LabRow("link:10/80/1,loss=1,runs=8", 1112, 928, "bbr/64/h2", 776, 0, "cubic/64/fq/h2", 789, 0, 0, -14),
    LabRow("link:10/80/1,loss=3,runs=8", 1171, 1033, "bbr/64/h2", 771, 0, "cubic/30/fq/h2", 848, 1, 2, -14),
    LabRow("link:10/80/1,loss=1", 1081, 1311, "bbr/64/h2", 807, 0, "cubic/64/fq/h2", 939, 0, -4, 2),
    LabRow("link:10/80/1,loss=3", 1820, 3509, "bbr/30/h2", 1309, 3, "cubic/64/fq/h1", 1532, 52, 32, 79),
    LabRow("link:3/150/1,loss=2,runs=8", 2753, 2222, "bbr/64/h2", 1955, 0, "cubic/64/fq/h2", 2002, 0, -2, -7),
    LabRow("link:3/150/1,loss=2", 2675, 3675, "bbr/30/h2", 2065, 0, "cubic/30/fq/h1", 2363, 14, 11, 24),
    LabRow("link:5/60/1,loss=0.1", 1265, 1071, "cubic/30/h2", 964, 3, "cubic/30/h2", 964, 2, 2, -8),
    LabRow("link:10/40/0.25,neighbours=1", 1069, 1156, "bbr/30/h2", 747, 15, "cubic/30/fq/h2", 849, 2, 0, -5),
    LabRow("link:10/40/1,neighbours=1", 1503, 1767, "bbr/30/h2", 1025, 6, "cubic/64/fq/h2", 1103, 0, 0, 7),
    LabRow("link:10/40/1,neighbours=4", 1734, 2239, "bbr/10/h2", 1131, 10, "cubic/64/fq/h1", 1193, 15, 8, 32),
    LabRow("link:20/80/1,neighbours=2", 1983, 1708, "bbr/64/h2", 1127, 0, "cubic/64/fq/h2", 1234, 0, -1, -10),
    LabRow("link:10/40/8,spread=6", 614, 616, "cubic/64/fq/h2", 532, 0, "cubic/64/fq/h2", 532, 0, 0, -5),
    LabRow("link:10/40/8,neighbours=1", 4531, 5310, "bbr/64/h2", 3013, 0, "cubic/64/fq/h2", 3244, 0, -3, 5),
    LabRow("link:10/40/8,neighbours=4", 5021, 5208, "bbr/64/h2", 2703, 0, "cubic/64/fq/h2", 3113, 0, -2, 4),
    LabRow("link:3/60/10,neighbours=1", 8586, 8924, "bbr/64/h2", 6641, 0, "cubic/30/fq/h2", 6930, 4, -6, -10),
    LabRow("link:20/40/1,spread=6", 555, 479, "cubic/64/fq/h2", 393, 7, "cubic/64/fq/h2", 393, 0, 0, -16),
    LabRow("link:20/40/1,acks=20,spread=6", 794, 620, "bbr/64/h2", 469, 0, "cubic/30/fq/h2", 485, 7, 7, -9),
    LabRow("link:20/40/1,acks=40,spread=6", 863, 773, "bbr/64/h2", 529, 0, "cubic/64/fq/h2", 538, 0, 0, -9),
    LabRow("link:50/20/1,acks=10,spread=6", 415, 313, "bbr/64/h2", 227, 0, "cubic/64/fq/h2", 230, 0, 0, -9),
    LabRow("link:100/30/1,spread=6", 317, 278, "cubic/64/h2", 208, 6, "cubic/64/fq/h2", 216, 0, 0, -13),
    LabRow("link:100/5/1,spread=6", 96, 78, "bbr/64/h2", 64, 0, "cubic/64/fq/h2", 64, 0, 0, -21),
    LabRow("link:0.25/400/3.68,spread=6", 8566, 7781, "vegas/10/h2", 7779, 1, "vegas/10/h2", 7779, 2, 2, -3),
    LabRow("access:3g,spread=6", 4831, 4264, "bbr/64/h2", 3687, 0, "cubic/64/fq/h2", 3740, 0, 0, -14),
    LabRow("link:25/600/1,loss=0.5,up=3", 6742, 5922, "bbr/64/h2", 4299, 0, "cubic/64/fq/h2", 4620, 0, -1, -5),
    LabRow("access:satellite,spread=6", 6344, 4991, "vegas/64/h2", 3613, 11, "cubic/64/fq/h2", 3980, 0, 0, -10),
    LabRow("trace:commute@drawn+20", 1210, 1218, "reno/64/fq/h2", 1057, 0, "reno/64/fq/h2", 1057, 0, 0, -4),
    LabRow("trace:commute@0+20,spread=6", 1349, 1364, "cubic/64/h2", 1220, 5, "reno/64/fq/h2", 1222, 0, 0, -3),
    LabRow("trace:desk@0+20,spread=6", 716, 615, "cubic/64/h2", 515, 2, "cubic/64/fq/h2", 515, 0, 0, -3),
    LabRow("trace:walk@60+20,spread=6", 2814, 2799, "cubic/10/fq/h2", 2753, 1, "cubic/10/fq/h2", 2753, 0, 0, -2),
    LabRow("link:20/100/1,spread=6", 1069, 915, "bbr/64/h2", 730, 0, "reno/64/fq/h2", 740, 0, 0, -12),
    LabRow("link:20/100/1,window=65536,spread=6", 1095, 1160, "bbr/64/h1", 874, 11, "reno/64/fq/h1", 877, 10, 9, 11),
    LabRow("link:5/150/1,window=32768,spread=6", 1876, 2603, "vegas/64/h1", 1796, 37, "cubic/30/h1", 1801, 37, 27, 35),
    LabRow("link:5/150/1,spread=6", 2155, 1759, "bbr/64/h2", 1461, 0, "cubic/64/fq/h2", 1501, 0, 0, -7),
)

# Configurations of the earlier run's table of damage.
DAMAGED = (
    "cubic/10/h1", "cubic/10/h2", "cubic/30/fq/h2", "cubic/64/fq/h2", "cubic/30/fq/h1",
    "cubic/64/fq/h1", "bbr/30/h2", "bbr/30/h1",
)  # fmt: skip
# Bytes that neighbours lost for each byte of the page, of `reference` and `shop`, by configuration.
DAMAGE: Mapping[str, tuple[tuple[float, float], ...]] = {
    "link:10/40/0.25,neighbours=1": (
        (2.21, 1.62), (1.25, 1.16), (1.83, 1.42), (2.09, 1.35), (3.21, 1.80), (3.59, 1.84), (2.87, 1.61), (3.45, 1.91),
    ),
    "link:10/40/1,neighbours=1": (
        (1.17, 1.15), (1.01, 1.03), (1.01, 1.04), (1.12, 1.08), (1.69, 1.41), (1.81, 1.44), (2.42, 1.40), (2.59, 1.77),
    ),
    "link:10/40/1,neighbours=4": (
        (1.04, 1.02), (1.01, 1.01), (1.03, 1.02), (1.02, 1.01), (1.09, 1.06), (1.23, 1.09), (1.21, 1.12), (1.23, 1.11),
    ),
    "link:20/80/1,neighbours=2": (
        (1.05, 1.02), (1.03, 1.01), (1.03, 1.01), (1.04, 1.36), (1.06, 1.02), (1.08, 1.25), (1.09, 1.78), (1.15, 1.09),
    ),
    "link:10/40/8,neighbours=1": (
        (1.06, 1.02), (1.03, 1.01), (1.04, 1.01), (1.03, 1.01), (1.04, 1.02), (1.04, 1.02), (1.04, 1.01), (1.05, 1.02),
    ),
    "link:10/40/8,neighbours=4": (
        (1.02, 1.01), (1.00, 1.00), (1.01, 0.97), (1.00, 0.97), (1.02, 0.99), (1.01, 1.01), (1.00, 0.97), (1.01, 0.98),
    ),
    "link:3/60/10,neighbours=1": (
        (1.09, 1.02), (1.08, 0.98), (1.08, 1.00), (1.06, 1.00), (1.09, 1.00), (1.08, 1.03), (1.05, 1.00), (1.07, 1.02),
    ),
}  # fmt: skip

# Networks of the study `visits`, and how each is visited: first; with a server that thinks; resumed; warm.
VISITED = (
    "link:20/60/0.1,spread=6", "link:20/60/1,spread=6", "link:10/80/1,loss=3", "policer:5/50/16000,spread=6",
    "link:5/150/1,window=32768,spread=6", "link:5/150/1,spread=6",
)  # fmt: skip
VISITS = ("", ",think=100", ",resumed=1", ",warm=4")
