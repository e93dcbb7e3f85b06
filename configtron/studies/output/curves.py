# SPDX-License-Identifier: MIT
"""Curves with whiskers as SVG: each series has a colour, a dash and its name; words say what shapes show.

Colours are distinct to eyes that see no red or no green, dashes by those that see none, and by a printer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log10
from typing import NamedTuple
from xml.etree.ElementTree import Element

from configtron.report.page.markup import add, el, picture, short
from configtron.report.page.ticks import log_ticks, ticks

# Pixels.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 680, 316, 56, 220, 28, 40
# Colours of the palette (style.css); with the dashes, thirty-six series are distinct.
COLORS = 6
DASHES = (None, "7 3", "2 3", "9 3 2 3", "4 2", "12 4")
# Pixels between the whiskers of neighbours, which else hide one another.
APART = 2.0
# Whiskers count for the height of a drawing as far as the curves' own span to either side; the rest is cut off, and it
# is noted: else one wide interval of few worlds makes all curves flat.
SPANS = 1.0


class Series(NamedTuple):
    """One curve: its name; (x, y, low, high) in order of x, the ends of the interval not finite where there is none."""

    name: str
    points: Sequence[tuple[float, float, float, float]]


def curves(series: Sequence[Series], x: str, y: str, *, log_x: bool = False, least: float | None = None) -> Element:
    """All series on one pair of axes, y from zero or below; what is below `least` is drawn there, with a note."""
    scale = _Scale.over(series, log_x)
    if least is not None and scale.low < least:
        scale, y = scale._replace(low=least), f"{y}; cut off at {least:g}"
    elif any(end < scale.low or end > scale.high for one in series for point in one.points for end in point[2:]):
        y += "; long whiskers end at the edge"
    svg = picture(WIDTH, HEIGHT, f"{y} by {x}: " + "; ".join(_described(one) for one in series))
    _axes(svg, scale, x, y)
    for n, one in enumerate(series):
        color, dash = n % COLORS, DASHES[(n + n // COLORS) % len(DASHES)]
        known = [point for point in one.points if isfinite(point[1])]
        path = " ".join(f"{scale.across(px):.1f},{scale.up(py):.1f}" for px, py, _, _ in known)
        title = el("title", _described(one))
        add(svg, el("polyline", title, points=path, class_=f"curve c{color}", stroke_dasharray=dash))
        for px, _, low, high in known:
            if isfinite(low) and isfinite(high):
                at = scale.across(px) + APART * (n - (len(series) - 1) / 2)
                bottom, top = scale.up(low), scale.up(high)
                add(svg, el("line", x1=at, x2=at, y1=bottom, y2=top, class_=f"curve-whisker c{color}"))
        row = TOP + 14 + 16 * n
        begin = WIDTH - RIGHT + 12
        add(svg, el("line", x1=begin, x2=begin + 22, y1=row - 4, y2=row - 4, class_=f"curve c{color}",
                    stroke_dasharray=dash))  # fmt: skip
        add(svg, el("text", short(one.name, 24), x=begin + 28, y=row))
    return svg


class _Scale(NamedTuple):
    left: float
    right: float
    low: float
    high: float
    log_x: bool

    @classmethod
    def over(cls, series: Sequence[Series], log_x: bool) -> _Scale:
        points = [point for one in series for point in one.points if isfinite(point[1])]
        xs = [point[0] for point in points] or [1.0]
        ys = [y for point in points for y in point[1:] if isfinite(y)] or [0.0]
        left, right = min(xs), max(xs)
        if right <= left:
            right = left * 2 if left > 0 else left + 1.0
        middle = [point[1] for point in points] or [0.0]
        span = SPANS * ((max(middle) - min(0.0, *middle)) or 1.0)
        low, high = max(min(0.0, *ys), min(0.0, *middle) - span), min(max(ys), max(middle) + span)
        # no share is below nothing because an interval is
        low = low if min(middle) < 0 else 0.0
        return cls(left, right, low, high if high > low else low + 1.0, log_x and left > 0)

    def across(self, x: float) -> float:
        begin, end = (log10(self.left), log10(self.right)) if self.log_x else (self.left, self.right)
        share = ((log10(x) if self.log_x else x) - begin) / (end - begin)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(self, y: float) -> float:
        share = (min(max(y, self.low), self.high) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _axes(svg: Element, scale: _Scale, x: str, y: str) -> None:
    for tick, word in ticks(scale.low, scale.high):
        at = scale.up(tick)
        add(svg, el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        add(svg, el("text", word, x=LEFT - 6, y=at + 4, text_anchor="end", class_="t-soft"))
    for tick, word in (log_ticks if scale.log_x else ticks)(scale.left, scale.right):
        at = scale.across(tick)
        add(svg, el("text", word, x=at, y=HEIGHT - BOTTOM + 16, text_anchor="middle", class_="t-soft"))
    zero = scale.up(0.0)
    add(svg, el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=zero, y2=zero, class_="axis"))
    add(svg, el("text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle", class_="t-soft"))
    # above its axis and level: it is read at once, and may be long
    add(svg, el("text", y, x=12, y=14, class_="t-soft"))


def _described(one: Series) -> str:
    return f"{one.name} " + ", ".join(f"{y:.3g} at {x:.3g}" for x, y, _, _ in one.points if isfinite(y))
