# SPDX-License-Identifier: MIT
"""Each room keeps to its budget of code lines, by the table in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support import ROOT
from tests.support.sources import nodes

ROW = re.compile(r"^\| `([\w/]+)/` \| ([\d ]+) \|$", re.MULTILINE)


def code_lines(text: str) -> int:
    """Return the number of lines that are code."""
    free: set[int] = set()
    for node in nodes(text):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                free.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(number not in free and bool(line.strip()) and line.lstrip()[0] != "#" for number, line in lines)


def files_of(room: str) -> list[Path]:
    """Return the files of a room, those of the folders that links in it lead to left out."""
    return [file for file in (ROOT / room).rglob("*.py") if not file.is_symlink()]


def test_every_room_keeps_to_its_budget() -> None:
    budgets = {room: int(lines.replace(" ", "")) for room, lines in ROW.findall((ROOT / "CONTRIBUTING.md").read_text())}
    rooms = {folder.name for folder in (ROOT / "configtron").iterdir() if (folder / "__init__.py").exists()}
    rooms = {room if (ROOT / room).is_dir() else f"configtron/{room}" for room in rooms}
    assert rooms | {"tests", "benchmarks"} == set(budgets), "a row for each room"
    counts = {room: sum(code_lines(file.read_text()) for file in files_of(room)) for room in budgets}
    assert {room: lines for room, lines in counts.items() if lines > budgets[room]} == {}, "delete, or move the budget"


def test_only_code_counts() -> None:
    text = '"""Doc.\n\nMore."""\n\n# why\nx = 1\n\n\ndef f() -> str:\n    """Do."""\n    return """a\nb"""\n'
    assert code_lines(text) == 4
