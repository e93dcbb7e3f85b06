# SPDX-License-Identifier: MIT
"""Which tests a session selects, records and leaves out; and which tests a change reaches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.changed import distances

TESTS = """
import pytest

def test_first():
    pass

def test_second():
    {second}

@pytest.mark.proof
def test_third():
    pytest.skip("no such kernel")
"""


def session(folder: Path, *words: str, second: str = "assert False") -> str:
    """Return what pytest prints of three tests in a folder, with our hooks."""
    (folder / "conftest.py").write_text(
        "from tests.support.selection import Selection, pytest_addoption\n"
        "def pytest_configure(config): config.pluginmanager.register(Selection(config), 'selection')\n"
    )
    (folder / "test_it.py").write_text(TESTS.format(second=second))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *words, "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interrupted_session_goes_on_with_what_has_not_passed(tmp_path: Path, workers: str) -> None:
    words = ("-n", workers, "--record", str(tmp_path / "record"))
    assert "1 failed, 1 passed, 1 skipped" in session(tmp_path, *words)
    with (tmp_path / "record").open("a") as cut:
        cut.write('{"test": "cut sho')
    again = session(tmp_path, *words, second="pass")
    assert "1 passed, 1 skipped" in again and "not proven here: test_it.py::test_third: no such kernel" in again
    # the table counts each test once, as it ended last
    assert ["all", "3", "2", "1", "0"] in [line.split()[:5] for line in again.splitlines()]


@pytest.mark.slow
def test_a_change_reaches_the_tests_that_import_or_name_it() -> None:
    reached = distances(["fingerprint/window_proofs.py"])
    assert reached["tests/fingerprint/test_window_proofs.py"] == 1 and "tests/test_debian.py" not in reached
    assert distances(["tests/test_debian.py"]) == {"tests/test_debian.py": 0}
    # a file that is not Python, by its name in a string
    assert "tests/lab/test_kernel.py" in distances(["configtron/lab/uml/fp_state.patch"])
