# SPDX-License-Identifier: MIT
"""A manager that is silent while its connections stand: for longer than a lease, and than its map's validity."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.db.fleet import FleetStore
from configtron.model.fleet import OutcomeRow
from configtron.service.fleet.spool import Spool
from configtron.tune.drivers.route.table import TABLE
from tests.support.faults.real_fleet import LEASE_S, SETTLED_S, RealFleet, boottime_s, prefixes
from tests.support.faults.rows import write_row
from tests.support.tune.two_hosts import Hosts, two_hosts
from tests.support.waiting import until

pytestmark = pytest.mark.root

# s of validity; the manager makes a map anew after a part of it.
VALID_S = 15.0
ROW = OutcomeRow("", "", 0, 5, "a.example", "198.51.7.0/24", "0" * 16, 812.5)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with two_hosts() as raised:
        yield raised


def routes(hosts: Hosts) -> int:
    """Return how many routes of ours there are."""
    words = ["ip", "-netns", hosts.server, "-o", "route", "show", "table", str(TABLE)]
    return subprocess.run(words, capture_output=True, text=True).stdout.count(" initcwnd 20")


def started(hosts: Hosts, folder: Path, **form: float) -> RealFleet:
    words = ["--driver", "route", "--netns", hosts.server]
    return RealFleet(folder, words, {"prefixes": prefixes(50), **form})


@pytest.mark.slow
def test_a_map_outlasts_a_partition_and_rows_arrive_once(hosts: Hosts, tmp_path: Path) -> None:
    fleet = started(hosts, tmp_path)
    with fleet.manager() as manager, fleet.agent():
        until(lambda: fleet.held() == "1.1", fleet.logs)
        manager.send_signal(signal.SIGSTOP)
        until(lambda: bool(fleet.lines("has not been heard for 5 s")), fleet.logs)
        first_s = fleet.lease_end_s()
        until(lambda: boottime_s() > first_s)
        assert routes(hosts) == 50
        manager.send_signal(signal.SIGCONT)
        heard_s = until(lambda: bool(fleet.lines("is heard again")), fleet.logs)
    (line,) = fleet.lines("has not been heard")
    # Rows that waited when the agent ended are sent by its next start.
    spool = Spool(fleet.agent_folder / "spool.db", "web1", boot="partition")
    spool.add([ROW] * 500)
    spool.close()
    with fleet.manager() as manager, fleet.agent():
        until(lambda: stored(fleet) > 0, fleet.logs)
        manager.send_signal(signal.SIGSTOP)
        # Two tries of a batch without a receipt.
        time.sleep(5.0)
        manager.send_signal(signal.SIGCONT)
        until(lambda: stored(fleet) == 500, fleet.logs)
    assert stored(fleet) == 500
    write_row("partition, longer than the lease", "the map stays in force; rows are stored once", line, heard_s, None)


def stored(fleet: RealFleet) -> int:
    with FleetStore(fleet.database) as store:
        return len(list(store.every_row()))


@pytest.mark.slow
def test_default_comes_back_when_the_validity_of_the_map_is_over(hosts: Hosts, tmp_path: Path) -> None:
    fleet = started(hosts, tmp_path, valid_s=VALID_S)
    with fleet.manager() as manager, fleet.agent():
        until(lambda: routes(hosts) == 50, fleet.logs)
        # The manager renews the map as long as it runs.
        until(lambda: fleet.held() not in ("", "1.1"), fleet.logs)
        assert routes(hosts) == 50
        manager.send_signal(signal.SIGSTOP)
        void_s = until(lambda: routes(hosts) == 0, fleet.logs)
        until(lambda: bool(fleet.lines("is void")), fleet.logs)
        (line,) = fleet.lines("is void")
        time.sleep(SETTLED_S)
        assert routes(hosts) == 0
        manager.send_signal(signal.SIGCONT)
        back_s = until(lambda: routes(hosts) == 50, fleet.logs)
    write_row("partition, longer than the map's validity", f"Default applies; once the manager is heard, its map is in"
              f" force again within {back_s:.1f} s", line, void_s, VALID_S + LEASE_S)  # fmt: skip
