# SPDX-License-Identifier: MIT
"""What an applier put in force and when, for the join of page loads.

Times are seconds of CLOCK_BOOTTIME. Steps of the wall clock, by which an epoch ends, do not move what is past.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from configtron.intake.pageloads.plan_book import PLANS, PlanBook
from configtron.service.fleet.drawing import DrawnMap


class Activation(NamedTuple):
    """A map's mixes that came into force, and prefix -> class of its prefixes; `drawing` None: from then on it is not
    known what is in force."""

    since_s: float
    drawing: DrawnMap | None
    classes: Mapping[str, str]


class EpochActivations:
    """The activations that no book has yet; a host without page loads has only the latest of them."""

    def __init__(self) -> None:
        self._activations: deque[Activation] = deque(maxlen=PLANS)

    def begun(self, since_s: float, drawing: DrawnMap, classes: Mapping[str, str]) -> None:
        """Note that a map's mixes are in force; `since_s`: before they were written."""
        self._activations.append(Activation(since_s, drawing, classes))

    def ended(self, at_s: float) -> None:
        """Note that what is in force is not known from then on; a time before the last turn counts as that turn's."""
        self._activations.append(Activation(max(at_s, 0.0), None, {}))

    def pass_on(self, book: PlanBook, now_ns: int) -> None:
        """Hand the activations to a book; `now_ns`: CLOCK_BOOTTIME."""
        while self._activations:
            one = self._activations.popleft()
            since_ns = round(one.since_s * 1e9)
            if one.drawing is None:
                book.end(since_ns)
            else:
                book.add(one.drawing.dated(one.classes, since_ns), now_ns)
