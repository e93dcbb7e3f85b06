# SPDX-License-Identifier: MIT
"""What `make install` prints while it works: a line a step, the command's own exit code, all output if it fails."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.children import child, default_signals
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


def test_a_silent_phase_is_a_line_now_and_then(tmp_path: Path) -> None:
    """apt-get sets up for minutes, and mypy says nothing until it is done."""
    printed = "0 upgraded, 2 newly installed, 0 to remove\\nUnpacking a\\nUnpacking b\\nSetting up a\\n"
    wait = "while ! [ -e {} ]; do sleep 0.05; done; "
    first, last = tmp_path / "first", tmp_path / "last"
    words = ["sh", "-c", wait.format(first) + f"printf '{printed}'; " + wait.format(last) + "echo Setting up b"]
    with child([str(SCRIPT), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
               env={**os.environ, "PROGRESS_EVERY_S": "0.2"}) as running:  # fmt: skip
        assert running.stdout is not None and running.stderr is not None
        lines = []
        for line in running.stdout:
            lines.append(line.rstrip().rpartition(",")[0] or line.rstrip())
            # The command goes on when its silence was seen: however slow the machine.
            if lines[-1] == "  sh":
                first.touch()
            if lines.count("  setting up: 1 of 2 packages") == 2:
                last.touch()
        complaint, code = running.stderr.read(), running.wait()
    seen = list(dict.fromkeys(lines))
    # a line may be due between the packages, and after the last
    assert [one for one in seen if one not in ("  unpacking: 1 of 2 packages", "  unpacking: 2 of 2 packages")][:4] == [
        "  sh", "  unpacking", "  setting up", "  setting up: 1 of 2 packages",
    ]  # fmt: skip
    assert seen[-1] in ("  setting up: 1 of 2 packages", "  setting up: 2 of 2 packages")
    assert code == 0 and complaint == ""


def test_nothing_is_left_behind_and_no_pipe_stays_open(tmp_path: Path) -> None:
    # A line is due after an hour: a pipe that the wait for it kept open would end this by the time limit.
    own = {**os.environ, "TMPDIR": str(tmp_path), "PROGRESS_EVERY_S": "3600"}
    done = subprocess.run([SCRIPT, "true"], capture_output=True, env=own, check=True, timeout=PATIENCE_S)
    assert done.stdout == b"" and not list(tmp_path.iterdir())


def test_interrupted_it_leaves_nothing_either(tmp_path: Path) -> None:
    child = subprocess.Popen([SCRIPT, "sleep", "3600"], env={**os.environ, "TMPDIR": str(tmp_path)},
                             start_new_session=True, preexec_fn=default_signals)  # fmt: skip
    until(lambda: bool(list(tmp_path.glob("*/log"))))
    os.killpg(child.pid, signal.SIGINT)
    assert child.wait(PATIENCE_S) in (130, -signal.SIGINT) and not list(tmp_path.iterdir())
