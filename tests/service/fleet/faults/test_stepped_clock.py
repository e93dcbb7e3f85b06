# SPDX-License-Identifier: MIT
"""The wall clock of a host with manager, agent and module is stepped in the middle of an epoch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import UmlVirtual
from tests.support.faults.drawn_clients import CLIENTS, DEFAULT, WINDOWS
from tests.support.faults.rows import write_row
from tests.support.tune.in_guest import in_guest

pytestmark = pytest.mark.lab


@pytest.fixture
def module() -> Path:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    return module_for_guest(lambda line: print(line, file=sys.stderr))


@pytest.mark.slow
def test_steps_of_the_wall_clock(tmp_path: Path, module: Path) -> None:
    seen = in_guest(UmlVirtual(), tmp_path, "clock_steps.py", str(module), of="faults")
    assert seen["first"] == seen["drawn"] and set(seen["first"]) == set(WINDOWS)
    arms: dict[int, list[list[int]]] = {}
    for step in seen["steps"]:
        assert len(step["seen"]) >= 5
        for epoch, windows in step["seen"]:
            arms.setdefault(epoch, []).append(windows)
            assert len(windows) == len(CLIENTS) and windows == step["drawn"], "the lease ended, or another epoch draws"
    # An hour ahead, back in the first epoch, a day ahead.
    assert len(arms) == 3 and all(one == seen["first"] for one in arms[seen["steps"][1]["seen"][0][0]])
    assert all(one == found[0] for found in arms.values() for one in found)
    assert seen["stored"] == seen["different"] == 5_000 and set(seen["end"]) == {DEFAULT}
    for lines in (seen["lines"], seen["manager"]):
        assert len(lines) == 3 and all(
            f"{step['by_s']:+d} s" in line for step, line in zip(seen["steps"], lines, strict=True)
        )
    assert (seen["unload"], seen["complaints"]) == (0, [])
    write_row("wall clock of manager's and agent's host stepped by +1 h, -1 h, +1 day in mid-epoch", "the epoch of the"
              " new time is drawn from, that of the old one again after the step back; the lease goes on; 5000 rows are"
              " stored once", seen["lines"][0], 3.0)  # fmt: skip
