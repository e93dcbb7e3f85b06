# SPDX-License-Identifier: MIT
"""Another program flushes 100 000 routes of the agent's: one event, one alarm, and nothing is written again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.tune.drivers.route.table import TABLE
from tests.support.faults.real_fleet import LEASE_S, RealFleet, prefixes
from tests.support.faults.rows import write_row
from tests.support.tune.two_hosts import Hosts, two_hosts
from tests.support.waiting import until

pytestmark = pytest.mark.root

COUNT = 100_000
# s in which the program that flushes is noticed, from its first change on; it takes some seconds itself.
NOTICED_S = 15.0
# `ip route flush` gives up where a route that it has read is gone already, or a busy kernel has no buffer.
FLUSH = 'while ip -netns "$1" route show table "$2" | grep -q .; do ip -netns "$1" route flush table "$2"; done'


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with two_hosts() as raised:
        yield raised


def routes(hosts: Hosts) -> int:
    """Return how many routes of ours there are: as `ip` counts them."""
    words = ["ip", "-netns", hosts.server, "-o", "route", "show", "table", str(TABLE)]
    found = subprocess.run(words, capture_output=True, text=True).stdout
    return sum(" initcwnd 20" in line for line in found.splitlines())


@pytest.mark.slow
def test_a_flush_of_all_routes_freezes_the_place_once(hosts: Hosts, tmp_path: Path) -> None:
    fleet = RealFleet(tmp_path, ["--driver", "route", "--netns", hosts.server], {"prefixes": prefixes(COUNT)})
    with fleet.manager(), fleet.agent():
        until(lambda: fleet.held() == "1.1", fleet.logs)
        assert routes(hosts) == COUNT
        began_s = time.monotonic()
        flush = subprocess.Popen(["sh", "-c", FLUSH, "sh", hosts.server, str(TABLE)])
        noticed_s = until(lambda: bool(fleet.lines("another program changed")), fleet.logs)
        assert flush.wait() == 0
        flushed_s = time.monotonic() - began_s
        fleet.publish({"prefixes": {**prefixes(COUNT), "203.0.113.0/24": "near"}})
        until(lambda: bool(fleet.lines("rejects map 1.2: frozen", "manager")), fleet.logs)
        # Longer than a lease, and than the watchdog takes after it.
        time.sleep(1.5 * LEASE_S)
        print(f"flushed in {flushed_s:.1f} s, noticed after {noticed_s:.1f} s")
        assert routes(hosts) == 0
        assert len(fleet.frozen()) == 1 and fleet.frozen()[0][0] == "place"
        (line,) = fleet.lines("another program changed")
        fleet.tuned("unfreeze", "--all")
        back_s = until(lambda: routes(hosts) == COUNT, fleet.logs)
        print(f"back {back_s:.1f} s after it was unfrozen")
    assert routes(hosts) == 0 and "leased" not in fleet.statuses()
    end = "one place is frozen, none of 100 000 routes is written again; after `tune unfreeze` all are, in"
    end += f" {back_s:.1f} s"
    write_row("100 000 routes flushed by another program", end, line, noticed_s, flushed_s + NOTICED_S)
