# SPDX-License-Identifier: MIT
"""The sources as structural tests read them: the files of the product and what they import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import ROOT


def under(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@cache
def sources() -> tuple[tuple[str, Path], ...]:
    """(module name, file) of everything that is installed."""
    return tuple(_sources())


def _sources() -> Iterator[tuple[str, Path]]:
    for folder in ("configtron", "db", "fingerprint", "learner", "probe", "tune"):
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


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Return every node of a source: a walk costs as much as parsing, and several rules walk the same files."""
    return tuple(ast.walk(tree_of(source)))


@cache
def imports(source: str) -> tuple[str, ...]:
    """Return each imported name in both readings: as a module, and as a name of one."""
    return tuple(name for node in _statements(tree_of(source)) for name in _imported(node))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the statements inside it; no expression is entered, none imports."""
    yield node
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, ()):
            yield from _statements(inner)


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports hide the layer: write configtron.…"
        yield from (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))


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
