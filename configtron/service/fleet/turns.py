# SPDX-License-Identifier: MIT
"""What came into force when: the applier's turns, recorded as they take place, for the join of page loads.

Times are seconds of CLOCK_BOOTTIME. Steps of the wall clock, by which turns are due, do not move what is past.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from configtron.intake.pageloads.plan_book import PLANS, PlanBook
from configtron.service.fleet.drawing import DrawnMap


class MapTurn(NamedTuple):
    """A map's mixes that came into force, and prefix -> class of its prefixes; `drawing` None: from then on it is not
    known what is in force."""

    since_s: float
    drawing: DrawnMap | None
    classes: Mapping[str, str]


class TurnLog:
    """The turns that no book has yet; a host without page loads keeps the last ones alone."""

    def __init__(self) -> None:
        self._turns: deque[MapTurn] = deque(maxlen=PLANS)

    def begun(self, since_s: float, drawing: DrawnMap, classes: Mapping[str, str]) -> None:
        """Note that a map's mixes are in force; `since_s`: before they were written."""
        self._turns.append(MapTurn(since_s, drawing, classes))

    def ended(self, at_s: float) -> None:
        """Note that what is in force is not known from then on; a time before the last turn counts as that turn's."""
        self._turns.append(MapTurn(max(at_s, 0.0), None, {}))

    def pass_on(self, book: PlanBook, now_ns: int) -> None:
        """Hand the turns to a book; `now_ns`: CLOCK_BOOTTIME, when they have taken place."""
        while self._turns:
            turn = self._turns.popleft()
            since_ns = round(turn.since_s * 1e9)
            if turn.drawing is None:
                book.end(since_ns)
            else:
                book.add(turn.drawing.dated(turn.classes, since_ns), now_ns)
