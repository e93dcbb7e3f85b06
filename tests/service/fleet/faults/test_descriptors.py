# SPDX-License-Identifier: MIT
"""A manager, and an agent, that run out of descriptors, and get some again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from configtron.tune.drivers.route.table import TABLE
from tests.support.faults.descriptors import no_descriptors
from tests.support.faults.real_fleet import LEASE_S, SETTLED_S, RealFleet, prefixes
from tests.support.faults.rows import write_row
from tests.support.tune.two_hosts import Hosts, two_hosts
from tests.support.waiting import until

# s by which the watchdog sees a lease's end, on a busy machine.
SEEN_S = 15.0


def network(agent: int) -> int:
    """Return the agent's process that has the network."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return next(int(pid) for pid in children if "agent_network" in Path(f"/proc/{pid}/cmdline").read_text())


def routes(hosts: Hosts) -> int:
    """Return how many routes of ours there are."""
    words = ["ip", "-netns", hosts.server, "-o", "route", "show", "table", str(TABLE)]
    return subprocess.run(words, capture_output=True, text=True).stdout.count(" initcwnd 20")


@pytest.fixture
def fleet(tmp_path: Path) -> RealFleet:
    return RealFleet(tmp_path, ["--driver", "memory"], {"prefixes": prefixes(50)})


@pytest.mark.slow
def test_a_manager_without_descriptors_reads_its_map_later(fleet: RealFleet) -> None:
    with fleet.manager() as manager, fleet.agent():
        until(lambda: fleet.held() == "1.1", fleet.logs)
        with no_descriptors(manager.pid):
            fleet.publish({"prefixes": prefixes(51)})
            until(lambda: bool(fleet.lines("its file is tried again", "manager")), fleet.logs)
            time.sleep(SETTLED_S)
            assert fleet.held() == "1.1" and manager.poll() is None
        back_s = until(lambda: fleet.held() == "1.2", fleet.logs)
    (line,) = fleet.lines("Too many open files", "manager")
    assert len(fleet.lines("is read again", "manager")) == 1
    write_row("manager out of descriptors", "the map in force stays; the file's map follows once it can be read",
              line.replace(str(fleet.folder), "/var/lib"), back_s)  # fmt: skip


@pytest.mark.slow
@pytest.mark.root
def test_an_agent_without_descriptors_lets_its_lease_end(tmp_path: Path) -> None:
    with two_hosts() as hosts:
        words = ["--driver", "route", "--netns", hosts.server]
        fleet = RealFleet(tmp_path, words, {"prefixes": prefixes(50)})
        with fleet.manager(), fleet.agent() as agent:
            until(lambda: routes(hosts) == 50, fleet.logs)
            with no_descriptors(agent.pid):
                lapsed_s = until(lambda: routes(hosts) == 0, fleet.logs)
                time.sleep(SETTLED_S)
                assert routes(hosts) == 0 and agent.poll() is None
                os.kill(network(agent.pid), signal.SIGKILL)
                until(lambda: bool(fleet.lines("network process cannot be started")), fleet.logs)
            back_s = until(lambda: routes(hosts) == 50 and fleet.held() == "1.1", fleet.logs)
        line, *others = fleet.lines("Too many open files")
        assert all("network process cannot be started" in other for other in others)
        assert routes(hosts) == 0 and fleet.statuses()[-1] == "undone" and not fleet.lines("rejects", "manager")
    write_row("agent out of descriptors", f"Default applies; with some again the map is in force within {back_s:.1f} s",
              line.replace(str(tmp_path), "/var/lib"), lapsed_s, LEASE_S + SEEN_S)  # fmt: skip
