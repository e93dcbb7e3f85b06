# SPDX-License-Identifier: MIT
"""Faults planted in a manager and an agent as the command line starts them: descriptors, disks, keys, other releases.

Each test writes its row of the table of faults (`tests/support/faults/rows.py`). The same faults in any order, and many
more, are judged in virtual time in `test_whole_system.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from configtron.db.fleet import FleetStore
from configtron.db.schema import VERSION
from configtron.fleet.transport.curve_keys import manager_address
from configtron.model.errors import REFUSED, USAGE
from tests.support.children import child
from tests.support.faults.descriptors import no_descriptors
from tests.support.faults.real_fleet import SETTLED_S, RealFleet, prefixes
from tests.support.tune.two_hosts import two_hosts
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path: Path) -> RealFleet:
    """A fleet whose agent writes to memory."""
    return RealFleet(tmp_path, ["--driver", "memory"], {"prefixes": prefixes(50)})


@pytest.fixture
def namespace() -> Iterator[str]:
    """The network namespace of a server."""
    with two_hosts() as raised:
        yield raised.server


@pytest.fixture
def routed(tmp_path: Path, namespace: str) -> RealFleet:
    """A fleet whose agent sets routes of a network namespace."""
    return started(tmp_path, namespace)


def started(folder: Path, namespace: str, **form: Any) -> RealFleet:
    return RealFleet(folder, ["--driver", "route", "--netns", namespace], {"prefixes": prefixes(50), **form})


def network(agent: int) -> int:
    """Return the agent's process that has the network."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return next(int(pid) for pid in children if "agent_network" in Path(f"/proc/{pid}/cmdline").read_text())


# ---- descriptors and disks


@pytest.mark.root
def test_an_agent_without_descriptors_lets_its_lease_end(routed: RealFleet) -> None:
    with routed.manager(), routed.agent() as agent:
        until(lambda: routed.routes() == 50, routed.logs)
        with no_descriptors(agent.pid):
            until(lambda: routed.routes() == 0, routed.logs)
            time.sleep(SETTLED_S)
            assert routed.routes() == 0 and agent.poll() is None
            os.kill(network(agent.pid), signal.SIGKILL)
            until(lambda: bool(routed.lines("network process cannot be started")), routed.logs)
        until(lambda: routed.routes() == 50 and routed.held() == "1.1", routed.logs)
    line, *others = routed.lines("Too many open files")
    assert all("network process cannot be started" in other for other in others)
    assert routed.routes() == 0 and routed.statuses()[-1] == "undone" and not routed.lines("rejects", "manager")


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
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
    assert os.statvfs(at).f_bavail == 0
    try:
        yield
    finally:
        filler.unlink()


@pytest.mark.root
def test_a_full_disk_under_the_agents_journal(routed: RealFleet, tmp_path: Path) -> None:
    """The lease cannot be renewed: Default applies, though nothing can be journaled; with room the map comes back."""
    with small_disk(tmp_path / "tune", "4m"):
        with routed.manager(), routed.agent():
            until(lambda: routed.held() == "1.1", routed.logs)
            with full(tmp_path / "tune"):
                until(lambda: routed.routes() == 0, routed.logs)
                routed.publish({"prefixes": {**prefixes(50), "203.0.113.0/24": "near"}})
                time.sleep(SETTLED_S)
                assert routed.routes() == 0
            until(lambda: routed.routes() == 50 and routed.held() == "1.2", routed.logs)
        (line,) = routed.lines("no space left")
        assert "make room" in line and not routed.lines("rejects", "manager")
        assert routed.routes() == 0 and routed.statuses()[-1] == "undone"


# ---- other programs, and processes that are killed or stopped


# s of validity; the manager makes a map anew after a part of it.
VALID_S = 15.0


