# SPDX-License-Identifier: MIT
"""The engine as a package: what it offers, what importing it costs, no circle of files; commands that only call it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.sources import parsed

ROOT = Path(__file__).parent.parent.parent.parent
COMMANDS = sorted((ROOT / "configtron" / "cli" / "tune").glob("*.py"))
# What a command asks the engine for.
BARRED = ("configtron.db", "configtron.tune.drivers", "configtron.tune.router", "configtron.linux", "sqlite3", "socket")
# Signals are sent to the process that the user started: the command is who hears them. Paths of files are names.
OF_PROCESSES = ("configtron.linux.signals", "configtron.linux.xdg")


def imported(file: Path) -> set[str]:
    """Modules that a file imports, at its head or within a function, but for types alone."""
    found: set[str] = set()
    tree = parsed(file)
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    typing = {id(node) for block in blocks for node in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("package", ["campaign", "capture", "fleet", "learning", "lease", "replay"])
def test_every_public_name_exists_and_none_is_hidden_by_a_file(package: str) -> None:
    module = import_module(f"configtron.service.{package}")
    assert module.__all__ and all(hasattr(module, name) for name in module.__all__)
    files = {file.stem for file in (ROOT / "configtron" / "service" / package).glob("*.py")}
    assert not files & set(module.__all__), "importing such a file would hide the function"


def test_a_plain_program_loads_neither_click_nor_what_it_does_not_use() -> None:
    code = "import sys; from configtron.service import lease; lease.LeaseOptions; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"click", "rich", "numpy", "sqlite3", "configtron.service.lease.apply_transaction"} & set(loaded)


def test_commands_reach_the_host_through_the_engine_alone() -> None:
    barred = {file.name: found for file in COMMANDS if (found := sorted(
        name for name in imported(file) if name.startswith(BARRED) and not name.startswith(OF_PROCESSES)))}  # fmt: skip
    assert barred == {}
