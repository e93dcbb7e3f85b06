# SPDX-License-Identifier: MIT
"""Constants of ours that tests replace: each is a hidden parameter. Make it an argument or an option; none is added."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support import ROOT
from tests.support.sources import nodes

# How many there are; lower it with each that has become an argument.
MOST_REPLACED = 24
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")


def replaced(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of each constant that `monkeypatch.setattr` replaces in a module of ours."""
    for node in nodes(source):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "setattr":
            continue
        # setattr(module, "NAME", value) or setattr("configtron.module.NAME", value)
        names = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        name = names[0].rpartition(".")[2] if names else ""
        if CONSTANT.fullmatch(name):
            yield node.lineno, name


def test_no_more_constants_are_replaced() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        if file.name != "test_monkeypatches.py"
        if "setattr" in file.read_text()
        for line, name in replaced(file.read_text())
    ]
    assert len(found) <= MOST_REPLACED, "\n".join(found)


def test_a_replaced_constant_is_seen() -> None:
    planted = (
        'monkeypatch.setattr(module, "CHUNK", 7)\nmonkeypatch.setattr("configtron.x.MOST", 1)\n'
        'monkeypatch.setattr(module, "load", f)\nmonkeypatch.setitem(table, "A", 1)\n'
    )
    assert list(replaced(planted)) == [(1, "CHUNK"), (2, "MOST")]
