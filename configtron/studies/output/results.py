# SPDX-License-Identifier: MIT
"""What a study returns: tables, plots as numbers, and facts: a claim of the paper's with its figure and ours.

Rules for this file: values only. Who measures is in `studies/`, who draws and prints in `studies/output/`; they do
not know each other. A figure of ours is a text made from what was measured, with its interval where it has one; a
verdict is computed, never written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# A fact's verdict: as the paper has it; only in a part of the cases, which the words name; not so; not measured here.
HOLDS, PARTLY, ABSENT, UNKNOWN = "holds", "partly", "absent", "not-measured"
VERDICTS = (HOLDS, PARTLY, ABSENT, UNKNOWN)

# None is a cell that has no value.
Cell = str | int | float | None


class Table(NamedTuple):
    """name: a word, which its CSV is called after; title: a line; rows: as long as columns; words: how to read it."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    words: str = ""


class Curve(NamedTuple):
    """(x, y, low, high) in order of x; low and high are NaN where there is no interval."""

    name: str
    points: Sequence[tuple[float, float, float, float]]


class Curves(NamedTuple):
    """Lines over one pair of axes. x, y: the axes in words, with units."""

    title: str
    x: str
    y: str
    series: Sequence[Curve]
    log_x: bool = False
    words: str = ""


class Cloud(NamedTuple):
    """Points of one name, and what is drawn around them, corner by corner: an ellipse of spread, say; or nothing."""

    name: str
    points: Sequence[tuple[float, float]]
    outline: Sequence[tuple[float, float]] = ()


class Scatter(NamedTuple):
    """Clouds over one pair of axes. flip_x: x grows to the left (Pantheon's delay: better is to the right)."""

    title: str
    x: str
    y: str
    clouds: Sequence[Cloud]
    log_x: bool = False
    flip_x: bool = False
    words: str = ""


class Heat(NamedTuple):
    """values[row][column], None where there is none; more: whether a larger one is better."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    unit: str = ""
    more: bool = True
    words: str = ""


class Mark(NamedTuple):
    """A segment of data at one end of a connection: second, connection's number, bytes of all data before and with it.

    kind: "data", "again" (sent before), "lost" (never arrived).
    """

    at_s: float
    connection: int
    begin: int
    end: int
    kind: str = "data"


class Sequences(NamedTuple):
    """Time-sequence diagrams side by side on the same axes: (name, marks, when the page was there in s) each."""

    title: str
    panels: Sequence[tuple[str, Sequence[Mark], float]]
    words: str = ""


Plot = Curves | Scatter | Heat | Sequences


class Fact(NamedTuple):
    """A claim, the paper's figure, ours, one of VERDICTS, and why: what in the measured numbers makes it so."""

    claim: str
    paper: str
    ours: str
    verdict: str
    words: str = ""


class Evaluated(NamedTuple):
    """One study's answer.

    paper    where the study stands in the paper; method: what was done, in words
    ground   what it ran on: (word, value) pairs as seed, software, conditions
    differs  what keeps ours from being the paper's
    whole    False while parts are missing; `missing` says which
    """

    name: str
    title: str
    paper: str
    method: str
    tables: Sequence[Table]
    plots: Sequence[Plot]
    facts: Sequence[Fact]
    differs: str
    ground: Sequence[tuple[str, str]] = ()
    missing: str = ""

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing
