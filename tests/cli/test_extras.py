"""Without a package of an extra, every command that needs it says in one line how to get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from configtron.cli.extras import LEARN, missing
from tests.test_layers import ROOT

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
    line = "configtron: this needs numpy: pip install 'configtron[learn]', or apt install python3-numpy\n"
    assert done.stderr == line * len(COMMANDS) and not list(tmp_path.iterdir())


def test_a_module_of_our_own_that_is_gone_is_no_extra() -> None:
    with pytest.raises(ModuleNotFoundError):
        missing(ModuleNotFoundError("no", name="configtron.nothing"))
    assert "python3-sklearn" in str(missing(ModuleNotFoundError("no", name="sklearn.tree")))


def test_they_are_what_the_extra_says() -> None:
    extra = (ROOT / "setup.cfg").read_text().partition("\nlearn =\n")[2].partition("\ndask")[0]
    assert {name.replace("sklearn", "scikit-learn") for name in LEARN} <= set(extra.replace(">", " ").split())
