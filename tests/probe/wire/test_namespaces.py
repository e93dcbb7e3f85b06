# SPDX-License-Identifier: MIT
"""Whose leftovers are whose: only the dead are cleaned up after."""

from __future__ import annotations

import os
import subprocess
import sys

from configtron.probe.wire.namespaces import abandoned, owner


def test_what_we_own_is_not_abandoned() -> None:
    assert owner().startswith(f"{os.getpid()}-")
    assert not abandoned(f"configtron-{owner()}-x0")
    assert not abandoned(f"configtron_{owner().replace('-', '_')}_0")


def test_a_recycled_pid_is_another_program() -> None:
    assert abandoned(f"configtron-{os.getpid()}-1-x0")


def test_a_killed_process_is_dead_before_it_is_waited_for() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = f"configtron-{owner(process.pid)}-x0"
    assert not abandoned(name)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert abandoned(name)
    process.communicate()
    assert abandoned(name)


def test_other_peoples_names_are_left_alone() -> None:
    for name in ("v-na", "configtron", "configtron-lab", "configtron-1-x", "docker-1-2-3", "configtron_1_a_0"):
        assert not abandoned(name)
