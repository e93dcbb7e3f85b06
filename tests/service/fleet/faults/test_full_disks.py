# SPDX-License-Identifier: MIT
"""A file system without room under a running manager, and under a running agent's journal and spool."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from configtron.db.fleet import FleetStore
from configtron.model.fleet import OutcomeRow
from configtron.service.fleet.spool import Spool
from configtron.tune.drivers.route.table import TABLE
from tests.support.faults.real_fleet import LEASE_S, SETTLED_S, RealFleet, prefixes
from tests.support.faults.rows import write_row
from tests.support.tune.two_hosts import Hosts, two_hosts
from tests.support.waiting import until

pytestmark = pytest.mark.root

# s by which the watchdog sees a lease's end, on a busy machine, and undoes it without a journal.
SEEN_S = 15.0
ROW = OutcomeRow("", "", 0, 5, "a.example", "198.51.7.0/24", "0" * 16, 812.5)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with two_hosts() as raised:
        yield raised


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[None]:
    """Mount a file system of that size."""
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", str(at)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


@contextmanager
def full(at: Path) -> Iterator[None]:
    """Leave no room there for the length of a block."""
    filler = at / "filler"
    with open(filler, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue
    assert os.statvfs(at).f_bavail == 0
    try:
        yield
    finally:
        filler.unlink()


def routes(hosts: Hosts) -> int:
    """Return how many routes of ours there are."""
    words = ["ip", "-netns", hosts.server, "-o", "route", "show", "table", str(TABLE)]
    return subprocess.run(words, capture_output=True, text=True).stdout.count(" initcwnd 20")


def started(hosts: Hosts, folder: Path) -> RealFleet:
    return RealFleet(folder, ["--driver", "route", "--netns", hosts.server], {"prefixes": prefixes(50)})


@pytest.mark.slow
def test_a_full_disk_under_the_agents_journal(hosts: Hosts, tmp_path: Path) -> None:
    """The lease cannot be renewed: Default applies, though nothing can be journaled; with room the map comes back."""
    with small_disk(tmp_path / "tune", "4m"):
        fleet = started(hosts, tmp_path)
        with fleet.manager(), fleet.agent():
            until(lambda: fleet.held() == "1.1", fleet.logs)
            with full(tmp_path / "tune"):
                lapsed_s = until(lambda: routes(hosts) == 0, fleet.logs)
                fleet.publish({"prefixes": {**prefixes(50), "203.0.113.0/24": "near"}})
                time.sleep(SETTLED_S)
                assert routes(hosts) == 0
            back_s = until(lambda: routes(hosts) == 50 and fleet.held() == "1.2", fleet.logs)
        (line,) = fleet.lines("no space left")
        assert "make room" in line and not fleet.lines("rejects", "manager")
        assert routes(hosts) == 0 and fleet.statuses()[-1] == "undone"
    end = f"Default applies; with room again the latest map is in force within {back_s:.1f} s, none was rejected"
    write_row("disk full under a running agent's journal", end, shown(line, tmp_path), lapsed_s, LEASE_S + SEEN_S)


def shown(line: str, folder: Path) -> str:
    """Return a line without the test's own folder."""
    return line.replace(str(folder), "/var/lib")


def stored(fleet: RealFleet) -> int:
    """Return how many rows the manager's database has."""
    with FleetStore(fleet.database) as store:
        return len(list(store.every_row()))


@pytest.mark.slow
def test_a_full_disk_under_the_manager(hosts: Hosts, tmp_path: Path) -> None:
    """A batch that finds no room is stored whole later, and once."""
    with small_disk(tmp_path / "manager", "4m"):
        fleet = started(hosts, tmp_path)
        with fleet.manager(), fleet.agent():
            until(lambda: fleet.held() == "1.1", fleet.logs)
        spool = Spool(fleet.agent_folder / "spool.db", "web1", boot="full")
        spool.add([ROW] * 5000)
        spool.close()
        with fleet.manager():
            until(lambda: len(fleet.lines("listens at", "manager")) == 2, fleet.logs)
            with full(tmp_path / "manager"), fleet.agent():
                until(lambda: bool(fleet.lines("no space left", "manager")) and routes(hosts) == 50, fleet.logs)
                time.sleep(SETTLED_S)
                assert stored(fleet) == 0 and routes(hosts) == 50, fleet.logs()
            with fleet.agent():
                back_s = until(lambda: stored(fleet) == 5000, fleet.logs)
    (line,) = fleet.lines("no space left", "manager")
    write_row("disk full under a running manager", "no batch is half stored; agents keep the map, and send their rows"
              " again: each is stored once", shown(line, tmp_path), back_s, None)  # fmt: skip


@pytest.mark.slow
def test_a_full_disk_under_the_spool(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was kept stays, what is refused is counted, and two lines name the beginning and the end."""
    with small_disk(tmp_path / "agent", "1m"):
        spool = Spool(tmp_path / "agent" / "spool.db", "web1")
        assert spool.add([ROW] * 100) == 100
        with full(tmp_path / "agent"):
            taken = [spool.add([ROW] * 100) for _ in range(300)]
        assert 0 in taken and spool.waiting == 100 + sum(taken) and spool.dropped == 30_000 - sum(taken)
        # It is over once rows have found room for a while, not with the first that did.
        assert [spool.add([ROW]) for _ in range(60)] == [1] * 60
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 2 and f"{spool.dropped} were dropped" in lines[1]
        spool.close()
    write_row("disk full under a running agent's spool", "rows that were kept stay; the others are dropped and counted",
              shown(lines[0], tmp_path))  # fmt: skip
