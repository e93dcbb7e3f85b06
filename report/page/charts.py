# SPDX-License-Identifier: MIT
"""Bars with intervals, and shares as parts of a bar: SVG whose words say what the shapes show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from configtron.report.page.markup import add, el, short

# Pixels of the drawing; the page scales it.
ROW, LABEL, PANEL, NUMBER, AXIS = 26, 190, 132, 52, 24
BAR_WIDTH, BAR_HEIGHT, REGION, KNOWN = 440, 24, 44, 40
# Colours of the palette; the last is for all other values.
COLORS = 6
# A part that is narrower than its words (7 pixels a character) stays without them: the legend has them.
CHARACTER = 7


class Rate(NamedTuple):
    """How many of how many, with the bounds of the share."""

    hits: int
    total: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """0 if nothing was counted."""
        return self.hits / self.total if self.total else 0.0

    @property
    def text(self) -> str:
        """The share, as printed."""
        return f"{100 * self.share:.1f} %" if self.total else "–"

    @property
    def bounds(self) -> str:
        """The interval, as printed."""
        return f"{100 * self.low:.1f}–{100 * self.high:.1f} %" if self.total else "nothing compared"


class BarPart(NamedTuple):
    """One value in a bar: its colour's number, its name, how many have it."""

    color: int
    name: str
    sites: int


def heterogeneity(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Rate]]]) -> Element:
    """A panel a column, a row a parameter: bar to the share, whisker over the interval; one scale for all."""
    most = _scale(max((rate.high for _, rates in rows for rate in rates if rate.total), default=0.0))
    width, height = LABEL + (PANEL + NUMBER) * len(columns), AXIS * 2 + ROW * len(rows)
    svg = el("svg", role="img", viewBox=f"0 0 {width} {height}", style=f"min-width:{0.7 * width:.0f}px")
    svg.set("aria-label", "Share configured differently: " + "; ".join(_described(n, columns, r) for n, r in rows))
    for n, column in enumerate(columns):
        left = LABEL + n * (PANEL + NUMBER)
        add(svg, el("text", column, x=left, y=14, font_weight=650))
        for tick in (0.0, 0.5, 1.0):
            x = left + tick * PANEL
            add(svg, el("line", x1=x, x2=x, y1=AXIS, y2=height - AXIS, class_="axis" if tick == 0 else "grid"))
            add(svg, el("text", f"{100 * most * tick:g} %", x=x, y=height - 8, text_anchor="middle", class_="t-soft"))
    for m, (name, rates) in enumerate(rows):
        y = AXIS + m * ROW
        add(svg, el("text", short(name, 28), x=0, y=y + 17))
        for n, rate in enumerate(rates):
            _rate(svg, rate, LABEL + n * (PANEL + NUMBER), y, PANEL / most, "bar-any" if n == 0 else "bar")
    return svg


def _rate(svg: Element, rate: Rate, left: float, y: float, scale: float, color: str) -> None:
    middle = y + ROW / 2
    if rate.total:
        low, high = left + rate.low * scale, left + rate.high * scale
        add(
            svg,
            el("rect", x=left, y=middle - 6, width=rate.share * scale, height=12, rx=2, class_=color),
            el("line", x1=low, x2=high, y1=middle, y2=middle, class_="whisker"),
            el("line", x1=low, x2=low, y1=middle - 3, y2=middle + 3, class_="whisker"),
            el("line", x1=high, x2=high, y1=middle - 3, y2=middle + 3, class_="whisker"),
        )
    number = el("text", rate.text, x=left + PANEL + NUMBER - 10, y=middle + 4, text_anchor="end", class_="t-soft")
    add(svg, el("g", el("title", f"{rate.hits} of {rate.total}: {rate.text} ({rate.bounds})"), number))


def _described(name: str, columns: Sequence[str], rates: Sequence[Rate]) -> str:
    return f"{name}: " + ", ".join(f"{column} {rate.text}" for column, rate in zip(columns, rates, strict=True))


def _scale(highest: float) -> float:
    """The end of the axis: a round share at or above the highest."""
    return next((end for end in (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8) if end >= highest), 1.0)


def shares(regions: Sequence[tuple[str, Sequence[BarPart]]]) -> Element:
    """A bar for each region, its parts as long as their share of the settings known there."""
    width, height = REGION + BAR_WIDTH + KNOWN, (BAR_HEIGHT + 6) * len(regions)
    svg = el("svg", role="img", viewBox=f"0 0 {width} {height}")
    svg.set("aria-label", "Values by region: " + "; ".join(_described_parts(name, parts) for name, parts in regions))
    for n, (name, parts) in enumerate(regions):
        y, total = n * (BAR_HEIGHT + 6), sum(part.sites for part in parts)
        add(svg, el("text", short(name, 6), el("title", name), x=0, y=y + 16))
        add(svg, el("rect", x=REGION, y=y, width=BAR_WIDTH, height=BAR_HEIGHT, rx=3, class_="track"))
        at = float(REGION)
        for part in parts:
            long = BAR_WIDTH * part.sites / total
            share = f"{100 * part.sites / total:.1f} %"
            tip = el("title", f"{name}: {part.name}, {part.sites} of {total} ({share})")
            add(svg, el("rect", tip, x=at, y=y, width=max(long - 1, 0.5), height=BAR_HEIGHT, class_=f"s{part.color}"))
            words = next((w for w in (f"{part.name} · {share}", share) if len(w) * CHARACTER + 6 < long), None)
            if words:
                add(svg, el("text", words, x=at + 6, y=y + 16, class_=f"t{part.color}"))
            at += long
        known = el("text", str(total), el("title", f"{total} known"), class_="t-soft", text_anchor="end")
        known.set("x", str(width))
        known.set("y", str(y + 16))
        add(svg, known)
    return svg


def _described_parts(region: str, parts: Sequence[BarPart]) -> str:
    total = sum(part.sites for part in parts)
    return f"{region}: " + (", ".join(f"{p.name} {100 * p.sites / total:.1f} %" for p in parts) or "none known")
