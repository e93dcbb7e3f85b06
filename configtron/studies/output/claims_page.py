# SPDX-License-Identifier: MIT
"""The page of claims: each study's claims with the paper's figure and ours, its plots, its tables.

Rules for this file: what the paper says stands in a column of its own; a verdict was computed by the study and is only
shown here; the page loads nothing and runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from configtron.report.page.markup import add, document, el, scrolled
from configtron.studies.output.plots import drawn
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Cell, Evaluated, Fact, Plot, Table

LEAD = "Measured in the lab: a real kernel, real servers, virtual time. What the paper says stands beside what is seen."
# Verdicts in words.
WORDS = {HOLDS: "holds", PARTLY: "in part", ABSENT: "not so here", UNKNOWN: "not measured"}
# Longer tables are folded.
LONG = 24


def page(found: Sequence[Evaluated], made_by: str) -> str:
    """The whole page. made_by: how it was made."""
    nav = el("nav", aria_label="Studies")
    for one in found:
        add(nav, el("a", one.title, href=f"#{one.name}"))
    header = el("header", el("h1", "The papers' figures and ours"), el("p", LEAD, class_="lead"))
    add(header, el("p", el("code", made_by), class_="soft"), nav)
    body = el("main", *(_study(one) for one in found))
    return document("configtron replay study", [header, body, el("footer", "This page loads nothing.")])


def _study(one: Evaluated) -> Element:
    section = el("section", el("h2", one.title, id=one.name))
    add(section, el("p", el("b", f"{one.paper}. "), one.method))
    if one.missing:
        add(section, el("p", el("b", "Not whole: "), one.missing, class_="warn"))
    if one.facts:
        add(section, scrolled(_facts(one.facts), f"{one.title}: claims", "card wide"))
    add(section, *(_plot(plot) for plot in one.plots), *(_table(table) for table in one.tables))
    if one.differs:
        add(section, el("p", el("b", "Where ours differs: "), one.differs))
    if one.ground:
        facts = el("dl")
        for word, value in one.ground:
            add(facts, el("dt", word, class_="soft"), el("dd", el("code", value)))
        add(section, el("details", el("summary", el("b", "What it ran on")), facts))
    return section


def _facts(facts: Sequence[Fact]) -> Element:
    heads = el("tr", *(el("th", head, scope="col") for head in ("Claim", "Paper", "Ours", "", "Why")))
    body = el("tbody")
    for fact in facts:
        verdict = el("td", el("b", WORDS[fact.verdict]), class_=fact.verdict)
        cells = [el("td", fact.paper), el("td", fact.ours), verdict, el("td", fact.words)]
        add(body, el("tr", el("th", fact.claim, scope="row"), *cells))
    return el("table", el("thead", heads), body)


def _plot(plot: Plot) -> Element:
    figure = el("figure", el("figcaption", el("b", plot.title), f" {plot.words}".rstrip()), drawn(plot))
    return scrolled(figure, plot.title, "card wide")


def _table(table: Table) -> Element:
    numeric = [all(not isinstance(row[n], str) for row in table.rows) for n in range(len(table.columns))]
    kinds = ["num" if is_number else None for is_number in numeric]
    pairs = zip(table.columns, kinds, strict=True)
    heads = el("tr", *(el("th", name, scope="col", class_=kind) for name, kind in pairs))
    body = el("tbody")
    for row in table.rows:
        cells = [el("td", cell_text(cell), class_=kind) for cell, kind in zip(row, kinds, strict=True)]
        add(body, el("tr", *cells))
    made = el("table", el("caption", table.words) if table.words else None, el("thead", heads), body)
    if len(table.rows) > LONG:
        summary = el("summary", el("b", table.title), f"{len(table.rows)} rows")
        return el("details", summary, scrolled(made, table.title))
    return el("div", el("h3", table.title), scrolled(made, table.title), class_="card")


def cell_text(cell: Cell) -> str:
    """A cell for the eye."""
    if cell is None:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
