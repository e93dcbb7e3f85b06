# SPDX-License-Identifier: MIT
"""Differences with their intervals about zero, one row each: SVG whose words say what the shapes show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from configtron.report.page.markup import add, el, short

# Pixels of the drawing; the page scales it.
LINE, NAMES, PLOT, FIGURES, BELOW = 26, 130, 250, 170, 24
# Ends of the axis, as shares: the first one that holds all intervals.
ENDS = (0.05, 0.1, 0.2, 0.5, 1.0, 3.0)


class ForestRow(NamedTuple):
    """A name, its figures as printed, the difference and its interval in ln."""

    name: str
    figures: str
    middle: float
    low: float
    high: float


def forest(label: str, rows: Sequence[ForestRow]) -> Element:
    """A row a difference: a mark, a line over its interval, the figures; one scale for all."""
    most = max(abs(float(np.expm1(np.clip(end, -5.0, 5.0)))) for row in rows for end in (row.low, row.high))
    end = next((each for each in ENDS if each >= most), ENDS[-1])
    width, height = NAMES + PLOT + FIGURES, LINE * len(rows) + BELOW
    svg = el(
        "svg", role="img", viewBox=f"0 0 {width} {height}", style=f"min-width:{0.9 * width:.0f}px", class_="curves"
    )
    svg.set("aria-label", f"{label}: " + "; ".join(f"{row.name} {row.figures}" for row in rows))
    for tick in (-1.0, 0.0, 1.0):
        x = NAMES + PLOT * (tick + 1.0) / 2.0
        add(svg, el("line", x1=x, x2=x, y1=0, y2=height - BELOW, class_="axis" if tick == 0.0 else "grid"))
        add(svg, el("text", f"{100 * tick * end:+g} %" if tick else "0", x=x, y=height - 6, text_anchor="middle",
                    class_="t-soft"))  # fmt: skip
    for number, row in enumerate(rows):
        _row(svg, row, number * LINE + LINE / 2.0, end)
    return svg


def _row(svg: Element, row: ForestRow, y: float, end: float) -> None:
    def x(value: float) -> float:
        share = float(np.clip(np.expm1(np.clip(value, -5.0, 5.0)) / end, -1.0, 1.0))
        return NAMES + PLOT * (share + 1.0) / 2.0

    color = "bar-any" if row.low > 0.0 else "bar"
    add(
        svg,
        el("text", short(row.name, 20), el("title", row.name), x=0, y=y + 4),
        el("line", x1=x(row.low), x2=x(row.high), y1=y, y2=y, class_="whisker"),
        el("rect", x=x(row.middle) - 4, y=y - 4, width=8, height=8, class_=color),
        el("text", row.figures, x=NAMES + PLOT + FIGURES, y=y + 4, text_anchor="end", class_="t-soft"),
    )