@pytest.mark.root
def test_default_comes_back_when_the_validity_of_the_map_is_over(namespace: str, tmp_path: Path) -> None:
    fleet = started(tmp_path, namespace, valid_s=VALID_S)
    with fleet.manager() as manager, fleet.agent():
        until(lambda: fleet.routes() == 50, fleet.logs)
        # The manager renews the map as long as it runs.
        until(lambda: fleet.held() not in ("", "1.1"), fleet.logs)
        assert fleet.routes() == 50
        manager.send_signal(signal.SIGSTOP)
        until(lambda: fleet.routes() == 0, fleet.logs)
        until(lambda: bool(fleet.lines("is void")), fleet.logs)
        (line,) = fleet.lines("is void")
        time.sleep(SETTLED_S)
        assert fleet.routes() == 0
        manager.send_signal(signal.SIGCONT)
        until(lambda: fleet.routes() == 50, fleet.logs)


# ---- other databases


ROWS = 500
# The last version before tables of ended connections, and what came with them.
OLDER, NEW_TABLES = 12, ("end_state", "initial_model")


@pytest.fixture
def ran(fleet: RealFleet) -> RealFleet:
    """A fleet that has run, and whose agent has rows for its manager."""
    with fleet.manager(), fleet.agent():
        until(lambda: fleet.held() == "1.1", fleet.logs)
    fleet.spool("waits", ROWS)
    return fleet


def version(path: Path, to: int = 0) -> int:
    """Return a file's version, as it was before it is set."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        (found,) = database.execute("PRAGMA user_version").fetchone()
        if to:
            database.execute(f"PRAGMA user_version = {to}")
    return int(found)


def ended(fleet: RealFleet, name: str) -> tuple[int, str]:
    """Run a process until it ends; return its exit code and what it logged."""
    at = len(fleet.log(name))
    with (fleet.manager if name == "manager" else fleet.agent)() as process:
        code: int = process.wait(60.0)
    return code, fleet.log(name)[at:].strip()


@pytest.mark.parametrize(("name", "file"), [
    ("manager", lambda ran: ran.database), ("agent", lambda ran: ran.journal)],
    ids=["manager's", "agent's journal"])  # fmt: skip
def test_a_newer_database_is_refused_by_name(ran: RealFleet, name: str, file: Callable[[RealFleet], Path]) -> None:
    path = file(ran)
    before = version(path, VERSION + 1)
    code, line = ended(ran, name)
    assert code == USAGE and line.count("\n") == 0
    assert f"{path}: written by a newer configtron (schema {VERSION + 1}, this one knows {VERSION})" in line
    assert version(path, before) == VERSION + 1
    with ran.manager(), ran.agent():
        until(lambda: ran.stored() >= ROWS, ran.logs)
        until(lambda: ran.held() not in ("", "1.1"), ran.logs)
    assert ran.stored() == ROWS


def test_a_newer_spool_is_refused_by_name(ran: RealFleet) -> None:
    """The applier goes on: what is in force does not depend on the spool."""
    path = ran.agent_folder / "spool.db"
    before = version(path, 9)
    with ran.manager(), ran.agent():
        until(lambda: len(ran.lines("written by a newer configtron")) == 2, ran.logs)
        assert ran.statuses()[-1] == "leased"
        version(path, before)
        until(lambda: ran.stored() >= ROWS, ran.logs)
    line = ran.lines("written by a newer configtron")[0]
    assert str(path) in line and ran.stored() == ROWS


def test_an_older_database_is_brought_up_to_date(ran: RealFleet) -> None:
    for path in (ran.database, ran.journal):
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            for table in NEW_TABLES:
                database.execute(f"DROP TABLE {table}")
        version(path, OLDER)
    with ran.manager(), ran.agent():
        until(lambda: ran.stored() >= ROWS, ran.logs)
        until(lambda: ran.held() not in ("", "1.1"), ran.logs)
    assert ran.stored() == ROWS
    assert version(ran.database) == version(ran.journal) == VERSION
    (line,) = ran.lines("kept by its former start")


def draw_key(fleet: RealFleet) -> str:
    """Return the key of the draw that the manager's database has."""
    with FleetStore(fleet.database) as store:
        return store.facts()["maker"]


