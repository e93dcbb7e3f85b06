# SPDX-License-Identifier: MIT
"""Progress of a long job as events to a callback, and a caller's wish to end it.

A service function takes `progress: Progress = unheard` and calls it now and then; the caller decides how to show it.
It takes `cancelled: Cancelled = never` and asks it between two transactions. When the answer is yes, it returns the
result so far, marked as cancelled: everything that the result counts is stored, nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable

from configtron.model.progress import Event, StepProgress

__all__ = ["Cancelled", "Event", "Progress", "StepProgress", "never", "notice", "unheard"]

Progress = Callable[[Event], None]
Cancelled = Callable[[], bool]


def unheard(event: Event) -> None:
    """Drop an event."""


def never() -> bool:
    """Return False: the job runs to its end."""
    return False


def notice(progress: Progress, text: str) -> None:
    """Report a line that is no step of a job."""
    progress(Event(0, 0, text))
