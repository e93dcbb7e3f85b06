# SPDX-License-Identifier: MIT
"""A pair of axes for points: where a number lies in the drawing, its grid and its words."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, log10
from typing import NamedTuple
from xml.etree.ElementTree import Element

from configtron.report.page.markup import add, el
from configtron.report.page.ticks import log_ticks, ticks

# Pixels of the words beside and below.
LEFT, BELOW = 64, 40


class Axes(NamedTuple):
    """The drawing's inside is `width` x `height` pixels from (LEFT, top) on. A span is (from, to); log: of x only."""

    width: float
    height: float
    top: float
    xs: tuple[float, float]
    ys: tuple[float, float]
    log: bool = False
    flip: bool = False
    left: float = LEFT

    @classmethod
    def around(
        cls, points: Iterable[tuple[float, float]], width: float, height: float, top: float, *, log: bool, flip: bool
    ) -> Axes:
        """Axes that hold all of these; y from zero, x too unless it is on a logarithmic scale."""
        known = [(x, y) for x, y in points if isfinite(x) and isfinite(y) and (x > 0 or not log)]
        xs, ys = [x for x, _ in known] or [1.0], [y for _, y in known] or [1.0]
        low = min(xs) if log else min(0.0, *xs)
        high = max(xs)
        return cls(
            width, height, top, (low, high if high > low else low * 2 or 1.0),
            (min(0.0, *ys), max(ys) if max(ys) > 0 else 1.0), log, flip,
        )  # fmt: skip

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies."""
        return self.across(x), self.up(y)

    def across(self, x: float) -> float:
        """Return where x lies; what is out of the span is drawn at its end."""
        low, high = (log10(end) for end in self.xs) if self.log else self.xs
        number = log10(max(x, self.xs[0])) if self.log else x
        share = min(max((number - low) / (high - low), 0.0), 1.0)
        return self.left + (1 - share if self.flip else share) * self.width

    def up(self, y: float) -> float:
        """Return where y lies."""
        low, high = self.ys
        return self.top + self.height * (1 - min(max((y - low) / (high - low), 0.0), 1.0))

    def draw(self, svg: Element, x: str, y: str) -> None:
        """Grid, numbers and words."""
        floor = self.top + self.height
        for tick, word in ticks(*self.ys):
            at = self.up(tick)
            add(svg, el("line", x1=self.left, x2=self.left + self.width, y1=at, y2=at, class_="grid"))
            add(svg, el("text", word, x=self.left - 6, y=at + 4, text_anchor="end", class_="t-soft"))
        for tick, word in log_ticks(*self.xs) if self.log else ticks(*self.xs):
            at = self.across(tick)
            add(svg, el("text", word, x=at, y=floor + 16, text_anchor="middle", class_="t-soft"))
        add(svg, el("line", x1=self.left, x2=self.left + self.width, y1=floor, y2=floor, class_="axis"))
        middle = self.top + self.height / 2
        beside = self.left - LEFT + 12
        turned = f"rotate(-90 {beside:.0f} {middle:.0f})"
        add(svg, el("text", x, x=self.left + self.width / 2, y=floor + 34, text_anchor="middle", class_="t-soft"))
        add(svg, el("text", y, x=beside, y=middle, text_anchor="middle", class_="t-soft", transform=turned))