def test_a_manager_of_a_restored_database_is_not_obeyed(fleet: RealFleet, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with fleet.agent():
        with fleet.manager():
            until(lambda: fleet.held().startswith("1."), fleet.logs)
        shutil.copy(fleet.database, copy)
        with fleet.manager():
            until(lambda: fleet.held().startswith("2."), fleet.logs)
            fleet.publish({"prefixes": prefixes(60)})
            until(lambda: "accepted" in fleet.log().splitlines()[-1], fleet.logs)
            held = fleet.held()
        key = draw_key(fleet)
        # The copy's next term is 2, too, and it has another key of the draw.
        shutil.copy(copy, fleet.database)
        with fleet.manager("--fresh") as restored:
            code = restored.wait(PATIENCE_S)
        assert draw_key(fleet) != key and code == REFUSED, fleet.logs()
        (line,) = fleet.lines("which has the same term", "manager")
        assert "backup: configtron --db " in line and line.endswith(" --after-term 2"), line
        accepted = [each for each in fleet.log().splitlines() if "accepted" in each]
        with fleet.manager("--after-term", "2"):
            until(lambda: fleet.held().startswith("3."), fleet.logs)
        later = [each for each in fleet.log().splitlines() if "accepted" in each][len(accepted) :]
    assert held and all(each.startswith("INFO map 3.") for each in later) and fleet.statuses()[-1] == "undone"
    assert json.loads((tmp_path / "map.json").read_text())["prefixes"].keys() == prefixes(60).keys()


# ---- strangers


# Connections with wrong keys, at once and in all.
AT_ONCE, WRONG = 250, 10_000
# MiB by which the manager may grow.
MOST_GROWN = 64
FLOOD = """
import sys, time, zmq
endpoint, key, count, at_once = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
for _ in range(0, count, at_once):
    context, sockets = zmq.Context(), []
    for _ in range(at_once):
        one = context.socket(zmq.DEALER)
        one.linger, one.reconnect_ivl, one.curve_serverkey = 0, -1, key
        one.curve_publickey, one.curve_secretkey = zmq.curve_keypair()
        watch = one.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_DISCONNECTED)
        one.connect(endpoint)
        sockets.append((one, watch))
    for one, watch in sockets:
        watch.poll(10_000)
        one.disable_monitor()
        watch.close(0)
        one.close(0)
    context.term()
"""


def memory_mib(pid: int) -> float:
    """Return what a process holds in memory."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def change_s(fleet: RealFleet, version: int) -> float:
    """Return how long a change of the map takes to the agent."""
    fleet.publish({"prefixes": prefixes(50 + version)})
    return until(lambda: fleet.held() == f"1.{version}", fleet.logs)


def test_wrong_keys_by_the_thousand_keep_no_agent_waiting(fleet: RealFleet) -> None:
    address = manager_address(fleet.agent_folder)
    with fleet.manager() as manager, fleet.agent():
        until(lambda: fleet.held() == "1.1", fleet.logs)
        quiet_s, before = change_s(fleet, 2), memory_mib(manager.pid)
        command = [sys.executable, "-c", FLOOD, address.endpoint, address.curve, str(WRONG), str(AT_ONCE)]
        began_s = time.monotonic()
        with child(command) as flood:
            version, slowest_s = 2, 0.0
            while flood.poll() is None:
                version += 1
                slowest_s = max(slowest_s, change_s(fleet, version))
            assert flood.returncode == 0
        flood_s, grown = time.monotonic() - began_s, memory_mib(manager.pid) - before
        until(lambda: bool(fleet.lines(f"{WRONG} so far", "manager")), fleet.logs)
        lines = fleet.lines("keys are not enrolled", "manager")
        print(f"{WRONG} connections in {flood_s:.1f} s; a change takes {quiet_s:.1f} s, meanwhile {slowest_s:.1f} s at"
              f" most, {version - 2} times; {grown:+.1f} MiB")  # fmt: skip
        # One for each tenfold of what was seen: a busy manager sees the first ones together.
        assert f"{WRONG} so far" in lines[-1] and len(lines) <= 5
        assert grown < MOST_GROWN and not fleet.lines("has not been heard")
