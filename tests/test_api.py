# SPDX-License-Identifier: MIT
"""The examples of docs/api.md run as they stand, and are short."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = re.compile(r"^## (.+?)$.*?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES: dict[str, str] = dict(EXAMPLE.findall((ROOT / "docs" / "api.md").read_text()))
# What an example needs of the machine, by its section.
NEEDS = {"Probe": (pytest.mark.lab, pytest.mark.root)}
# Ten lines beside the imports.
MOST_LINES = 10


@pytest.mark.parametrize("section", [pytest.param(name, marks=NEEDS.get(name, ()), id=name) for name in EXAMPLES])
def test_an_example_runs(section: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "fixtures/icw/10", tmp_path / "recording")
    shutil.copy(ROOT / "fixtures/icw/10/trace.pcapng.gz", tmp_path / "capture.pcapng.gz")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLES[section]],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout and not done.stderr


def test_examples_are_short() -> None:
    assert EXAMPLES
    long = {
        name: lines
        for name, text in EXAMPLES.items()
        if (lines := sum(bool(line) and not line.startswith(("import ", "from ")) for line in text.splitlines()))
        > MOST_LINES
    }
    assert long == {}
