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
from configtron.report.page.markup import add, el

# Pixels.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 260, 60, 150, 14, 34
LEGEND_STEP, ASIDE, RADIUS = 20, 9, 3
# The first flight, the second and the beginning of the third; later ones would press the first one flat.
SPAN_RTTS = 2.4
# Colours of style.css.
COLORS = 6


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
    """The plot."""
    drawn = [(run.name, points(run.trace, rtt_s)) for run in runs]
    top = max((end for _, found in drawn for _, end in found), default=1)
    svg = el("svg", role="img", viewBox=f"0 0 {WIDTH} {HEIGHT}")
    svg.set("aria-label", f"{title}: " + "; ".join(f"{name} {_described(found)}" for name, found in drawn))
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    for tick in range(int(SPAN_RTTS) + 1):
        x = LEFT + (right - LEFT) * tick / SPAN_RTTS
        add(svg, el("line", x1=x, x2=x, y1=TOP, y2=floor, class_="grid"))
        add(svg, el("text", f"{tick} RTT", x=x, y=floor + 16, text_anchor="middle", class_="t-soft"))
    for share in (0.0, 0.5, 1.0):
        y = floor - (floor - TOP) * share
        add(svg, el("line", x1=LEFT, x2=right, y1=y, y2=y, class_="grid"))
        add(svg, el("text", f"{top * share / 1000:.0f} kB", x=LEFT - 6, y=y + 4, text_anchor="end", class_="t-soft"))
    for n, (name, found) in enumerate(drawn):
        color = f"s{n % COLORS}"
        for at, end in found:
            x, y = LEFT + ASIDE * n + (right - LEFT) * at / SPAN_RTTS, floor - (floor - TOP) * end / top
            tip = el("title", f"{name}: {at:.2f} RTT, {end} bytes")
            add(svg, el("circle", tip, cx=x, cy=y, r=RADIUS, class_=color))
        y = TOP + 6 + LEGEND_STEP * n
        add(svg, el("circle", cx=right + 18, cy=y, r=RADIUS, class_=color), el("text", name, x=right + 30, y=y + 4))
    return svg


def _described(found: Sequence[tuple[float, int]]) -> str:
    """Describe a run in words, for screen readers: segments of the first round trip and their bytes."""
    first = [end for at, end in found if at < 1]
    return f"{len(first)} segments, {max(first, default=0)} bytes in the first round trip"
