# SPDX-License-Identifier: MIT
"""The examples of docs/api.md run as they stand, and are short."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text()
EXAMPLES: dict[str, str] = dict(re.findall(r"(?ms)^## (.+?)$.*?^```python\n(.*?)^```$", PAGE))
# What an example prints, where the page shows it.
OUTPUTS: dict[str, str] = dict(re.findall(r"(?ms)^```python\n((?:(?!^```).)*)^```\n\n```text\n(.*?)^```$", PAGE))
# What an example needs of the machine, by its section.
NEEDS = {"Probe": (pytest.mark.lab, pytest.mark.root)}
# Ten lines beside the imports.
MOST_LINES = 10


@pytest.mark.slow
@pytest.mark.parametrize("section", [pytest.param(name, marks=NEEDS.get(name, ()), id=name) for name in EXAMPLES])
def test_an_example_runs(section: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "fixtures/icw/10", tmp_path / "fixtures/icw/10")
    shutil.copy(ROOT / "fixtures/icw/10/trace.pcapng.gz", tmp_path / "capture.pcapng.gz")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLES[section]],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout and not done.stderr
    assert done.stdout == OUTPUTS.get(EXAMPLES[section], done.stdout)
    assert not re.search(r"b'\\|b\"\\|\\x", done.stdout), "bytes where a reader expects an address"


def test_examples_are_short() -> None:
    lines = {name: len(re.findall(r"(?m)^(?!import |from ).+", text)) for name, text in EXAMPLES.items()}
    assert lines and {name: count for name, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.root
def test_tune_sets_a_real_stack(tmp_path: Path) -> None:
    name, code = f"ct-api-{os.getpid()}", EXAMPLES["Tune"]
    real = code.replace('"memory"', '"route"')
    assert real != code
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for words in ("link add d0 type veth peer name d1", "addr add 192.0.2.1/24 dev d0", "link set d1 up",
                      "link set d0 up", "route add default via 192.0.2.254"):  # fmt: skip
            subprocess.run(["ip", "-n", name, *words.split()], check=True)
        done = subprocess.run(["ip", "netns", "exec", name, sys.executable, "-c", real], cwd=tmp_path,
                              capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
        assert (done.stdout, done.stderr) == (OUTPUTS[code].replace("memory", "route"), "")
        shown = subprocess.run(["ip", "-n", name, "route", "show", "table", "all"], capture_output=True, text=True)
        assert shown.stdout and "198.51.100.0/24" not in shown.stdout
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
