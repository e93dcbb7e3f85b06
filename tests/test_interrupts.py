# SPDX-License-Identifier: MIT
"""One Ctrl-C ends `make test`, and the test that it fell into has not failed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.children import child, default_signals
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


def test_a_child_gets_signals_that_we_ignore() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with child(["sleep", "60"]) as sleeping:
            sleeping.send_signal(signal.SIGINT)
            assert sleeping.wait(PATIENCE_S) == -signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_block_that_fails_leaves_no_child() -> None:
    with pytest.raises(ZeroDivisionError), child(["sleep", "60"]) as sleeping:
        raise ZeroDivisionError
    assert sleeping.returncode == -signal.SIGKILL


def careless(source: str) -> list[str]:
    """Return how a file's children may outlive a block that fails, or never hear of SIGINT."""
    found = []
    if "with subprocess.Popen(" in source:
        found.append("with subprocess.Popen: tests.support.children.child also ends it")
    interrupts = re.search(r"(send_signal|kill|killpg)\([^)\n]*(SIGINT|\b(number|kind|how)\))", source)
    if interrupts and "Popen" in source and not re.search(r"\bchild\(|default_signals", source):
        found.append(
            "SIGINT for a child that may ignore it: preexec_fn=default_signals, or tests.support.children.child"
        )
    return found


def test_children_end_and_hear_sigint() -> None:
    files = [file for folder in ("tests", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    here = {Path(__file__), ROOT / "tests" / "support" / "children.py"}
    found = {str(file): what for file in files if file not in here and (what := careless(file.read_text()))}
    assert found == {}


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("with subprocess.Popen(words) as one:\n    pass", True),
        ("one = subprocess.Popen(words)\none.send_signal(signal.SIGINT)", True),
        ("one = subprocess.Popen(words, preexec_fn=default_signals)\none.send_signal(signal.SIGINT)", False),
        ("one = subprocess.Popen(words)\none.send_signal(signal.SIGTERM)", False),
    ],
)
def test_careless_files_are_seen(source: str, seen: bool) -> None:
    assert bool(careless(source)) is seen
