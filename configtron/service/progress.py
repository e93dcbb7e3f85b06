# SPDX-License-Identifier: MIT
"""Progress of a long job as events to a callback, and a caller's wish to end it.

A service function takes `progress: Progress = unheard` and calls it now and then; the caller decides how to show it.
It takes `cancelled: Cancelled = never` and asks it between two transactions. When the answer is yes, it returns the
result so far, marked as cancelled: everything that the result counts is stored, nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """`done` of `total` steps of the job `what` are finished. With a total of 0 it is a notice, with text `what`."""

    done: int
    total: int
    what: str


@dataclass(frozen=True, slots=True)
class StepProgress(Event):
    """`done` of `total` steps; `things`: their name, in the plural. The first event of a job comes before any step."""

    things: str = ""


Progress = Callable[[Event], None]
Cancelled = Callable[[], bool]


def unheard(event: Event) -> None:
    """Drop an event."""


def never() -> bool:
    """Return False: the job runs to its end."""
    return False
