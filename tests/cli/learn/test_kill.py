# SPDX-License-Identifier: MIT
"""`learn run` killed and taken up again decides what it would have decided, and keeps each decision once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from configtron.db.outcomes import Outcomes
from configtron.model.errors import DONE, INTERRUPTED
from tests.learner.test_logged import logged
from tests.support import ROOT
from tests.support.learn_command import Typed, typed

__all__ = ["typed"]

HOW = ("learn", "run", "--policy", "configtron", "--classes", "6", "--update-every", "2000", "--seed", "9")


@pytest.mark.slow
def test_killed_and_taken_up_again(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Outcomes(path) as store:
        log = store.begin_log("sim", "{}")
        for seed in range(1, 5):
            store.add(log, logged(20_000, seed))
    command = [sys.executable, "-m", "configtron", "--db", str(path), *HOW, "--name", "killed"]
    child = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    with Outcomes(path) as store:
        while not (found := store.learner("killed")) or not found.position:
            assert child.poll() is None, "it came to its end before the test looked"
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        found = store.learner("killed")
        assert found is not None and 0 < found.position < 80_000
        assert len(list(store.decisions("killed"))) == found.position
    assert typed("learn", "run", "--policy", "killed")[0] == DONE
    assert typed(*HOW, "--name", "whole")[0] == DONE
    with Outcomes(path) as store:
        killed, whole = store.learner("killed"), store.learner("whole")
        assert killed is not None and whole is not None and killed.state == whole.state
        decisions = list(store.decisions("killed"))
        assert len(decisions) == 80_000 and decisions == list(store.decisions("whole"))


@pytest.mark.slow
def test_sigterm_ends_it_with_a_line_and_a_code(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Outcomes(path) as store:
        log = store.begin_log("sim", "{}")
        for seed in range(1, 5):
            store.add(log, logged(20_000, seed))
    command = [sys.executable, "-m", "configtron", "--db", str(path), *HOW, "--name", "ended"]
    child = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    with Outcomes(path) as store:
        while not (found := store.learner("ended")) or not found.position:
            assert child.poll() is None, "it came to its end before the signal"
            time.sleep(0.01)
    child.terminate()
    out, err = child.communicate()
    with Outcomes(path) as store:
        found = store.learner("ended")
    assert found is not None and child.returncode == INTERRUPTED and out == ""
    assert f"ended: {found.outcomes} outcomes are learned and saved; go on with: configtron --db" in err
    assert found.outcomes % 10_000 == 0 and found.outcomes < 80_000
