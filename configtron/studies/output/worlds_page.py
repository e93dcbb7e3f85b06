# SPDX-License-Identifier: MIT
"""The page of studies: each with the paper's claim, our numbers beside its figures, plots, and why they differ.

Rules for this file: every number has its interval beside it; what the paper says stands in a column of its own and is
never mixed with ours; the page loads nothing and runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, log10
from xml.etree.ElementTree import Element

from configtron.report.page.markup import add, document, el, scrolled
from configtron.studies.output.curves import Series, curves
from configtron.studies.sim.metrics import Measured
from configtron.studies.simulated.points import SessionsStudy, StudyNumbers, Summary

FORMULA = (
    "Simulated sessions on tensors made by a formula: rankings, convergence and sensitivity are results; milliseconds, "
    "and the per cent that could be gained at best, are arguments of the formula."
)
MEASURED = (
    "Simulated sessions on tensors that were measured: page load times are those of their networks, pages and servers; "
    "who asks for what and when, and how loads spread around their medians, is drawn."
)
OURS = (
    " Ours: mean over worlds and Student's 95 % interval. Distances, gains and losses are shares of page load time: "
    "0.1 is 10 %."
)

# Decimals of a share: a hundredth of a per cent, below any interval here.
MOST_DIGITS = 4


def page(studies: Sequence[StudyNumbers], worlds: str) -> str:
    """The whole page. worlds: which worlds."""
    several = len({one.tensor for one in studies}) > 1
    nav = el("nav", aria_label="Studies")
    for one in studies:
        add(nav, el("a", f"{one.study.name}{_tensor_suffix(one, several)}", href=f"#{_section_id(one, several)}"))
    kinds = dict.fromkeys(FORMULA if one.analytic else MEASURED for one in studies)
    header = el("header", el("h1", "The paper's figures and ours"), el("p", " ".join(kinds) + OURS, class_="lead"))
    add(header, el("p", worlds, class_="soft"), nav)
    body = el("main", *(_section(one, several) for one in studies))
    return document("configtron: studies", [header, body, el("footer", "This page loads nothing.")])


def _tensor_suffix(numbers: StudyNumbers, several: bool) -> str:
    """Return the tensor for a title if the page has several tensors."""
    return f" on {numbers.tensor}" if several else ""


def _section_id(numbers: StudyNumbers, several: bool) -> str:
    return f"{numbers.study.name}-{numbers.tensor}" if several else numbers.study.name


def _section(numbers: StudyNumbers, several: bool) -> Element:
    study, found = numbers.study, numbers.found
    title = f"{study.title}{_tensor_suffix(numbers, several)}"
    section = el("section", el("h2", title, id=_section_id(numbers, several)))
    add(section, el("p", el("b", f"{study.paper}: "), study.claim + "."))
    add(section, scrolled(_table(study, found), study.title, "card wide"))
    plots = el("div", class_="plots")
    for plot in study.plots:
        series = _series(found, plot.column)
        if series:
            drawing = curves(series, plot.x, plot.y, log_x=plot.log_x, least=plot.least)
            add(plots, scrolled(drawing, f"{plot.y} by {plot.x}", "card wide"))
    add(section, plots if len(plots) else None)
    return add(section, el("p", el("b", "Where ours differs: "), *_words(study.differs)))


def _words(text: str) -> list[Element | str]:
    """Prose, what stands in backticks set as code."""
    return [el("code", part) if at % 2 else part for at, part in enumerate(text.split("`"))]


def _table(study: SessionsStudy, found: Sequence[Summary]) -> Element:
    cells = {(one.row, one.column): one for one in found if one.x is None}
    rows, columns = (list(dict.fromkeys(key[n] for key in cells)) for n in (0, 1))
    printed = [column for column in columns if any(study.figures.get((row, column)) for row in rows)]
    digits = {column: digits_of([one.measured for key, one in cells.items() if key[1] == column]) for column in columns}
    heads = el("tr", el("th", "", scope="col"))
    for column in columns:
        add(heads, el("th", column, scope="col", colspan=2, class_="figure"))
        if column in printed:
            add(heads, el("th", f"paper: {column}", scope="col", class_="paper"))
    body = el("tbody")
    for row in rows:
        line = el("tr", el("th", row, scope="row"))
        for column in columns:
            one = cells.get((row, column))
            value, interval = number(one.measured, digits[column]) if one else ("–", "")
            add(line, el("td", value, class_="num"), el("td", interval, class_="interval"))
            if column in printed:
                add(line, el("td", el("b", study.figures.get((row, column), "")), class_="paper"))
        add(body, line)
    return el("table", el("thead", heads), body, class_="figures")


def digits_of(column: Sequence[Measured]) -> int:
    """Decimals of a column, the same in each row: three digits of its largest number."""
    largest = max((abs(one.value) for one in column if isfinite(one.value)), default=1.0)
    return min(max(2 - floor(log10(largest)), 0), MOST_DIGITS) if largest > 0 else 0


def number(one: Measured, digits: int) -> tuple[str, str]:
    """A number, and its interval."""
    if not isfinite(one.value):
        return "–", ""
    value, low, high = (f"{round(end, digits) + 0.0:.{digits}f}" for end in (one.value, one.low, one.high))
    return value, f"{low} to {high}" if isfinite(one.low) else ""


def _series(found: Sequence[Summary], column: str) -> list[Series]:
    by_row: dict[str, list[tuple[float, float, float, float]]] = {}
    for one in found:
        if one.column == column and one.x is not None:
            m = one.measured
            by_row.setdefault(one.row, []).append((one.x, m.value, m.low, m.high))
    return [Series(row, sorted(points)) for row, points in by_row.items()]
