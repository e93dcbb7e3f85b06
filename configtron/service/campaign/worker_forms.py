# SPDX-License-Identifier: MIT
"""What a run and its worker processes write to each other: JSON, an object a line."""

from __future__ import annotations

import json
from typing import NamedTuple, Self

from configtron.probe.wire.shared_spacing import SharedLimits


class WorkerOrders(NamedTuple):
    """What a worker is to do.

    folder, run  the run's folder and number; db: its database
    worker       the worker's number, from 0, which is also its shard's
    parent       the process that starts it
    descriptor   the table of `limits` (`probe/wire/shared_spacing.py`)
    base_ns      of the clock that all workers show (`linux/clock.py`)
    until_s      start nothing new after this time of the monotonic clock; 0: no limit
    """

    folder: str
    run: int
    db: str
    worker: int
    parent: int
    descriptor: int
    limits: SharedLimits
    base_ns: int
    until_s: float
    opt_out_files: tuple[str, ...]

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the orders that `to_json` wrote."""
        row = json.loads(text)
        row["limits"], row["opt_out_files"] = SharedLimits(*row["limits"]), tuple(row["opt_out_files"])
        return cls(**row)


class WorkerCounts(NamedTuple):
    """What a worker has done since it began: connections, those without an answer; and all sessions that have ended."""

    calls: int = 0
    failed: int = 0
    ended: int = 0


class WorkerFault(NamedTuple):
    """Why a worker ends: the code of a `ConfigtronError`, and its text."""

    code: int
    error: str


def line_of(form: WorkerCounts | WorkerFault) -> str:
    """Return a message as a line."""
    return json.dumps(form._asdict()) + "\n"


def form_of(line: bytes) -> WorkerCounts | WorkerFault:
    """Return the message of a line."""
    row = json.loads(line)
    return WorkerFault(**row) if "error" in row else WorkerCounts(**row)
