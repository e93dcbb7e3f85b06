# SPDX-License-Identifier: MIT
"""Every study by name and in one line, read from the text of its file: to import one loads the lab or a simulator."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from configtron import studies
from configtron.model.choices import LAB, SESSIONS

# What the arguments of a row `STUDY` are, by its kind (`kinds.py`, `simulated/points.py`), and what it has without
# them.
FIELDS = {
    "ClaimsStudy": (("study", "paper", "about", "duration", "run", "needs"), {"needs": LAB}),
    "SessionsStudy": (("study", "about", "paper"), {"needs": SESSIONS, "duration": "minutes"}),
}
SHOWN = ("study", "needs", "paper", "about", "duration")


def names() -> tuple[str, ...]:
    """Return the names of all studies, sorted."""
    return tuple(sorted(file.stem for file in _folder().glob("[!_]*.py")))


def listed() -> list[dict[str, str]]:
    """Return a row a study: name, what it needs, paper and section, what it reproduces, about how long it takes."""
    return [_row((_folder() / f"{name}.py").read_text("utf-8")) for name in names()]


def spelt_out(paper: str) -> str:
    """Return a paper's name in full where a study abbreviates it: CT is ConfigTron (2019), HC HotCloud (2017)."""
    return re.sub(r"\b(CT|HC)\b", lambda found: {"CT": "ConfigTron", "HC": "HotCloud"}[found[0]], paper)


def _folder() -> Path:
    return Path(studies.__path__[0])


def _row(text: str) -> dict[str, str]:
    """Read the row `STUDY` of a study's text: its strings, and the name of what it needs."""
    calls = (node.value for node in ast.parse(text).body if isinstance(node, ast.Assign) and _names(node) == ["STUDY"])
    call = next(call for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name))
    assert isinstance(call.func, ast.Name)
    fields, row = FIELDS[call.func.id]
    given = [*zip(fields, call.args, strict=False), *((str(one.arg), one.value) for one in call.keywords)]
    said = {name: str(value.value) for name, value in given if isinstance(value, ast.Constant)}
    needed = {name: value.id.lower() for name, value in given if name == "needs" and isinstance(value, ast.Name)}
    found = {**row, **said, **needed}
    return {name: found[name] for name in SHOWN}


def _names(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]
