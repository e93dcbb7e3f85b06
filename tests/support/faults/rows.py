# SPDX-License-Identifier: MIT
"""Rows of a table of faults, from the tests that plant them.

    CONFIGTRON_FAULT_ROWS=rows.jsonl python -m pytest tests/service/fleet/faults

A test that passed puts its row into that file, in place of the one of the same fault; without the variable, nowhere.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

VARIABLE = "CONFIGTRON_FAULT_ROWS"


def write_row(fault: str, end: str, line: str, recovery_s: float | None = None, bound_s: float | None = None) -> None:
    """Put a row into the file that the variable names; seconds from the fault to its end, and their bound."""
    if not (name := os.environ.get(VARIABLE)):
        return
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0]
    shown = [f"{value:.1f}" if value is not None else "" for value in (recovery_s, bound_s)]
    row = {"fault": fault, "by": f"`{test.partition('[')[0]}`", "end": end, "line": line,
           "recovery": shown[0], "bound": shown[1]}  # fmt: skip
    path = Path(name)
    rows = [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []
    at = next((at for at, each in enumerate(rows) if each["fault"] == fault), len(rows))
    rows[at : at + 1] = [row]
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows))
