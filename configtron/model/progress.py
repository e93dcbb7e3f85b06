# SPDX-License-Identifier: MIT
"""Events of a long job: what services report, and what reports show."""

from __future__ import annotations

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
