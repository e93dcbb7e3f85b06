# SPDX-License-Identifier: MIT
"""A host with manager, agent and module loses its power in the middle of an epoch."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import GuestJob, Running, UmlVirtual
from tests.support import ROOT
from tests.support.faults.drawn_clients import DEFAULT, WINDOWS
from tests.support.faults.power_cut import ROWS, SENT
from tests.support.faults.rows import write_row
from tests.support.waiting import GUEST_S, until

pytestmark = pytest.mark.lab

# MiB: another size gives the kernel other random numbers, and thus another name to its start.
MEMORY_MB = {"before": 512, "after": 640}


@pytest.fixture
def module() -> Path:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    return module_for_guest(lambda line: print(line, file=sys.stderr))


def booted(folder: Path, module: Path, which: str) -> Running:
    script = ROOT / "tests/support/faults/power_cut.py"
    job = GuestJob((sys.executable, str(script), which, str(module)), folder / which, 1,
                   min(os.sched_getaffinity(0)), MEMORY_MB[which], (("PYTHONPATH", str(ROOT)),), GUEST_S)  # fmt: skip
    return UmlVirtual().boot(job)


def cut(folder: Path, module: Path) -> Any:
    """Kill a guest once it has printed its line; return what that has."""
    running = booted(folder, module, "before")
    try:
        until(
            lambda: running.poll() is not None or running.console.read_text().endswith("}\n"),
            lambda: running.console.read_text()[-3000:],
            GUEST_S,
        )
        text = running.console.read_text()
        assert running.poll() is None, text[-3000:] or running.last_words()
    finally:
        running.kill()
    return json.loads(text)


@pytest.mark.slow
def test_a_power_cut_in_mid_epoch(tmp_path: Path, module: Path) -> None:
    before = cut(tmp_path, module)
    (tmp_path / "after").mkdir()
    shutil.move(tmp_path / "before/state", tmp_path / "after/state")
    running = booted(tmp_path, module, "after")
    assert running.wait(GUEST_S) == 0, running.console.read_text()[-3000:]
    after = json.loads(running.console.read_text())
    assert before["boot"] != after["boot"] and after["had"] == SENT
    assert set(before["windows"]) == set(WINDOWS)
    # Nothing of ours until the map is in force again; then each client has the arm that it had.
    assert set(after["booted"]) == set(after["end"]) == {DEFAULT}
    for one in (before, after["kept"], after["anew"]):
        assert (one["epoch"], one["windows"]) == (before["epoch"], before["windows"]) and one["drawn"] == one["windows"]
    assert after["stored"] == after["different"] == SENT + ROWS
    assert (after["unload"], after["complaints"]) == (0, [])
    (line,) = [line for line in after["log"].splitlines() if "kept by its former start" in line]
    end = "Default applies until the agent has started; then each client has the arm that it had;"
    end += f" {ROWS} rows that waited, and {SENT} that were sent, are stored once"
    write_row("power cut of manager's and agent's host in mid-epoch", end, line, after["stored_s"])
