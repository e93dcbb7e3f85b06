# SPDX-License-Identifier: MIT
"""The rows of a replay of sessions, for a table, CSV or JSON Lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from configtron.model.records import Json

Row = dict[str, Json]

SIMULATION_COLUMNS = ("policy", "span", "sessions", "median", "p95", "excess_ms", "worse", "gain")


def session_table(found: Iterable[Iterable[Mapping[str, Any]]], form: str) -> tuple[tuple[str, ...], list[Row]]:
    """Return columns, and a row a policy and span; rows of "jsonl" have intervals as objects."""
    rows = [row for part in found for row in part]
    if form == "jsonl":
        return SIMULATION_COLUMNS, [{"kind": "replay", **row} for row in rows]
    columns = ("world", *SIMULATION_COLUMNS) if any("world" in row for row in rows) else SIMULATION_COLUMNS
    columns = (*columns, "damage") if any("damage" in row for row in rows) else columns
    return columns, [_plain(row) for row in rows]


def _plain(row: Mapping[str, Any]) -> Row:
    return {key: _text(value) if isinstance(value, dict) and "low" in value else value for key, value in row.items()}


def _text(one: Mapping[str, Any]) -> str:
    if one["low"] is None:
        return f"{one['value']:.4g}"
    return f"{one['value']:.4g} [{one['low']:.4g}, {one['high']:.4g}]"
