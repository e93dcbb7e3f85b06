# SPDX-License-Identifier: MIT
"""Who may import whom: the law of docs/design/0002. Layers 0 to 2 are pure; imports point down only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Clocks, chance, sockets, processes and their relatives. Pure code is handed their results.
IMPURE = frozenset(
    "asyncio ctypes datetime io logging multiprocessing os pathlib random scapy secrets select selectors shutil signal "
    "socket sqlite3 ssl subprocess sys tempfile threading time uuid zmq dns click rich".split()
)
# Names that reach the world without an import.
IMPURE_CALLS = frozenset({"open", "input", "print", "exec", "eval", "__import__"})
NOUNS = frozenset(
    f"configtron.{name}"
    for name in "nouns nearest ports tuning knobs grid tensor repeats samples measured messages records errors".split()
) | {"configtron.characteristics", "configtron.evaluated", "configtron.student"}
EDGES = tuple(
    f"configtron.{name}"
    for name in "clock netns trust probe.wire fingerprint.capture tune.drivers tune.router report db lab".split()
)

# The ground that the edges share (docs/design/0028, 0034): itself it may import no edge.
GROUND = ("configtron.clock", "configtron.netns", "configtron.trust")


def layer(module: str) -> int:
    """0 nouns, 1 reading, 2 verbs, 3 edges, 4 composition."""
    if module in NOUNS or module == "configtron":
        return 0
    if under(module, "configtron.cli") or module == "configtron.__main__":
        return 4
    if any(under(module, edge) for edge in EDGES):
        return 3
    verbs = {"configtron.probe": 2, "configtron.tune": 2, "configtron.learner": 2}
    return {"configtron.fingerprint": 1, **verbs}[".".join(module.split(".")[:2])]


def under(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def sources() -> Iterator[tuple[str, Path]]:
    """(module name, file) of everything that is installed."""
    for folder in ("configtron", "db", "fingerprint", "lab", "learner", "probe", "report", "tune"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = list(file.relative_to(ROOT).with_suffix("").parts)
            if folder == "configtron" and len(parts) > 1 and (ROOT / folder / parts[1]).is_symlink():
                continue  # the folder itself follows in this loop
            name = ".".join(parts if folder == "configtron" else ["configtron", *parts])
            yield name.removesuffix(".__init__"), file


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


def offences(module: str, source: str) -> list[str]:
    """What this module does that its layer may not."""
    tree, mine, found = ast.parse(source), layer(module), []
    known = {name for name, _ in sources()}
    for name in imports(tree):
        if mine <= 2 and name.split(".")[0] in IMPURE:
            found.append(f"{module} (layer {mine}) imports {name}")
        if not under(name, "configtron") or (name not in known):
            continue
        theirs = layer(name)
        if theirs > mine:
            found.append(f"{module} (layer {mine}) imports {name} (layer {theirs})")
        if theirs == mine == 3 and edge(name) not in (edge(module), *GROUND):
            found.append(f"edge {module} imports edge {name}: the composition layer hands it in")
    if mine <= 2:
        found += [
            f"{module} (layer {mine}) calls {node.func.id}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS
        ]
    return found


def edge(module: str) -> str:
    return next(edge for edge in EDGES if under(module, edge))


@pytest.mark.parametrize(("module", "file"), [pytest.param(m, f, id=m) for m, f in sources()])
def test_module_keeps_to_its_layer(module: str, file: Path) -> None:
    assert offences(module, file.read_text()) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("configtron.nouns", "import time"),
        ("configtron.fingerprint.icw", "from random import Random"),
        ("configtron.fingerprint.icw", "import os.path"),
        ("configtron.fingerprint.icw", "def f():\n    import socket"),
        ("configtron.fingerprint.icw", "from configtron.probe import script"),
        ("configtron.fingerprint.icw", "import configtron.probe"),
        ("configtron.probe.icw", "from configtron.probe import wire"),
        ("configtron.probe.icw", "import configtron.db"),
        ("configtron.probe.icw", "print('here')"),
        ("configtron.probe.wire", "import configtron.db"),
        ("configtron.netns", "import configtron.db"),
        ("configtron.clock", "import configtron.db"),
        ("configtron.db", "from configtron import cli"),
        ("configtron.nouns", "from configtron import probe"),
    ],
)
def test_the_law_can_be_broken(module: str, source: str) -> None:
    assert offences(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("configtron.probe.icw", "import math\nfrom configtron.fingerprint import __doc__"),
        ("configtron.probe.wire", "import socket, time"),
        ("configtron.probe.wire", "from configtron.netns import inside"),
        ("configtron.cli", "import configtron.db, configtron.lab, configtron.probe.wire"),
    ],
)
def test_the_law_lets_the_lawful_pass(module: str, source: str) -> None:
    assert offences(module, source) == []


def test_every_layer_is_inhabited() -> None:
    assert {layer(module) for module, _ in sources()} == {0, 1, 2, 3, 4}
