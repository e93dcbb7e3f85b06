# SPDX-License-Identifier: MIT
"""Whose leftovers are whose: only the dead are cleaned up after; and what isolation says where it may not work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from configtron.model.errors import Missing
from configtron.probe.wire.isolation import sweep_tables
from configtron.probe.wire.namespaces import abandoned, owner


def test_what_we_own_is_not_abandoned() -> None:
    assert owner().startswith(f"{os.getpid()}-")
    assert not abandoned(f"configtron-{owner()}-x0")
    assert not abandoned(f"configtron_{owner().replace('-', '_')}_0")
    assert abandoned(f"configtron-{os.getpid()}-1-x0"), "a recycled pid is another program"


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


def test_without_privilege_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = subprocess.CompletedProcess([], 1, "", "netlink: Error: Operation not permitted\n")
    monkeypatch.setattr(subprocess, "run", lambda words, **_: refused)
    with pytest.raises(Missing, match=r"^nft: netlink: Error: Operation not permitted; .* run as root"):
        sweep_tables("")
