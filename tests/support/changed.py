# SPDX-License-Identifier: MIT
"""Find the tests that a change reaches, and their distance from it.

Question   Which tests can fail because of a change of these files?
Method     A graph of the repository's Python files: an edge where one imports another, or names it in a string
           (commands load their modules by name). A file that is not Python has an edge from each file that names it.
Reads as   Test files by their distance from the change; a changed test file has distance 0.
Fails as   A module whose name a test computes is not seen: `make test-all` runs every test.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support import ROOT
from tests.support.sources import imports, parsed, sources


def python_files() -> dict[str, Path]:
    """Return the repository's Python files by module name."""
    found = dict(sources())
    for folder in ("tests", "benchmarks"):
        for file in (ROOT / folder).rglob("*.py"):
            found[".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = file
    return found


def changed_files(base: str) -> list[str]:
    """Return the paths that differ from a commit, with changes that are not committed and files that git does not know.

    Errors: `CalledProcessError`.
    """
    commands = (["diff", "--name-only", base, "--"], ["ls-files", "--others", "--exclude-standard"])
    done = [subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True) for words in commands]
    return [path for one in done for path in one.stdout.splitlines()]


def strings(file: Path) -> set[str]:
    """Return the words of a file's strings: module names, paths and their parts."""
    text = [
        node.value for node in ast.walk(parsed(file)) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return set(re.findall(r"[\w.-]+", " ".join(text)))


def importers(files: Mapping[str, Path], others: Iterable[str]) -> dict[str, set[str]]:
    """Return the modules that import or name each module, and each of the other files (by its name)."""
    names = {Path(other).name for other in others}
    found: dict[str, set[str]] = {}
    for module, file in files.items():
        for used in {*imports(parsed(file)), *strings(file)} & (files.keys() | names):
            found.setdefault(used, set()).add(module)
    return found


def distances(changed: Iterable[str]) -> dict[str, int]:
    """Return the test files that a change of these paths reaches, each with its distance in imports."""
    files = python_files()
    modules = {str(file.relative_to(ROOT)): module for module, file in files.items()}
    others = [path for path in changed if path not in modules]
    graph = importers(files, others)
    far = {modules.get(path, Path(path).name): 0 for path in changed}
    edge = set(far)
    while edge:
        steps = 1 + max(far[node] for node in edge)
        edge = {user for node in edge for user in graph.get(node, ())} - far.keys()
        far |= dict.fromkeys(edge, steps)
    paths = {module: path for path, module in modules.items()}
    reached = {paths[module]: steps for module, steps in far.items() if module in paths}
    return {path: steps for path, steps in reached.items() if Path(path).name.startswith("test_")}
