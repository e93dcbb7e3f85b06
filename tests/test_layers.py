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
    f"configtron.{name}"
    for name in """
    probe.wire fingerprint.capture intake.receiving tune.drivers tune.router report db lab fleet.transport
    """.split()
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
    *(f"configtron.cli.replay.{name}" for name in ("earlier", "sessions", "study", "study_flags", "study_report")),
    "configtron.cli.learn.indigo_training", "configtron.service.learning.indigo", "configtron.service.replay.sessions",
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
        if theirs == mine == 2 and name.split(".")[1] != module.split(".")[1] and not above(module, name):
            found.append(f"verb {module} imports verb {name}: what both need belongs into the model")
    if mine <= 2 or mine == 5:
        barred = IMPURE_CALLS if mine <= 2 else {"print", "input", "exec", "eval", "__import__"}
        found += [
            f"{module} (layer {mine}) calls {node.func.id}"
            for node in nodes(source)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in barred
        ]
    return found


def above(module: str, name: str) -> bool:
    return under(module, ABOVE[0]) and under(name, ABOVE[1])


def edge(module: str) -> str:
    return next(edge for edge in EDGES if under(module, edge))


def test_modules_keep_to_their_layers() -> None:
    assert [offence for module, file in sources() for offence in offences(module, file.read_text())] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("configtron.model.nouns", "import time"),
        ("configtron.fingerprint.icw", "from random import Random"),
        ("configtron.fingerprint.icw", "import os.path"),
        ("configtron.fingerprint.icw", "def f():\n    import socket"),
        ("configtron.fingerprint.icw", "from configtron.probe import script"),
        ("configtron.fingerprint.icw", "import configtron.probe"),
        ("configtron.probe.icw", "from configtron.probe import wire"),
        ("configtron.probe.icw", "import configtron.db"),
        ("configtron.probe.icw", "print('here')"),
        ("configtron.probe.wire", "import configtron.db"),
        ("configtron.linux.netns", "import configtron.db"),
        ("configtron.probe.icw", "from configtron.learner import grid"),
        ("configtron.service.lease", "import click"),
        ("configtron.service.lease", "print('here')"),
        ("configtron.service.lease", "import configtron.cli.root"),
        ("configtron.db", "import configtron.service"),
        ("configtron.lab", "import configtron.studies"),
        ("configtron.cli.tune.apply", "import configtron.studies"),
        ("configtron.cli.replay.packets", "import configtron.studies"),
        ("configtron.learner.columns", "import configtron.intake"),
        ("configtron.linux.clock", "import configtron.db"),
        ("configtron.db", "from configtron import cli"),
        ("configtron.model.nouns", "from configtron import probe"),
        ("configtron.fleet.agent_session", "import zmq"),
        ("configtron.fleet.agent_session", "from configtron.fleet import transport"),
    ],
)
def test_the_law_can_be_broken(module: str, source: str) -> None:
    assert offences(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("configtron.probe.icw", "import math\nfrom configtron.fingerprint import __doc__"),
        ("configtron.probe.wire", "import socket, time"),
        ("configtron.probe.wire", "from configtron.linux.netns import inside"),
        ("configtron.service.lease", "import configtron.db, configtron.tune.drivers"),
        ("configtron.cli", "import configtron.service, configtron.lab, configtron.probe.wire"),
        ("configtron.cli.replay.study_report", "import configtron.studies"),
    ],
)
def test_the_law_lets_the_lawful_pass(module: str, source: str) -> None:
    assert offences(module, source) == []


# What stands beside the product: folder, and what it may import. One file of tests judges the judges of benchmarks.
JUDGES = "test_judges.py"
OUTSIDE = {
    "tests": ("configtron", "tests"),
    "benchmarks": ("configtron", "tests.support", "benchmarks"),
}


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


def test_an_import_between_tests_and_benchmarks_is_seen() -> None:
    assert strangers("tests", "from benchmarks.tune import verdict") == ["benchmarks.tune", "benchmarks.tune.verdict"]
    assert strangers("benchmarks", "import tests.lab.test_world") == ["tests.lab.test_world"]
    assert strangers("docs", "from tests import test_clock") == ["tests.test_clock"]
    assert strangers("", "def f():\n    import tests.support.worlds") == ["tests.support.worlds"]
    assert strangers("benchmarks", "from tests.support.worlds import clients\nimport configtron.db") == []


# Test files that lend a name to other test files; move the name to tests/support and take the file off. The list never
# grows.
LENDERS = frozenset(
    """
    cli.learn.test_import_logs cli.test_fingerprint_live cli.test_learn_measure cli.tune.test_commands
    fingerprint.capture.test_reading fingerprint.passive.test_foreign fingerprint.passive.test_fuzz
    fingerprint.passive.test_fuzzer lab.test_campaign lab.test_world lab.testbed.test_kept_connections
    lab.testbed.test_measure lab.testbed.test_pages lab.testbed.test_realism learner.test_initial_classes
    learner.test_damage learner.test_logged learner.test_relevance
    probe.test_options probe.wire.test_flow probe.wire.test_live probe.wire.test_stream probe.wire.test_tls
    report.page.test_markup test_clock test_packaging test_reasons tune.test_ebpf
    tune.test_route_table
""".split()
)


def test_what_tests_share_is_in_support() -> None:
    files = [file for file in (ROOT / "tests").rglob("*.py") if not file.is_relative_to(ROOT / "tests" / "support")]
    odd = [str(file.relative_to(ROOT)) for file in files if not file.name.startswith(("test_", "__init__"))]
    assert odd == [], "a file without tests belongs into tests/support"
    every = (ROOT / "tests").rglob("*.py")
    known = {".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files if file.name.startswith("test_")}
    lent = {name for file in every for name in imports(file.read_text()) if name in known}
    assert sorted(name.removeprefix("tests.") for name in lent) == sorted(LENDERS)


def test_every_layer_is_inhabited() -> None:
    assert {layer(module) for module, _ in sources()} == set(range(8))
