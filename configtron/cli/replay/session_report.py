# SPDX-License-Identifier: MIT
"""A replay of sessions as a table, CSV or JSON Lines, and its progress on stderr."""

from __future__ import annotations

from typing import Any

from configtron.cli.learn.options import say, write
from configtron.cli.learn.pace import Pace
from configtron.model.records import Json
from configtron.service.progress import Event
from configtron.service.replay.session_job import StepProgress

SIMULATION_COLUMNS = ("policy", "span", "sessions", "median", "p95", "excess_ms", "worse", "gain")


class SessionsDisplay:
    """Show notices, and now and then how fast each job goes and when it will be done."""

    def __init__(self) -> None:
        self._paces: dict[str, Pace] = {}

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if not isinstance(event, StepProgress):
            say(event.what)
        elif event.what not in self._paces or event.done <= self._paces[event.what].begun:
            self._paces[event.what] = Pace(event.what, event.things, event.total, event.done)
        else:
            self._paces[event.what](event.done)


def write_sessions(found: list[Any], form: str, output_file: str) -> None:
    """Write a row a policy and span; JSON Lines have intervals as objects."""
    rows = [row for part in found for row in part]
    if form == "jsonl":
        write(form, output_file, SIMULATION_COLUMNS, [{"kind": "replay", **row} for row in rows])
        return
    columns = ("world", *SIMULATION_COLUMNS) if any("world" in row for row in rows) else SIMULATION_COLUMNS
    columns = (*columns, "damage") if any("damage" in row for row in rows) else columns
    write(form, output_file, columns, [_plain(row) for row in rows])


def _plain(row: dict[str, Any]) -> dict[str, Json]:
    return {key: _text(value) if isinstance(value, dict) and "low" in value else value for key, value in row.items()}


def _text(one: dict[str, Any]) -> str:
    if one["low"] is None:
        return f"{one['value']:.4g}"
    return f"{one['value']:.4g} [{one['low']:.4g}, {one['high']:.4g}]"
