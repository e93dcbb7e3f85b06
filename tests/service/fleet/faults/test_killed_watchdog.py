# SPDX-License-Identifier: MIT
"""The watchdog of an agent's rules is killed under it: another starts, and ends the lease when the agent dies."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.tune.drivers.route.table import TABLE
from tests.support.faults.real_fleet import LEASE_S, RealFleet, boottime_s, prefixes
from tests.support.faults.rows import write_row
from tests.support.tune.two_hosts import Hosts, two_hosts
from tests.support.waiting import until

pytestmark = pytest.mark.root

# s between two renewals, and for a Python program to start on a busy machine; by which a watchdog sees a lease's end.
ANEW_S, SEEN_S = 20.0, 15.0


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with two_hosts() as raised:
        yield raised


def routes(hosts: Hosts) -> int:
    """Return how many routes of ours there are."""
    words = ["ip", "-netns", hosts.server, "-o", "route", "show", "table", str(TABLE)]
    return subprocess.run(words, capture_output=True, text=True).stdout.count(" initcwnd 20")


@pytest.mark.slow
def test_a_killed_watchdog_is_replaced_and_the_new_one_ends_the_lease(hosts: Hosts, tmp_path: Path) -> None:
    fleet = RealFleet(tmp_path, ["--driver", "route", "--netns", hosts.server], {"prefixes": prefixes(50)})
    with fleet.manager(), fleet.agent() as agent:
        until(lambda: fleet.held() == "1.1", fleet.logs)
        before = fleet.watchdog()
        os.kill(before, signal.SIGKILL)
        anew_s = until(lambda: fleet.watchdog() not in (0, before), fleet.logs)
        (line,) = fleet.lines("the watchdog of transaction")
        assert routes(hosts) == 50
        # The rules stay past the lease's first end: the agent has renewed it.
        first_s = fleet.lease_end_s()
        until(lambda: boottime_s() > first_s)
        assert routes(hosts) == 50 and len(fleet.lines("watchdog")) == 1
        agent.send_signal(signal.SIGKILL)
        lapsed_s = until(lambda: routes(hosts) == 0, fleet.logs)
        assert boottime_s() >= fleet.lease_end_s()
    assert fleet.statuses()[-1] == "undone"
    write_row("lease watchdog killed under a living agent", "another one is started; when the agent is killed too, that"
              " one puts back what stood before", line, anew_s, ANEW_S)  # fmt: skip
    write_row("agent killed (driver route, which has no lease of its own)", "the watchdog puts back what stood before",
              "", lapsed_s, LEASE_S + SEEN_S)  # fmt: skip
