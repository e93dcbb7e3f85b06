# SPDX-License-Identifier: MIT
"""Hundreds of peers send their requests to an agent's endpoint byte by byte, and never end (slow loris)."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from configtron.intake.receiving.http_endpoint import MOST_CONNECTIONS
from tests.support.faults.real_fleet import RealFleet, prefixes
from tests.support.faults.rows import write_row
from tests.support.loopback import free_endpoint
from tests.support.waiting import PATIENCE_S, until

PEERS, HEAD = MOST_CONNECTIONS + 200, b"POST /configtron/beacon HTTP/1.1\r\nHost: a.example\r\nX: "


def answered_s(host: str, port: int) -> float:
    """Return how long an honest peer waits for its answer."""
    began_s = time.monotonic()
    to = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    to.request("GET", "/configtron/beacon.js")
    assert to.getresponse().status == 200
    to.close()
    return time.monotonic() - began_s


def dribble(peers: list[socket.socket], done: threading.Event) -> None:
    """Send a byte of each peer's request, again and again; some are closed by the agent."""
    while not done.wait(0.2):
        for one in peers:
            with suppress(OSError):
                one.send(b"x")


def network(agent: int) -> int:
    """Return the agent's process that has the network."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return next(int(pid) for pid in children if "agent_network" in Path(f"/proc/{pid}/cmdline").read_text())


@pytest.mark.slow
def test_slow_peers_keep_no_honest_one_waiting(tmp_path: Path) -> None:
    host, port = free_endpoint().removeprefix("tcp://").split(":")
    fleet = RealFleet(tmp_path, ["--driver", "memory"], {"prefixes": prefixes(50)})
    words = ("--beacons", f"{host}:{port}", "--log-socket", str(tmp_path / "log"))
    done, peers = threading.Event(), list[socket.socket]()
    with fleet.manager(), fleet.agent(*words) as agent:
        until(lambda: fleet.held() == "1.1" and bool(fleet.lines("beacons are taken")), fleet.logs)
        for _ in range(PEERS):
            peers.append(socket.create_connection((host, int(port)), timeout=PATIENCE_S))
            peers[-1].sendall(HEAD)
        slow = threading.Thread(target=dribble, args=(peers, done))
        slow.start()
        try:
            waits = [answered_s(host, int(port)) for _ in range(20)]
            fleet.publish({"prefixes": prefixes(51)})
            changed_s = until(lambda: fleet.held() == "1.2", fleet.logs)
            opened = len(os.listdir(f"/proc/{network(agent.pid)}/fd"))
            assert not fleet.lines("has ended") and not fleet.lines("has not been heard")
        finally:
            done.set()
            slow.join()
            for one in peers:
                one.close()
    print(f"honest peers waited {max(waits):.2f} s at most, a change {changed_s:.2f} s; {opened} descriptors")
    assert opened < MOST_CONNECTIONS + 50
    end = f"the oldest of {PEERS} connections give way; honest requests are answered within {max(waits):.1f} s, and a"
    write_row(
        "slow loris at the agent's endpoint", f"{end} change of the map is in force within {changed_s:.1f} s", "", 0.0
    )
