# SPDX-License-Identifier: MIT
"""Print each fault that is planted: by what, how it ends, the log line, the time to recover.

Rows are files of `benchmarks/fault_rows`, JSON Lines, one object a fault with the texts of `Row`: `simulation.jsonl` is
written by `benchmarks.fleet_faults --write`, `killing.jsonl` by `benchmarks.fleet_faults killing --write` or from what
it printed, `processes.jsonl` by tests with real processes (`tests/support/faults`).

Exit code 2: a row has another field, or a text that is empty where it may not be.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from configtron.model.errors import BadInput

ROWS = Path(__file__).with_name("fault_rows")
# A row's test: file and function.
TEST = re.compile(r"`((?:tests|benchmarks)/[\w/]+\.py)::(\w+)`")


@dataclass(frozen=True, slots=True)
class Row:
    """A fault as the table has it.

    fault      what is planted
    by         "simulation", or `tests/FILE.py::TEST` in backticks, or a command
    end        how it ends: what is in force, which rows are stored
    line       the log line, numbers and names as in one run; "": none, and `end` gives the reason
    recovery   s from the fault to that end: one figure, or least, median, most with how many were planted
    bound      what the documents promise, s; "": nothing
    """

    fault: str
    by: str
    end: str
    line: str
    recovery: str = ""
    bound: str = ""

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in asdict(self).values()):
            raise BadInput(f"fault {self.fault!r}: a field is no text")
        if not (self.fault and self.by and self.end):
            raise BadInput(f"fault {self.fault!r}: fault, by and end are never empty")


def rows_of(path: Path) -> list[Row]:
    """Return the rows of a file. Errors: `BadInput`."""
    found = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            found.append(Row(**json.loads(text)))
        except (ValueError, TypeError, BadInput) as error:
            raise BadInput(f"{path}:{number}: {error}; a row is an object with the fields of `Row`") from error
    return found


def written(rows: Iterable[Row]) -> str:
    """Return rows as the text of a file."""
    return "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)


def all_rows(folder: Path = ROWS) -> list[Row]:
    """Return the rows of all files: the simulation's first. Errors: `BadInput`."""
    paths = sorted(folder.glob("*.jsonl"), key=lambda path: (path.name != "simulation.jsonl", path.name))
    return [row for path in paths for row in rows_of(path)]


def table(rows: Iterable[Row]) -> str:
    """Return the table in Markdown."""
    lines = ["| fault | planted by | end state | log line | recovery, s | bound, s |", "|---|---|---|---|---|---|"]
    for row in rows:
        line = f"`` {row.line} ``" if "`" in row.line else f"`{row.line}`" if row.line else ""
        cells = (row.fault, row.by, row.end, line, row.recovery, row.bound)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the table."""
    try:
        print(table(all_rows()), end="")
    except BadInput as error:
        print(f"fault_table: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
