# SPDX-License-Identifier: MIT
"""Progress events of a long job: services send them, reports show them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """The job `what` has finished `done` of `total` steps. With a total of 0 it is a notice, with text `what`."""

    done: int
    total: int
    what: str


@dataclass(frozen=True, slots=True)
class StepProgress(Event):
    """`done` of `total` steps; `things`: their name, in the plural. The first event of a job comes before any step."""

    things: str = ""
