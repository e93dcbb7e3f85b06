# SPDX-License-Identifier: MIT
"""Faults planted beneath an agent, in kernels of their own: programs, releases, power and clocks."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import GuestJob, Running, UmlVirtual
from configtron.model.errors import PRIVILEGE
from tests.support import ROOT
from tests.support.faults.drawn_clients import CLIENTS, DEFAULT, WINDOWS
from tests.support.faults.power_cut import ROWS, SENT
from tests.support.tune.aside import aside
from tests.support.tune.in_guest import in_guest
from tests.support.waiting import GUEST_S, until

pytestmark = pytest.mark.slow

HERE = ROOT / "tests" / "support" / "faults"


@pytest.fixture
def module() -> Path:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    return module_for_guest(lambda line: print(line, file=sys.stderr))


# ---- other programs


def check(seen: dict[str, Any], driver: str) -> None:
    assert (seen["before"], seen["after"], seen["later"], seen["end"]) == (20, 10, 10, 10)
    assert seen["frozen"] == [["place", driver]]
    assert seen["leases"] == [0.0, 0.0], "the lease of what is gone is over, by the metrics and by `tune status`"
    # From the change until it was unfrozen: that line, and the refusal of the map that came meanwhile.
    whole = seen["log"].splitlines()
    first = whole.index(seen["lines"][0])
    assert len(seen["lines"]) == 1 and "map 1.2 is refused" in whole[first + 1] and "unfrozen" in whole[first + 2]
    assert not seen["left"]


@pytest.mark.root
@pytest.mark.parametrize("how", ["detached", "removed"])
def test_a_program_that_is_detached_or_unpinned_stays_so(how: str) -> None:
    seen = aside("foreign_changes.py", "ebpf", how, folder=HERE)
    check(seen, "ebpf")


@pytest.mark.lab
def test_tables_of_the_module_that_are_emptied_stay_so(tmp_path: Path, module: Path) -> None:
    seen = in_guest(UmlVirtual(), tmp_path, "foreign_changes.py", "kmod", str(module), of="faults")
    check(seen, "kmod")
    assert (seen["unload"], seen["complaints"]) == (0, [])


# ---- other releases


def changed(folder: Path, name: str, before: str, after: str) -> Path:
    """Return a folder with a copy of the package in which one file differs."""
    shutil.copytree(ROOT / "configtron", folder / "configtron", ignore=shutil.ignore_patterns("__pycache__", "studies"))
    file = folder / "configtron" / name
    text = re.sub(before, after, file.read_text(), count=1, flags=re.MULTILINE)
    assert text != file.read_text()
    file.write_text(text)
    return folder


@pytest.mark.root
def test_objects_that_another_release_left_pinned_are_replaced(tmp_path: Path) -> None:
    other = changed(tmp_path, "tune/drivers/bpf/clients.h", r"\Z", "/* an earlier release */\n")
    seen = aside("mixed_versions.py", "ebpf", str(other), folder=HERE)
    assert (seen["before"], seen["after"], seen["later"], seen["end"]) == (20, 20, 20, 10)
    assert len(seen["pins"]) == len(seen["now"]) == 1 and seen["pins"] != seen["now"] and not seen["left"]
    (line,) = [line for line in seen["log"].splitlines() if "kept by its former start" in line]


@pytest.mark.lab
def test_a_module_of_another_version_is_refused_by_an_agent(tmp_path: Path, module: Path) -> None:
    other = changed(tmp_path, "tune/drivers/kmod/abi.py", r"^ABI = \d+$", "ABI = 99")
    seen = in_guest(UmlVirtual(), tmp_path, "mixed_versions.py", "kmod", str(other), str(module), of="faults")
    assert (seen["before"], seen["after"], seen["end"], seen["left"]) == (20, 10, 10, False)
    (line,) = seen["log"].splitlines()
    assert seen["code"] == PRIVILEGE and "the module speaks version" in line and "we 99" in line
    assert (seen["unload"], seen["complaints"]) == (0, [])


# ---- power and clocks

# MiB: another size gives the kernel other random numbers, and thus another name to its start.
MEMORY_MB = {"before": 512, "after": 640}


def booted(folder: Path, module: Path, which: str) -> Running:
    job = GuestJob((sys.executable, str(HERE / "power_cut.py"), which, str(module)), folder / which, 1,
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


@pytest.mark.lab
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


@pytest.mark.lab
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
