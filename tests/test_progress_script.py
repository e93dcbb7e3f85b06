# SPDX-License-Identifier: MIT
"""What `make install` prints while it works: a line a step, the command's own exit code, all output if it fails."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.children import default_signals
from tests.support.waiting import PATIENCE_S, until

SCRIPT = ROOT / ".ci" / "progress"
OUTPUT = """Reading package lists...
Need to get 12.3 MB of archives.
Unpacking a (1.0) ...
Unpacking b (1.0) ...
Setting up a (1.0) ...
Collecting numpy
  Downloading https://pypi.example/numpy-1.24-cp311.whl (18.2 MB)
  Downloading click-8.1.whl (97 kB)
Installing collected packages: a, b, c
"""


@pytest.mark.parametrize("code", [0, 7])
def test_steps_are_stated_and_a_failure_is_shown_whole(code: int) -> None:
    words = ["sh", "-c", f"cat; exit {code}"]
    done = subprocess.run([SCRIPT, *words], input=OUTPUT, capture_output=True, text=True, check=False)
    assert done.returncode == code and done.stderr == (OUTPUT if code else "")
    assert done.stdout.splitlines() == [
        "  fetching 12.3 MB", "  unpacking", "  setting up", "  fetching numpy-1.24-cp311.whl (18.2 MB)",
        "  installing 3 Python packages",
    ]  # fmt: skip


def test_nothing_is_left_behind_and_no_pipe_stays_open(tmp_path: Path) -> None:
    # A line is due after an hour: a pipe that the wait for it kept open would end this by the time limit.
    own = {**os.environ, "TMPDIR": str(tmp_path), "PROGRESS_EVERY_S": "3600"}
    done = subprocess.run([SCRIPT, "true"], capture_output=True, env=own, check=True, timeout=PATIENCE_S)
    assert done.stdout == b"" and not list(tmp_path.iterdir())


def test_interrupted_it_leaves_nothing_either(tmp_path: Path) -> None:
    begun, own = tmp_path / "begun", tmp_path / "tmp"
    own.mkdir()
    # The command says that it runs: a shell that is still forking for it may lose the signal.
    child = subprocess.Popen([SCRIPT, "sh", "-c", f"touch {begun}; exec sleep 3600"], start_new_session=True,
                             env={**os.environ, "TMPDIR": str(own)}, preexec_fn=default_signals)  # fmt: skip
    until(begun.exists)
    os.killpg(child.pid, signal.SIGINT)
    assert child.wait(PATIENCE_S) in (130, -signal.SIGINT) and not list(own.iterdir())
