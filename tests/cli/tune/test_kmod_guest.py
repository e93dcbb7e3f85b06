# SPDX-License-Identifier: MIT
"""What is shown of every driver that acts here, shown of kmod on the lab's kernel: the same tests, run there."""

from __future__ import annotations

import re
import sys

import pytest

from configtron.lab.uml.user_mode_linux import UmlVirtual
from tests.support import guest_module
from tests.support.waiting import GUEST_S

# `plan` with an act in force and others to come; apply and rollback, each killed in the middle. More of it costs
# more than it shows: a command there takes half a second.
TESTS = (
    "tests/cli/tune/test_traceless.py::test_plan_writes_nothing[True-kmod]",
    "tests/cli/tune/test_kills.py::test_killed_at_some_calls[kmod-1-apply]",
    "tests/cli/tune/test_kills.py::test_killed_at_some_calls[kmod-1-rollback]",
)


@pytest.mark.lab
def test_plan_and_kills_with_the_module() -> None:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    root = guest_module.ROOT
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={root}"]
    code, printed = guest_module.run([*words, *(f"{root}/{test}" for test in TESTS)], GUEST_S)
    # A test that was skipped has shown nothing.
    assert (code, re.findall(r"(\d+) passed", printed), "skipped" in printed) == (0, [str(len(TESTS))], False), printed
