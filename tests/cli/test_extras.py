# SPDX-License-Identifier: MIT
"""Without a package of an extra, every command that needs it says in one line how to get it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from configtron.cli.settings import hint
from configtron.model.errors import DONE
from configtron.model.packages import PACKAGES, missing
from tests.support import ROOT
from tests.support.sources import parsed, sources
from tests.test_packaging import lines

COMMANDS = (
    ("learn", "status"), ("learn", "run"), ("learn", "import", "-"), ("learn", "policies"), ("learn", "knobs"),
    ("learn", "explain", "rtt_ms=3"), ("learn", "evaluate", "--policy", "default"), ("learn", "export"), 
    ("learn", "drop", "--policy", "x"),
    ("replay", "sessions"),
)  # fmt: skip


def test_without_numpy(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules['numpy'] = None\n"
        "from configtron.cli.outermost import run\n"
        f"print([run(['--db', 'l.db', *words]) for words in {COMMANDS!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, input="",
                          env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)})  # fmt: skip
    assert done.stdout == f"{[5] * len(COMMANDS)}\n"
    line = hint("configtron: this needs numpy: pip install configtron, or apt install python3-numpy\n")
    assert sys.prefix == sys.base_prefix or f": {sys.prefix}/bin/pip install" in line
    # A command may say what it is about to do before it meets the import.
    ends = [text for text in done.stderr.splitlines(keepends=True) if text.startswith("configtron:")]
    assert ends == [line] * len(COMMANDS) and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_import_needs_no_package_of_the_fleet(tmp_path: Path) -> None:
    script = "import sys\nsys.modules['msgspec'] = None\nfrom configtron.cli.outermost import run\n"
    done = subprocess.run([sys.executable, "-c", f"{script}sys.exit(run(['--db', 'l.db', 'learn', 'import', '-']))"],
                          text=True, cwd=tmp_path, input='{"t_done": 9}', check=False,
                          env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)})  # fmt: skip
    assert done.returncode == DONE


def test_a_module_of_our_own_that_is_gone_is_no_extra() -> None:
    with pytest.raises(ModuleNotFoundError):
        missing(ModuleNotFoundError("no", name="configtron.nothing"))
    assert "python3-sklearn" in str(missing(ModuleNotFoundError("no", name="sklearn.tree")))


def test_packages_are_where_setup_cfg_puts_them() -> None:
    for module, package in PACKAGES.items():
        section = ("options.extras_require", package.extra) if package.extra else ("options", "install_requires")
        names = [Requirement(line).name for line in lines(*section)]
        assert package.distribution in names, f"{module}: {package.distribution} is not in {section}"


@pytest.mark.slow
def test_every_package_that_the_product_imports_is_listed() -> None:
    own = {"configtron", *sys.stdlib_module_names}
    found = {name for _, file in sources() for name in imported(file)}
    assert found - own - set(PACKAGES) == set()
    assert {"numpy", "hpack", "sklearn", "GPyOpt"} <= found, "the reader of imports is blind"


def imported(file: Path) -> set[str]:
    """First names of all absolute imports of a file."""
    nodes = list(ast.walk(parsed(file)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in plain | froms}
