# SPDX-License-Identifier: MIT
"""The sources as structural tests read them: the files of the product and what they import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rigs import ROOT


def under(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def sources() -> Iterator[tuple[str, Path]]:
    """(module name, file) of everything that is installed."""
    for folder in ("configtron", "db", "fingerprint", "fleet", "lab", "learner", "probe", "report", "studies", "tune"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = list(file.relative_to(ROOT).with_suffix("").parts)
            if folder == "configtron" and len(parts) > 1 and (ROOT / folder / parts[1]).is_symlink():
                continue  # the folder itself follows in this loop
            name = ".".join(parts if folder == "configtron" else ["configtron", *parts])
            yield name.removesuffix(".__init__"), file


@cache
def tree_of(source: str) -> ast.Module:
    """Return the tree of a source; several rules read the same files."""
    return ast.parse(source)


def parsed(file: Path) -> ast.Module:
    """Return a file's tree."""
    return tree_of(file.read_text())


@cache
def modules() -> frozenset[str]:
    return frozenset(name for name, _ in sources())


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer: write configtron.…"
            # `from configtron.probe import wire` may name a module: report both readings.
            yield node.module or ""
            if under(node.module or "", "configtron"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def defines(file: Path, name: str) -> bool:
    body = parsed(file).body
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in body)


def provokes(file: Path) -> bool:
    """Return whether the file sends: a function of its own name returns a script."""
    body = parsed(file).body
    named = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == file.stem]
    return any(isinstance(f.returns, ast.Name) and f.returns.id in ("Script", "StreamScript") for f in named)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
