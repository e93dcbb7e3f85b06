# SPDX-License-Identifier: MIT
"""Several runs of one conversation as a time-sequence plot: time to the right, the server's bytes upwards.

A mark is a segment of the server's data. The runs share both axes, so a larger first flight stands higher at once and a
paced one leans. Time counts from the request in round trips; each run stands a little to the right of the one before,
or those that are the same would hide each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from configtron.model.nouns import Trace
from configtron.report.page.charts import COLORS, legend
from configtron.report.page.markup import add, el, percent, stretched
from configtron.report.page.ticks import ticks

# Pixels; LEFT: of 100 across, for the numbers.
HEIGHT, TOP, BOTTOM, RADIUS, LEFT = 260, 14, 34, 3, 17.0
# Round trips by which a run stands to the right of the one before.
ASIDE = 0.05
# The first flight, the second and the beginning of the third; later ones would press the first one flat.
SPAN_RTTS = 2.4


class SequenceRun(NamedTuple):
    """One run: its name, its packets."""

    name: str
    trace: Trace


def points(trace: Trace, rtt_s: float) -> list[tuple[float, int]]:
    """(round trips since the request, end of the segment in bytes) of each of the server's data segments shown."""
    asked = next((p.at for p in trace.packets if p.way == "out" and p.segment.length), 0.0)
    data = (p for p in trace.packets if p.way == "in" and p.segment.length)
    found = [((p.at - asked) / rtt_s, p.segment.end - 1) for p in data]
    return [(at, end) for at, end in found if at <= SPAN_RTTS]


def sequence(runs: Sequence[SequenceRun], rtt_s: float, title: str) -> Element:
    """Return the plot below the names of its runs."""
    drawn = [(run.name, points(run.trace, rtt_s)) for run in runs]
    top = max((end for _, found in drawn for _, end in found), default=1)
    svg = stretched(HEIGHT, f"{title}: " + "; ".join(f"{name} {_described(found)}" for name, found in drawn))
    floor = HEIGHT - BOTTOM
    for tick in range(int(SPAN_RTTS) + 1):
        x = _across(tick)
        add(svg, el("line", x1=x, x2=x, y1=TOP, y2=floor, class_="grid"))
        add(svg, el("text", f"{tick} RTT", x=x, y=floor + 18, text_anchor="middle", class_="t-soft"))
    for size, word in ticks(0.0, top / 1e3):
        y = floor - (floor - TOP) * size * 1e3 / top
        add(svg, el("line", x1=_across(0.0), x2="100%", y1=y, y2=y, class_="grid"))
        add(svg, el("text", f"{word} kB", x=0, y=y + 4, class_="t-soft"))
    for n, (name, found) in enumerate(drawn):
        for at, end in found:
            y = floor - (floor - TOP) * end / top
            tip = el("title", f"{name}: {at:.2f} RTT, {end} bytes")
            add(svg, el("circle", tip, cx=_across(at + ASIDE * n), cy=y, r=RADIUS, class_=f"s{n % COLORS}"))
    return el("div", legend(run.name for run in runs), svg)


def _across(rtts: float) -> str:
    return percent(LEFT + (100.0 - LEFT) * rtts / (SPAN_RTTS + ASIDE * COLORS))


def _described(found: Sequence[tuple[float, int]]) -> str:
    """Describe a run in words, for screen readers: segments of the first round trip and their bytes."""
    first = [end for at, end in found if at < 1]
    return f"{len(first)} segments, {max(first, default=0)} bytes in the first round trip"
