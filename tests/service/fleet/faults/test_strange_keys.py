# SPDX-License-Identifier: MIT
"""Ten thousand connections with keys that are not enrolled keep no enrolled agent waiting."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from configtron.fleet.transport.curve_keys import manager_address
from tests.support.children import child
from tests.support.faults.real_fleet import RealFleet, prefixes
from tests.support.faults.rows import write_row
from tests.support.waiting import until

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


@pytest.fixture
def fleet(tmp_path: Path) -> RealFleet:
    return RealFleet(tmp_path, ["--driver", "memory"], {"prefixes": prefixes(50)})


def change_s(fleet: RealFleet, version: int) -> float:
    """Return how long a change of the map takes to the agent."""
    fleet.publish({"prefixes": prefixes(50 + version)})
    return until(lambda: fleet.held() == f"1.{version}", fleet.logs)


@pytest.mark.slow
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
    write_row(f"{WRONG} connections with wrong keys", f"none is heard; a change of the map reaches the agent within"
              f" {slowest_s:.1f} s meanwhile; the manager grows by {grown:.0f} MiB", lines[-1], 0.0)  # fmt: skip
