# SPDX-License-Identifier: MIT
"""Figures of one run over its time, out of its packets. Pure.

Question   What did each flow do, second by second?
Method     The run's time is cut into equal slices. A flow's throughput in a slice is what arrived in it; its delay is
           the 95th percentile of the packets that were sent in it and arrived; its loss is the share of those that did
           not. A slice without a packet has no delay: a gap, not a zero.
Source     Pantheon (Yan and others 2018), section 3.2: the time series of its reports
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from configtron.lab.testbed.transits import LATE, Transits
from configtron.studies.output.results import Curve, Curves

# As many slices as a drawing of this width shows apart.
SLICES = 60
Points = list[tuple[float, float, float, float]]


def over_time(flows: Sequence[Transits], names: Sequence[str], duration_s: float) -> list[Curves]:
    """Return throughput, delay and loss of each flow over the run's time; packets are since the run's beginning."""
    rows = [_slices(flow, duration_s) for flow in flows]
    titles = ("Throughput", "Mbit/s"), ("95th percentile of one-way delay", "ms"), ("Loss", "% of packets sent")
    return [
        Curves(title, "seconds since the run's beginning", unit,
               [Curve(name, row[at]) for name, row in zip(names, rows, strict=False)])
        for at, (title, unit) in enumerate(titles)
    ]  # fmt: skip


def _slices(flow: Transits, duration_s: float) -> tuple[Points, Points, Points]:
    """Throughput, delay, loss: a point a slice that has one."""
    width_ns = duration_s * 1e9 / SLICES
    sent_in, came_in = (np.floor(times / width_ns).astype(np.int64) for times in (flow.sent_ns, flow.arrived_ns))
    mbit: Points = []
    late: Points = []
    loss: Points = []
    for n in range(SLICES):
        middle = (n + 0.5) * width_ns / 1e9
        carried = int(flow.length[flow.arrived & (came_in == n)].sum())
        mbit.append((middle, carried * 8e3 / width_ns, math.nan, math.nan))
        sent = sent_in == n
        arrived = sent & flow.arrived
        if arrived.any():
            delay = np.percentile(flow.arrived_ns[arrived] - flow.sent_ns[arrived], 100 * LATE) / 1e6
            late.append((middle, float(delay), math.nan, math.nan))
        if sent.any():
            loss.append((middle, 100 * (1 - int(arrived.sum()) / int(sent.sum())), math.nan, math.nan))
    return mbit, late, loss
