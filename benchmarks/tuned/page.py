# SPDX-License-Identifier: MIT
"""The page of a server that was tuned and put back: each client's first flight, untouched, by each driver, afterwards.

Rules for this file: what stands in a cell was seen (the window in a capture, the congestion control by `ss`); what was
wanted stands beside it, and a cell where the two differ is marked. The page loads nothing and runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from benchmarks.tuned.sequence import SequenceRun, sequence
from configtron.model.nouns import Observation, Trace
from configtron.report.page.conversation import conversation
from configtron.report.page.ladder import ladder
from configtron.report.page.markup import add, document, el, scrolled

READING = (
    "A client's plot: time since its request to the right, the server's bytes upwards, each mark a segment; what a "
    "driver did shows in the first flight, before one round trip. Runs stand a little to the right of each other, or "
    "they would hide each other. Below it the same conversations packet by packet, the first flight marked."
)


class Subject(NamedTuple):
    """One client, in words: its name, its prefix, its round trip, what its connections are to get."""

    name: str
    prefix: str
    rtt_ms: int
    wanted: str


class Sight(NamedTuple):
    """One client's connection in one watch: what it was to get there, and what was seen."""

    wanted: tuple[str, int]
    congestion: str
    reading: Observation
    trace: Trace

    @property
    def seen(self) -> str:
        """Congestion control and initial window, "-" for a window that could not be read."""
        window = self.reading.value if self.reading.value is not None else f"- ({self.reading.reason})"
        return f"{self.congestion} {window}"

    @property
    def agrees(self) -> bool:
        """Return whether that is what was wanted; a lower bound (grade L) on a window is not."""
        return (self.congestion, self.reading.value) == self.wanted and self.reading.grade == "C"


class Scene(NamedTuple):
    """One driver at work: the commands with their output, and what its rollback left behind."""

    name: str
    steps: tuple[tuple[str, str], ...]
    left: tuple[str, ...]


# By watch, then by client.
Sights = Mapping[str, Mapping[str, Sight]]


class TunedPage(NamedTuple):
    """The contents of a page.

    lead      the finding in a sentence
    drawn     the watches whose packets are drawn, in order; all that `sights` holds are in the table
    gateway   rows of a table, the first one its head: what a choice by gateway gives two clients
    """

    lead: str
    subjects: Sequence[Subject]
    drawn: Sequence[str]
    sights: Sights
    scenes: Sequence[Scene]
    gateway: Sequence[Sequence[str]]


def page(shown: TunedPage) -> str:
    """The whole page."""
    nav = el("nav", aria_label="Sections")
    for name in ("table", "gateway", *(subject.name for subject in shown.subjects), "steps"):
        add(nav, el("a", name, href=f"#{name}"))
    header = el("header", el("h1", "Tuned, and put back"), el("p", shown.lead, class_="lead"))
    add(header, el("p", READING, class_="soft"), nav)
    parts = [_subject(subject, shown.drawn, shown.sights) for subject in shown.subjects]
    body = el("main", _table(shown.subjects, shown.sights), _gateway(shown.gateway), *parts, _steps(shown.scenes))
    return document("configtron tune: first flights", [header, body, el("footer", "This page loads nothing.")])


def _table(subjects: Sequence[Subject], sights: Sights) -> Element:
    heads = el("tr", *(el("th", head, scope="col") for head in ("Client", "Prefix", "Rules want", *sights)))
    body = el("tbody")
    for subject in subjects:
        cells = [_cell(watch[subject.name]) for watch in sights.values()]
        named = el("th", el("a", subject.name, href=f"#{subject.name}"), scope="row")
        add(body, el("tr", named, el("td", subject.prefix), el("td", subject.wanted), *cells))
    note = "Seen: congestion control by ss -ti at the server, initial window by the first flight in the capture."
    table = el("table", el("caption", note), el("thead", heads), body)
    return el("section", el("h2", "Wanted and seen", id="table"), scrolled(table, "Wanted and seen", "card wide"))


def _cell(sight: Sight) -> Element:
    if sight.agrees:
        return el("td", sight.seen)
    return el("td", el("b", sight.seen, class_="t-hit"), f" wanted {sight.wanted[0]} {sight.wanted[1]}")


def _gateway(rows: Sequence[Sequence[str]]) -> Element:
    heads = el("tr", *(el("th", head, scope="col") for head in rows[0]))
    body = el("tbody")
    for name, *cells in rows[1:]:
        add(body, el("tr", el("th", name, scope="row"), *(el("td", cell) for cell in cells)))
    words = (
        "Both clients are reached through the same next hop. Rules by prefix distinguish them; a tuner that remembers "
        "one choice for each gateway gives both what one of them needs."
    )
    section = el("section", el("h2", "Two clients behind one gateway", id="gateway"), el("p", words))
    return add(section, scrolled(el("table", el("thead", heads), body), "Two clients behind one gateway", "card wide"))


def _subject(subject: Subject, shown: Sequence[str], sights: Sights) -> Element:
    words = f"{subject.prefix}, round trip {subject.rtt_ms} ms; the rules want {subject.wanted}."
    section = el("section", el("h2", subject.name, id=subject.name), el("p", words))
    runs = [SequenceRun(watch, sights[watch][subject.name].trace) for watch in shown]
    chart = sequence(runs, subject.rtt_ms / 1e3, f"Bytes sent to {subject.name} over time")
    add(section, el("div", chart, class_="card"))
    row = el("div", class_="row card")
    for watch in shown:
        sight = sights[watch][subject.name]
        caption = el("figcaption", el("b", watch), f": {sight.seen}")
        text = f"First flight to {subject.name}, {watch}: {sight.seen}"
        add(row, el("figure", caption, ladder(conversation(sight.trace, sight.reading), text, us="client")))
    return add(section, row)


def _steps(scenes: Sequence[Scene]) -> Element:
    section = el("section", el("h2", "What was run", id="steps"))
    for scene in scenes:
        left = "nothing was left behind" if not scene.left else f"{len(scene.left)} things were left behind"
        made = el("details", el("summary", el("b", scene.name), left))
        for command, output in scene.steps:
            add(made, el("p", el("code", f"$ {command}")), el("pre", output))
        add(made, *(el("p", line, class_="warn") for line in scene.left))
        add(section, made)
    return section
