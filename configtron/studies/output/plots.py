# SPDX-License-Identifier: MIT
"""A study's plots as SVG: clouds of points, heat maps, time-sequence diagrams; curves are in `curves.py`."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from xml.etree.ElementTree import Element

from configtron.report.page.markup import add, el, picture, short
from configtron.studies.output.axes import BELOW, LEFT, Axes
from configtron.studies.output.curves import COLORS, Series, curves
from configtron.studies.output.results import Cloud, Curves, Heat, Mark, Plot, Scatter, Sequences

# Pixels.
WIDTH, HEIGHT, TOP, LEGEND = 420, 270, 16, 190
# Of a heat map: a cell, the names of its rows, the names of its columns (slanted).
CELL_WIDTH, CELL_HEIGHT, NAMES, HEADS = 84, 24, 180, 92
# Of a panel of a time-sequence diagram, and between two.
PANEL, BETWEEN = 380, 84
# A segment is drawn as a line of at least so many pixels.
LEAST = 2.0


def drawn(plot: Plot) -> Element:
    """The plot's drawing."""
    if isinstance(plot, Curves):
        return curves([Series(*one) for one in plot.series], plot.x, plot.y, log_x=plot.log_x)
    if isinstance(plot, Scatter):
        return scatter(plot)
    return heat(plot) if isinstance(plot, Heat) else sequences(plot)


def scatter(plot: Scatter) -> Element:
    """Clouds, each in its colour, with its outline; the legend at the right."""
    points = [point for cloud in plot.clouds for point in (*cloud.points, *cloud.outline)]
    axes = Axes.around(points, WIDTH, HEIGHT, TOP, log=plot.log_x, flip=plot.flip_x)
    words = f"{plot.y} by {plot.x}: " + "; ".join(_described(cloud) for cloud in plot.clouds)
    svg = picture(LEFT + WIDTH + LEGEND, TOP + max(HEIGHT + BELOW, 16 * len(plot.clouds) + 8), words)
    axes.draw(svg, plot.x, plot.y)
    for n, cloud in enumerate(plot.clouds):
        _cloud(svg, axes, cloud, n)
    return svg


def _cloud(svg: Element, axes: Axes, cloud: Cloud, n: int) -> None:
    color, row = n % COLORS, TOP + 14 + 16 * n
    if cloud.outline:
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (axes.at(*corner) for corner in cloud.outline))
        add(svg, el("polygon", el("title", cloud.name), points=corners, class_=f"outline c{color}"))
    for x, y in cloud.points:
        across, up = axes.at(x, y)
        add(svg, _dot(n, across, up, el("title", f"{cloud.name}: {x:.4g}, {y:.4g}")))
    begin = LEFT + WIDTH + 14
    add(svg, _dot(n, begin, row - 4, None), el("text", short(cloud.name, 24), x=begin + 12, y=row))


def _dot(n: int, x: float, y: float, title: Element | None) -> Element:
    """A cloud's mark: beyond the palette's colours the shape distinguishes them."""
    kind = f"dot s{n % COLORS}"
    if n < COLORS:
        return el("circle", title, cx=x, cy=y, r=4, class_=kind)
    return el("rect", title, x=x - 3.5, y=y - 3.5, width=7, height=7, class_=kind)


def _described(cloud: Cloud) -> str:
    return f"{cloud.name} " + ", ".join(f"({x:.3g}, {y:.3g})" for x, y in cloud.points)


