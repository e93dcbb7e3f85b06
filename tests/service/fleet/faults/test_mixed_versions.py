# SPDX-License-Identifier: MIT
"""An agent finds another release's BPF objects pinned, or a module of another version loaded."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.model.errors import PRIVILEGE
from tests.support import ROOT
from tests.support.faults.rows import write_row
from tests.support.tune.aside import aside
from tests.support.tune.in_guest import in_guest

HERE = ROOT / "tests" / "support" / "faults"
LEASE_S, SEEN_S = 10.0, 20.0


def changed(folder: Path, name: str, before: str, after: str) -> Path:
    """Return a folder with a copy of the package in which one file differs."""
    shutil.copytree(ROOT / "configtron", folder / "configtron", ignore=shutil.ignore_patterns("__pycache__", "studies"))
    file = folder / "configtron" / name
    text = re.sub(before, after, file.read_text(), count=1, flags=re.MULTILINE)
    assert text != file.read_text()
    file.write_text(text)
    return folder


@pytest.mark.slow
@pytest.mark.root
def test_objects_that_another_release_left_pinned_are_replaced(tmp_path: Path) -> None:
    other = changed(tmp_path, "tune/drivers/bpf/clients.h", r"\Z", "/* an earlier release */\n")
    seen = aside("mixed_versions.py", "ebpf", str(other), folder=HERE)
    assert (seen["before"], seen["after"], seen["later"], seen["end"]) == (20, 20, 20, 10)
    assert len(seen["pins"]) == len(seen["now"]) == 1 and seen["pins"] != seen["now"] and not seen["left"]
    (line,) = [line for line in seen["log"].splitlines() if "kept by its former start" in line]
    write_row("another release's BPF objects left pinned", "they are replaced by this release's when the agent puts its"
              " map in force; none is left at its end", line, seen["back_s"])  # fmt: skip


@pytest.mark.slow
@pytest.mark.lab
def test_a_module_of_another_version_is_refused_by_an_agent(tmp_path: Path) -> None:
    virtual = UmlVirtual()
    if reason := virtual.available():
        pytest.skip(reason)
    module = module_for_guest(lambda line: print(line, file=sys.stderr))
    other = changed(tmp_path, "tune/drivers/kmod/abi.py", r"^ABI = \d+$", "ABI = 99")
    seen = in_guest(virtual, tmp_path, "mixed_versions.py", "kmod", str(other), str(module), of="faults")
    assert (seen["before"], seen["after"], seen["end"], seen["left"]) == (20, 10, 10, False)
    (line,) = seen["log"].splitlines()
    assert seen["code"] == PRIVILEGE and "the module speaks version" in line and "we 99" in line
    assert (seen["unload"], seen["complaints"]) == (0, [])
    end = "the agent ends, exit code 5; what an agent before it had in force ends with its lease"
    write_row("module of another version than the agent's", end, line, seen["default_s"], LEASE_S + SEEN_S)
