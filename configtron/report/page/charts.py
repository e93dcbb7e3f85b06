# SPDX-License-Identifier: MIT
"""Bars with intervals, and shares as parts of a bar: SVG whose words say what the shapes show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from configtron.report.page.markup import add, el, percent, short, stretched
from configtron.report.page.ticks import ticks

# Pixels: of a parameter in a panel, of the axis below; of a region's bar; of the narrowest drawing, on a telephone.
ROW, AXIS, BAR_HEIGHT, NARROWEST = 40, 22, 24, 330
# Of 100 across: a panel's scale, beside which the last figure stands; a region's name, its bar.
PANEL, REGION, BAR = 72.0, 14.0, 76.0
# Characters that a panel has room for.
NAME = 32
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
    """Return a panel a column, in it a bar a parameter with a whisker over the interval; one scale for all."""
    most = max([0.01, *(rate.high for _, rates in rows for rate in rates if rate.total)])
    panels = el("div", class_="panels")
    for n, column in enumerate(columns):
        named = [(name, rates[n]) for name, rates in rows]
        words = f"Share configured differently, {column}: " + ", ".join(f"{name} {rate.text}" for name, rate in named)
        svg = stretched(ROW * len(rows) + AXIS, words)
        for tick, word in ticks(0.0, 100 * most):
            x = percent(tick / 100 / most * PANEL)
            add(svg, el("line", x1=x, x2=x, y1=0, y2=ROW * len(rows), class_="grid" if tick else "axis"))
            add(svg, el("text", f"{word} %", x=x, y=ROW * len(rows) + 16, class_="t-soft",
                        text_anchor="middle" if tick else None))  # fmt: skip
        for m, (name, rate) in enumerate(named):
            _rate(svg, name, rate, m * ROW, PANEL / most, "bar" if n else "bar-any")
        add(panels, el("div", el("h3", column), svg))
    return panels


def _rate(svg: Element, name: str, rate: Rate, y: float, scale: float, color: str) -> None:
    middle, end = y + 29, 0.0
    add(svg, el("text", short(name, NAME), el("title", name), x=0, y=y + 17))
    if rate.total:
        low, end = rate.low * scale, rate.high * scale
        add(
            svg,
            el("rect", x=0, y=middle - 6, width=percent(rate.share * scale), height=12, rx=2, class_=color),
            el("line", x1=percent(low), x2=percent(end), y1=middle, y2=middle, class_="whisker"),
            el("line", x1=percent(low), x2=percent(low), y1=middle - 3, y2=middle + 3, class_="whisker"),
            el("line", x1=percent(end), x2=percent(end), y1=middle - 3, y2=middle + 3, class_="whisker"),
        )
    number = el("text", rate.text, x=percent(end), dx=6, y=middle + 4, class_="t-soft")
    add(svg, el("g", el("title", f"{rate.hits} of {rate.total}: {rate.text} ({rate.bounds})"), number))


def legend(names: Iterable[str], others: str = "") -> Element:
    """Return names with their colours, in the order of the palette; others: what its last colour stands for."""
    made = el("ul", class_="legend")
    for n, name in [*enumerate(names), *([(COLORS - 1, others)] if others else [])]:
        add(made, el("li", el("i", class_=f"s{n}"), name))
    return made


def shares(regions: Sequence[tuple[str, Sequence[BarPart]]]) -> Element:
    """Return a bar for each region, its parts as long as their share of the settings known there."""
    words = "Values by region: " + "; ".join(_described_parts(name, parts) for name, parts in regions)
    svg = stretched((BAR_HEIGHT + 6) * len(regions), words)
    for n, (name, parts) in enumerate(regions):
        y, total = n * (BAR_HEIGHT + 6), sum(part.sites for part in parts)
        add(svg, el("text", short(name, 6), el("title", name), x=0, y=y + 16))
        add(svg, el("rect", x=percent(REGION), y=y, width=percent(BAR), height=BAR_HEIGHT, rx=3, class_="track"))
        split(svg, name, parts, y, REGION, BAR)
        known = el("title", f"{total} known")
        add(svg, el("text", str(total), known, x="100%", y=y + 16, class_="t-soft", text_anchor="end"))
    return svg


def split(svg: Element, name: str, parts: Sequence[BarPart], y: float, at: float, width: float) -> Element:
    """Add a bar of these parts from `at` on, so many of 100 wide; return the drawing."""
    total = sum(part.sites for part in parts)
    for part in parts:
        long = width * part.sites / total
        share = f"{100 * part.sites / total:.1f} %"
        tip = el("title", f"{name}: {part.name}, {part.sites} of {total} ({share})")
        add(svg, el("rect", tip, x=percent(at), y=y, width=percent(long), height=BAR_HEIGHT,
                    class_=f"part s{part.color}"))  # fmt: skip
        room = long / 100 * NARROWEST
        fits = next((w for w in (f"{part.name} · {share}", share) if len(w) * CHARACTER + 6 < room), None)
        if fits:
            add(svg, el("text", fits, x=percent(at), dx=6, y=y + 16, class_=f"t{part.color}"))
        at += long
    return svg


def _described_parts(region: str, parts: Sequence[BarPart]) -> str:
    total = sum(part.sites for part in parts)
    return f"{region}: " + (", ".join(f"{p.name} {100 * p.sites / total:.1f} %" for p in parts) or "none known")
