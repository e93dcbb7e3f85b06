# SPDX-License-Identifier: MIT
"""A conversation drawn as a time-sequence diagram: two lifelines, time runs down, what proves the verdict stands out.

Time is not to scale: SYN-ACKs a minute apart and segments a microsecond apart share one drawing. Each line says its
second; a pause that is long against the round trip is drawn as one and says how long it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from configtron.report.page.conversation import Conversation, LadderLine, Note
from configtron.report.page.markup import add, el, picture, short

# Pixels.
WIDTH, OURS, THEIRS, TOP, SLOPE = 340, 54, 318, 44, 5
MIDDLE = (OURS + THEIRS) / 2
STEP, CLOSE, NOTE, PAUSE, PAUSE_DECADE = 23, 7, 15, 22, 10
# A silence from here on is a pause worth a number.
PAUSE_S = 0.1
# Data that comes within this time is one flight; of a longer one each segment is an arrow, and all have one label.
FLIGHT_S, FLIGHT_LINES = 0.02, 3
# Characters that fit between the lifelines.
WORDS, CHARACTER = 40, 7.2


class _Flight(NamedTuple):
    """Lines that are drawn together: one, or a flight of data."""

    lines: tuple[LadderLine, ...]

    @property
    def text(self) -> str:
        """One line's words, or what the flight carried."""
        first, size = self.lines[0], sum(line.length for line in self.lines)
        return first.text if len(self.lines) == 1 else f"{len(self.lines)} segments, {size} bytes"


def ladder(lines: Conversation, title: str, us: str = "prober") -> Element:
    """The diagram; `title` describes it in words, `us` names the left side."""
    y, drawn, before = float(TOP), [], None
    for flight in flights(lines.lines):
        at = flight.lines[0].at
        if before is not None and at - before >= PAUSE_S:
            tall = PAUSE + PAUSE_DECADE * math.log10((at - before) / PAUSE_S)
            drawn.append(_pause(y, tall, at - before))
            y += tall
        drawn.append(_flight(flight, y))
        y += STEP + CLOSE * (len(flight.lines) - 1) + NOTE * len(flight.lines[0].notes)
        y += NOTE / 3 if flight.lines[0].notes else 0
        before = flight.lines[-1].at
    if lines.more:
        drawn.append([el("text", f"… and {lines.more} more", x=OURS + 8, y=y + 10, class_="t-soft")])
        y += STEP
    words = f"{title}. " + "; ".join(f"{line.at:.3f} s {line.way} {line.text}" for line in lines.lines)
    svg = picture(WIDTH, y + 6, words)
    add(svg, el("text", us, x=OURS, y=14, text_anchor="middle", font_weight=650))
    add(svg, el("text", "server", x=THEIRS, y=14, text_anchor="middle", font_weight=650))
    for x in (OURS, THEIRS):
        add(svg, el("line", x1=x, x2=x, y1=22, y2=y, class_="life"))
    return add(svg, *(shape for shapes in drawn for shape in shapes))


def flights(lines: Sequence[LadderLine]) -> list[_Flight]:
    """Lines in groups: data of one way within a moment is a group if it is long, else each line is its own."""
    groups: list[list[LadderLine]] = []
    for line in lines:
        last = groups[-1][-1] if groups else None
        follows = last is not None and _alike(last, line) and line.at - last.at <= FLIGHT_S
        if follows:
            groups[-1].append(line)
        else:
            groups.append([line])
    made: list[_Flight] = []
    for group in groups:
        made += [_Flight(tuple(group))] if len(group) >= FLIGHT_LINES else [_Flight((line,)) for line in group]
    return made


def _alike(one: LadderLine, other: LadderLine) -> bool:
    """Return whether they may be drawn as one flight: a line with notes needs room for them."""
    carries = bool(one.length and other.length) and not (one.inside or other.inside or one.notes or other.notes)
    return carries and (one.way, one.proof, one.again) == (other.way, other.proof, other.again)


def _pause(y: float, tall: float, seconds: float) -> list[Element]:
    words = f"{seconds:.2f} s later" if seconds < 10 else f"{seconds:.0f} s later"
    # Between the arrow before, a step above, and the words of the one after.
    top, bottom = y - STEP + SLOPE, y + tall - STEP + SLOPE
    lines = [el("line", x1=x, x2=x, y1=top, y2=bottom, class_="pause") for x in (OURS, THEIRS)]
    return [*lines, el("text", words, x=MIDDLE, y=(top + bottom) / 2 + 4, text_anchor="middle", class_="t-soft")]


def _flight(flight: _Flight, y: float) -> list[Element]:
    shapes = []
    for n, line in enumerate(flight.lines):
        shapes += _arrow(line, y + n * CLOSE)
    first = flight.lines[0]
    shapes.append(el("text", f"{first.at:.3f}", x=OURS - 10, y=y + 4, text_anchor="end", class_="t-soft"))
    kind = "t-mark" if first.proof else "t-soft" if first.inside or first.way == "out" else None
    words = el("text", short(flight.text, WORDS), el("title", flight.text), class_=kind, text_anchor="middle")
    height = CLOSE * (len(flight.lines) - 1)
    if height:
        # Beside the flight, on paper of its own, so that the arrows do not run through the words.
        wide = len(flight.text) * CHARACTER + 20
        middle = y + height / 2 - SLOPE / 2
        shapes.append(el("rect", x=MIDDLE - wide / 2, y=middle - 10, width=wide, height=20, rx=10, class_="label"))
        y = middle + SLOPE + 6
    words.set("x", f"{MIDDLE:.0f}")
    words.set("y", f"{y - SLOPE - 2:.0f}")
    return [*shapes, words, *(_note(note, y + NOTE * (n + 1) - 3) for n, note in enumerate(first.notes))]


def _note(note: Note, y: float) -> Element:
    kind = "t-mark" if note.proof else "t-soft"
    return el("text", short(note.text, WORDS), x=MIDDLE, y=y, text_anchor="middle", class_=kind)


def _arrow(line: LadderLine, y: float) -> list[Element]:
    kind = "proof" if line.proof else "sent" if line.way == "out" else "heard"
    here, there = OURS + 3, THEIRS - 3
    x1, x2, tip = (here, there, -8) if line.way == "out" else (there, here, 8)
    dashed = f"{kind} inside" if line.inside else kind
    head = f"{x2},{y:.0f} {x2 + tip},{y - 4:.0f} {x2 + tip},{y + 3:.0f}"
    return [
        el("line", x1=x1, x2=x2, y1=y - SLOPE, y2=y, class_=dashed),
        el("polygon", points=head, class_=f"head-{kind}"),
    ]
