# SPDX-License-Identifier: MIT
"""One meaning for a name: classes, files of a package, tables of columns. A search finds one place."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.support import ROOT
from tests.support.sources import nodes, parsed, sources

Places = dict[str, list[str]]


def twice(places: Places) -> Places:
    return {name: files for name, files in places.items() if len(files) > 1}


def package(file: Path) -> str:
    """Return the package of a file: a folder of the product; below configtron/, a folder of a command or a service."""
    parts = file.relative_to(ROOT).parts
    return "/".join(parts[:-1] if parts[0] == "configtron" else parts[:1])


def test_no_class_name_is_defined_twice() -> None:
    found = defaultdict(set)
    for _, file in sources():
        for node in nodes(file.read_text()):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(str(file.relative_to(ROOT)))
    assert twice({name: sorted(files) for name, files in found.items()}) == {}


def test_no_base_name_is_twice_in_a_package() -> None:
    found: Places = defaultdict(list)
    for _, file in sources():
        if not file.stem.startswith("__"):
            found[f"{package(file)}/{file.stem}"].append(str(file.relative_to(ROOT)))
    assert twice(found) == {}


def test_each_column_table_has_a_name_of_its_own() -> None:
    found: Places = defaultdict(list)
    for _, file in sources():
        for node in parsed(file).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                if name.endswith("COLUMNS"):
                    found[name].append(str(file.relative_to(ROOT)))
    assert found and twice(found) == {} and "COLUMNS" not in found
