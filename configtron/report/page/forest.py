# SPDX-License-Identifier: MIT
"""Differences with their intervals about zero, one row each: SVG whose words say what the shapes show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from configtron.report.page.markup import add, el, percent, short, stretched
from configtron.report.page.ticks import ticks

# Pixels of a row, and of the axis below.
LINE, BELOW = 44, 24
# Of 100 across: beside the axis, where half of the last number has room.
ASIDE = 7.0
# The largest share on the axis: a wider interval ends at its edge.
MOST = 3.0


class ForestRow(NamedTuple):
    """A name, its figures as printed, the difference and its interval in ln."""

    name: str
    figures: str
    middle: float
    low: float
    high: float


def forest(label: str, rows: Sequence[ForestRow]) -> Element:
    """Return a row a difference: its name and figures, below them a mark and a line over its interval."""
    shares = [0.0, 0.01, *(_share(end) for row in rows for end in (row.low, row.high))]
    ends = min(shares), max(shares)
    svg = stretched(LINE * len(rows) + BELOW, f"{label}: " + "; ".join(f"{row.name} {row.figures}" for row in rows))
    for tick, word in ticks(100 * ends[0], 100 * ends[1]):
        x = _across(tick / 100, ends)
        add(svg, el("line", x1=x, x2=x, y1=0, y2=LINE * len(rows), class_="grid" if tick else "axis"))
        add(svg, el("text", f"+{word} %" if tick > 0 else f"{word} %" if tick else "0", x=x, y=LINE * len(rows) + 18,
                    text_anchor="middle", class_="t-soft"))  # fmt: skip
    for number, row in enumerate(rows):
        _row(svg, row, number * LINE, ends)
    return svg


def _share(ln: float) -> float:
    """Return a difference as a share, at most the axis's largest."""
    return min(float(np.expm1(min(ln, 5.0))), MOST)


def _across(share: float, ends: tuple[float, float]) -> str:
    return percent(ASIDE + (100.0 - 2 * ASIDE) * (share - ends[0]) / (ends[1] - ends[0]))


def _row(svg: Element, row: ForestRow, y: float, ends: tuple[float, float]) -> None:
    low, middle, high = (_across(_share(one), ends) for one in (row.low, row.middle, row.high))
    color = "bar-any" if row.low > 0.0 else "bar"
    add(
        svg,
        el("text", short(row.name, 20), el("title", row.name), x=0, y=y + 14),
        el("text", row.figures, x="100%", y=y + 14, text_anchor="end", class_="t-soft"),
        el("line", x1=low, x2=high, y1=y + 28, y2=y + 28, class_="whisker"),
        el("circle", cx=middle, cy=y + 28, r=5, class_=color),
    )
