"""Curves with whiskers as SVG: each series has a colour, a dash and its name; words say what shapes show."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log10
from typing import NamedTuple
from xml.etree.ElementTree import Element

from configtron.report.page.markup import add, el, short

# Pixels of the drawing; the page scales it.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 64, 190, 12, 40
TICKS = 5
# Colours of the palette (style.css); series beyond are told apart by their dash.
COLORS = 6
DASHES = (None, "6 3", "2 3")


class Series(NamedTuple):
    """One curve: its name; (x, y, low, high) in order of x, the ends of the interval not finite where there is none."""

    name: str
    points: Sequence[tuple[float, float, float, float]]


def curves(
    series: Sequence[Series], x: str, y: str, *, log_x: bool = False, least: float | None = None
) -> Element:
    """All series on one pair of axes, y from zero or below; what is below `least` is drawn there, and it is said."""
    scale = _Scale.over(series, log_x)
    if least is not None and scale.low < least:
        scale, y = scale._replace(low=least), f"{y}; cut off at {least:g}"
    svg = el("svg", role="img", viewBox=f"0 0 {WIDTH} {HEIGHT}", style=f"min-width:{0.7 * WIDTH:.0f}px")
    svg.set("aria-label", f"{y} by {x}: " + "; ".join(_told(one) for one in series))
    _axes(svg, scale, x, y)
    for n, one in enumerate(series):
        color, dash = n % COLORS, DASHES[n // COLORS % len(DASHES)]
        known = [point for point in one.points if isfinite(point[1])]
        path = " ".join(f"{scale.across(px):.1f},{scale.up(py):.1f}" for px, py, _, _ in known)
        title = el("title", _told(one))
        add(svg, el("polyline", title, points=path, class_=f"curve c{color}", stroke_dasharray=dash))
        for px, _, low, high in known:
            if isfinite(low) and isfinite(high):
                at, bottom, top = scale.across(px), scale.up(low), scale.up(high)
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
        low = min(0.0, *ys)
        high = max(ys)
        return cls(left, right, low, high if high > low else low + 1.0, log_x and left > 0)

    def across(self, x: float) -> float:
        begin, end = (log10(self.left), log10(self.right)) if self.log_x else (self.left, self.right)
        share = ((log10(x) if self.log_x else x) - begin) / (end - begin)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(self, y: float) -> float:
        share = (min(max(y, self.low), self.high) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def ticks_x(self) -> list[float]:
        if not self.log_x:
            return [self.left + (self.right - self.left) * n / (TICKS - 1) for n in range(TICKS)]
        return [10 ** (log10(self.left) + (log10(self.right / self.left)) * n / (TICKS - 1)) for n in range(TICKS)]

    def ticks_y(self) -> list[float]:
        return [self.low + (self.high - self.low) * n / (TICKS - 1) for n in range(TICKS)]


def _axes(svg: Element, scale: _Scale, x: str, y: str) -> None:
    for tick in scale.ticks_y():
        at = scale.up(tick)
        add(svg, el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        add(svg, el("text", f"{tick:.3g}", x=LEFT - 6, y=at + 4, text_anchor="end", class_="t-soft"))
    for tick in scale.ticks_x():
        at = scale.across(tick)
        add(svg, el("text", f"{tick:.3g}", x=at, y=HEIGHT - BOTTOM + 16, text_anchor="middle", class_="t-soft"))
    zero = scale.up(0.0)
    add(svg, el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=zero, y2=zero, class_="axis"))
    add(svg, el("text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle", class_="t-soft"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f"rotate(-90 12 {middle:.0f})"
    add(svg, el("text", y, x=12, y=middle, text_anchor="middle", class_="t-soft", transform=turned))


def _told(one: Series) -> str:
    return f"{one.name} " + ", ".join(f"{y:.3g} at {x:.3g}" for x, y, _, _ in one.points if isfinite(y))
