# SPDX-License-Identifier: MIT
"""One Ctrl-C ends `make test`, and the test that it fell into has not failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rigs import ROOT
from tests.support.interrupts import heeding_ctrl_c

# Tests that Ctrl-C falls into: the code under test takes the exception, or the signal.
CAUGHT = """
    try:
        wait()
    except KeyboardInterrupt:
        assert False, "the code under test said 130"
"""
HANDLED = """
    taken = []
    before = signal.signal(signal.SIGINT, lambda *_: taken.append(1))
    wait(lambda: taken)
    signal.signal(signal.SIGINT, before)
    assert not taken
"""
TESTS = """
import signal, time
from pathlib import Path

def wait(until=lambda: False):
    Path("begun").touch()
    for _ in range(500):
        if until():
            return
        time.sleep(0.02)

def test_first():{first}

def test_second():
    Path("second").touch()
"""


@pytest.mark.parametrize(
    ("first", "group"), [(CAUGHT, True), (CAUGHT, False), (HANDLED, True)], ids=["caught", "to-pytest", "handled"]
)
def test_one_ends_it(first: str, group: bool, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.support.interrupts import *\n")
    (tmp_path / "test_it.py").write_text(TESTS.format(first=first))
    child = subprocess.Popen([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], cwd=tmp_path,
                             env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
                             start_new_session=True, preexec_fn=heeding_ctrl_c)  # fmt: skip
    while not (tmp_path / "begun").exists():
        assert child.poll() is None
        time.sleep(0.02)
    (os.killpg if group else os.kill)(child.pid, signal.SIGINT)
    said = child.communicate(timeout=60)[0]
    assert child.returncode == pytest.ExitCode.INTERRUPTED and "KeyboardInterrupt" in said
    assert "failed" not in said and not (tmp_path / "second").exists()
