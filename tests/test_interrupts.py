# SPDX-License-Identifier: MIT
"""One Ctrl-C ends `make test`, and the test that it fell into has not failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.children import default_signals
from tests.support.waiting import PATIENCE_S, until

# Tests that Ctrl-C falls into: the code under test takes the exception, or the signal.
CAUGHT = """
    try:
        wait()
    except KeyboardInterrupt:
        assert False, "the code under test returned 130"
"""
HANDLED = """
    taken = []
    before = signal.signal(signal.SIGINT, lambda *_: taken.append(1))
    wait(lambda: taken)
    signal.signal(signal.SIGINT, before)
    assert not taken
"""
TESTS = """
import signal
from pathlib import Path
from tests.support.waiting import until

def wait(ends=lambda: False):
    Path("begun").touch()
    until(ends)

def test_first():{first}

def test_second():
    Path("second").touch()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "group"), [(CAUGHT, True), (CAUGHT, False), (HANDLED, True)], ids=["caught", "to-pytest", "handled"]
)
def test_one_ends_it(first: str, group: bool, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.support.interrupts import *\n")
    (tmp_path / "test_it.py").write_text(TESTS.format(first=first))
    # Hypothesis watches the garbage collector: an exception that falls into its callback is lost.
    without = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    asked = subprocess.Popen([sys.executable, "-m", "pytest", "-q", *without, "."], cwd=tmp_path,
                             env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
                             start_new_session=True, preexec_fn=default_signals)  # fmt: skip
    until(lambda: (tmp_path / "begun").exists() or asked.poll() is not None)
    assert asked.poll() is None
    (os.killpg if group else os.kill)(asked.pid, signal.SIGINT)
    printed = asked.communicate(timeout=PATIENCE_S)[0]
    assert asked.returncode == pytest.ExitCode.INTERRUPTED and "KeyboardInterrupt" in printed
    assert "failed" not in printed and not (tmp_path / "second").exists()