def heat(plot: Heat) -> Element:
    """Cells the darker the better, each with its number."""
    known = [value for row in plot.values for value in row if value is not None and isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    width, height = NAMES + CELL_WIDTH * len(plot.columns) + HEADS, HEADS + CELL_HEIGHT * len(plot.rows) + 6
    svg = picture(width, height, f"{plot.title}, {plot.unit}")
    for n, name in enumerate(plot.columns):
        x = NAMES + CELL_WIDTH * n + CELL_WIDTH / 2
        turned = f"rotate(-28 {x:.0f} {HEADS - 8})"
        add(svg, el("text", short(name, 24), el("title", name), x=x, y=HEADS - 8, class_="t-soft", transform=turned))
    for m, (name, row) in enumerate(zip(plot.rows, plot.values, strict=True)):
        y = HEADS + CELL_HEIGHT * m
        add(svg, el("text", short(name, 24), el("title", name), x=0, y=y + 16))
        for n, value in enumerate(row):
            x = NAMES + CELL_WIDTH * n
            _heated(svg, x, y, value, _share(value, low, high, plot.more), f"{name}, {plot.columns[n]}", plot.unit)
    return svg


def _share(value: float | None, low: float, high: float, more: bool) -> float:
    if value is None or not isfinite(value) or high <= low:
        return 0.0
    share = (value - low) / (high - low)
    return share if more else 1 - share


def _heated(svg: Element, x: float, y: float, value: float | None, share: float, where: str, unit: str) -> None:
    number = "–" if value is None or not isfinite(value) else f"{value:.3g}"
    title = el("title", f"{where}: {number} {unit}".rstrip())
    # at half the colour and less, words in ink can be read by day and by night
    opacity = f"{0.5 * share:.2f}"
    add(svg, el("rect", title, x=x, y=y, width=CELL_WIDTH, height=CELL_HEIGHT, class_="cell", fill_opacity=opacity))
    add(svg, el("text", number, x=x + CELL_WIDTH / 2, y=y + 16, text_anchor="middle"))


def sequences(plot: Sequences) -> Element:
    """Panels on the same axes: seconds to the right, bytes upwards; a connection a colour; sent again stands out."""
    count = len(plot.panels)
    ends = [(until, 0.0) for _, _, until in plot.panels]
    points = [(mark.at_s, mark.end / 1e3) for _, marks, _ in plot.panels for mark in marks]
    whole = Axes.around([*points, *ends], PANEL, HEIGHT, TOP + 16, log=False, flip=False)
    width = LEFT + count * PANEL + (count - 1) * BETWEEN + 12
    words = f"{plot.title}: " + "; ".join(f"{name}, until {s:.2f} s" for name, _, s in plot.panels)
    svg = picture(width, TOP + 16 + HEIGHT + BELOW, words)
    for word, kind, x in (("lost", "lost", width - 190), ("sent again", "again", width - 110)):
        add(svg, el("rect", x=x, y=4, width=9, height=9, class_=kind), el("text", word, x=x + 14, y=13))
    for n, (name, marks, until) in enumerate(plot.panels):
        axes = whole._replace(left=LEFT + n * (PANEL + BETWEEN))
        axes.draw(svg, "seconds since the page was wanted", "kB of the page, by first sending")
        add(svg, el("text", name, x=axes.left, y=14, font_weight=650))
        end = axes.across(until)
        title = el("title", f"the page is there after {until:.3f} s")
        add(svg, el("line", title, x1=end, x2=end, y1=axes.top, y2=axes.top + HEIGHT, class_="until"))
        _marks(svg, axes, marks)
    return svg


def _marks(svg: Element, axes: Axes, marks: Sequence[Mark]) -> None:
    """One path a connection and kind: thousands of segments stay small."""
    paths: dict[tuple[int, str], list[str]] = {}
    for mark in marks:
        x, low, high = axes.across(mark.at_s), axes.up(mark.begin / 1e3), axes.up(mark.end / 1e3)
        tall = max(low - high, LEAST)
        paths.setdefault((mark.connection, mark.kind), []).append(f"M{x:.1f} {low:.1f}v-{tall:.1f}h2v{tall:.1f}z")
    for (connection, kind), steps in paths.items():
        # the palette's last colour is that of all others, and is pale
        color = f"s{connection % (COLORS - 1)}" if kind == "data" else kind
        add(svg, el("path", el("title", f"connection {connection + 1}: {kind}"), d="".join(steps), class_=color))
