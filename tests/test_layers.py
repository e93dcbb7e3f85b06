# SPDX-License-Identifier: MIT
"""Who may import whom: the law of docs/decisions/0002. Layers 0 to 2 are pure; imports point down only."""

from __future__ import annotations

import ast

import pytest

from tests.support import ROOT
from tests.support.sources import imports, modules, nodes, sources, under

# Clocks, chance, sockets, processes and their relatives. Pure code is handed their results.
IMPURE = frozenset(
    "asyncio ctypes datetime io logging multiprocessing os pathlib random scapy secrets select selectors shutil signal "
    "socket sqlite3 ssl subprocess sys tempfile threading time uuid zmq dns click rich".split()
)
# Names that reach the world without an import.
IMPURE_CALLS = frozenset({"open", "input", "print", "exec", "eval", "__import__"})
EDGES = tuple(
    "configtron.probe.wire configtron.fingerprint.capture configtron.intake.receiving configtron.tune.drivers "
    "configtron.tune.router configtron.report configtron.db configtron.lab configtron.fleet.transport".split()
)
# From the most special prefix to the most general.
LAYERS = (
    ("configtron.lab.schemes", 1),
    ("configtron.cli", 6), ("configtron.__main__", 6), ("configtron.service", 5), *((edge, 4) for edge in EDGES),
    ("configtron.linux", 3), ("configtron.probe", 2), ("configtron.tune", 2), ("configtron.learner", 2),
    ("configtron.fleet", 2), ("configtron.intake", 2),
    ("configtron.fingerprint", 1), ("configtron.model", 0),
)  # fmt: skip
# The papers' studies may import everything; only the command that runs them imports them.
STUDIES = "configtron.studies"
RUNS_STUDIES = (
    *(f"configtron.cli.replay.{name}" for name in ("earlier", "sessions", "study", "study_flags")),
    "configtron.cli.learn.indigo", "configtron.service.learning.indigo", "configtron.service.replay.sessions",
)  # fmt: skip
# The one verb that may import another: rows of page loads are what the learner reads.
ABOVE = ("configtron.intake", "configtron.learner")
# What turns a result into text on a terminal is the command line's.
TERMINAL = frozenset({"click", "rich"})


def layer(module: str) -> int:
    """0 model, 1 reading, 2 verbs, 3 Linux, 4 edges, 5 service, 6 command line, 7 studies."""
    if module == "configtron":
        return 0
    if under(module, STUDIES):
        return 7
    return next(number for prefix, number in LAYERS if under(module, prefix))


def offences(module: str, source: str) -> list[str]:
    """What this module does that its layer may not."""
    mine, found = layer(module), []
    known = modules()
    for name in imports(source):
        if mine == 5 and name.split(".")[0] in TERMINAL:
            found.append(f"{module} (service) imports {name}")
        if mine <= 2 and name.split(".")[0] in IMPURE:
            found.append(f"{module} (layer {mine}) imports {name}")
        if not under(name, "configtron") or (name not in known):
            continue
        theirs = layer(name)
        if theirs > mine and not (theirs == 7 and module in RUNS_STUDIES):
            found.append(f"{module} (layer {mine}) imports {name} (layer {theirs})")
        if theirs == mine == 4 and edge(name) != edge(module):
            found.append(f"edge {module} imports edge {name}: the service layer hands it in")
        lawful = under(module, ABOVE[0]) and under(name, ABOVE[1])
        if theirs == mine == 2 and name.split(".")[1] != module.split(".")[1] and not lawful:
            found.append(f"verb {module} imports verb {name}: what both need belongs into the model")
    if mine <= 2 or mine == 5:
        barred = IMPURE_CALLS if mine <= 2 else {"print", "input", "exec", "eval", "__import__"}
        found += [
            f"{module} (layer {mine}) calls {node.func.id}"
            for node in nodes(source)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in barred
        ]
    return found


def edge(module: str) -> str:
    return next(edge for edge in EDGES if under(module, edge))


def test_modules_keep_to_their_layers() -> None:
    assert [offence for module, file in sources() for offence in offences(module, file.read_text())] == []


@pytest.mark.parametrize(
    ("module", "broken"),
    [
        ("model.nouns", ["import time", "from configtron import probe"]),
        ("fingerprint.icw", ["from random import Random", "import os.path", "def f():\n    import socket",
                             "from configtron.probe import script", "import configtron.probe"]),
        ("probe.icw", ["from configtron.probe import wire", "import configtron.db", "print('here')",
                       "from configtron.learner import grid"]),
        ("probe.wire", ["import configtron.db"]),
        ("linux.netns", ["import configtron.db"]),
        ("linux.clock", ["import configtron.db"]),
        ("service.lease", ["import click", "print('here')", "import configtron.cli.root"]),
        ("db", ["import configtron.service", "from configtron import cli"]),
        ("lab", ["import configtron.studies"]),
        ("cli.tune.apply", ["import configtron.studies"]),
        ("cli.replay.packets", ["import configtron.studies"]),
        ("learner.columns", ["import configtron.intake"]),
        ("fleet.agent_session", ["import zmq", "from configtron.fleet import transport"]),
    ],
)  # fmt: skip
def test_the_law_can_be_broken(module: str, broken: list[str]) -> None:
    assert [source for source in broken if not offences(f"configtron.{module}", source)] == []


# What stands beside the product: folder, and what it may import. One file of tests judges the judges of benchmarks.
JUDGES = "test_judges.py"
OUTSIDE = {"tests": ("configtron", "tests"), "benchmarks": ("configtron", "tests.support", "benchmarks")}


def strangers(folder: str, source: str) -> list[str]:
    """Return the imports of a file of that folder ("" for the product) that belong to what it may not import."""
    lawful = OUTSIDE.get(folder, ("configtron",))
    ours = [name for name in imports(source) if name != "tests" and name.split(".")[0] in OUTSIDE]
    return [name for name in ours if not any(under(name, prefix) for prefix in lawful)]


def test_tests_and_benchmarks_never_import_each_other() -> None:
    files = [("", file) for _, file in sources()]
    files += [(folder, file) for folder in OUTSIDE for file in sorted((ROOT / folder).rglob("*.py"))]
    files = [(folder, file) for folder, file in files if file.name != JUDGES]
    assert {str(file): found for folder, file in files if (found := strangers(folder, file.read_text()))} == {}


# Test files that lend a name to other test files: move the name to tests/support, and lower this.
MOST_LENDERS = 20


def test_what_tests_share_is_in_support() -> None:
    files = [file for file in (ROOT / "tests").rglob("*.py") if not file.is_relative_to(ROOT / "tests" / "support")]
    odd = [str(file.relative_to(ROOT)) for file in files if not file.name.startswith(("test_", "__init__", "conftest"))]
    assert odd == [], "a file without tests belongs into tests/support"
    every = (ROOT / "tests").rglob("*.py")
    known = {".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files if file.name.startswith("test_")}
    lent = {name for file in every for name in imports(file.read_text()) if name in known}
    assert len(lent) <= MOST_LENDERS, sorted(lent)


def test_every_layer_is_inhabited() -> None:
    assert {layer(module) for module, _ in sources()} == set(range(8))
