# SPDX-License-Identifier: MIT
"""How many open connections a second are re-tuned when their prefix's class changes, and put back.

Connections over the loopback, half of them of the prefix, are held by several server processes; the prefix's are
listed by inet_diag, borrowed, journaled and set (`service/lease/retuning.py`), then put back from the journal. Printed:
connections a second by the clock and by the processor (user and kernel, of the re-tuning process alone), and whether
each connection of the prefix, and none of the other one, changed and came back.

    python -m benchmarks.retuned [--connections 1000,8000] [--processes 1,8]     as root, in namespaces of its own
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path

from configtron.db.tuning import Tuning
from configtron.model.nouns import Profile
from configtron.model.tuning import Place
from configtron.service.lease.context import context_of
from configtron.service.lease.retuning import OpenRetuner, SocketTarget
from configtron.tune.drivers.pidfd_options import OpenClient
from configtron.tune.drivers.route.route_driver import RouteDriver
from tests.support.isolation import apart

PREFIX = "127.1.0.0/16"
PROFILE = Profile("far", (("notsent_lowat", 16_384), ("priority", 3)))
LOWAT, LIMIT_S = (socket.IPPROTO_TCP, 25), 300


def targets(found: Sequence[OpenClient]) -> Mapping[int, SocketTarget]:
    """Return the target of each connection of the prefix."""
    network = ip_network(PREFIX)
    return {one.cookie: SocketTarget(PREFIX, "a", "b", PROFILE) for one in found if one.address in network}


def held(count: int) -> None:
    """Hold so many connections, every other one of the prefix; answer each line of input with how many have the
    profile, of it and of the other."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 100,) * 2)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    ends = []
    for at in range(count):
        one = socket.socket()
        one.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND
        one.bind((f"127.{1 + at % 2}.{at // 2 // 250}.{at // 2 % 250 + 1}", 0))
        one.connect(listener.getsockname())
        ends.append((one, *listener.accept()))
    print("ready", flush=True)
    for _ in sys.stdin:
        changed = [ip_address(address[0]) in ip_network(PREFIX)
                   for _, served, address in ends if served.getsockopt(*LOWAT) == 16_384]  # fmt: skip
        print(json.dumps([changed.count(True), changed.count(False)]), flush=True)


def asked(holders: Sequence[subprocess.Popen[str]]) -> tuple[int, int]:
    """Return how many connections of the prefix, and of the other one, have the profile."""
    found = []
    for one in holders:
        assert one.stdin and one.stdout
        print(file=one.stdin, flush=True)
        found.append(json.loads(one.stdout.readline()))
    return sum(one[0] for one in found), sum(one[1] for one in found)


def measured(connections: int, processes: int) -> str:
    """Return one row."""
    command = [sys.executable, "-m", "benchmarks.retuned", "--hold", str(connections // processes)]
    holders = [subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
               for _ in range(processes)]  # fmt: skip
    try:
        for one in holders:
            assert one.stdout and one.stdout.readline() == "ready\n"
        with tempfile.TemporaryDirectory() as folder, Tuning(Path(folder) / "tune.db") as journal:
            here = OpenRetuner(context_of(journal), RouteDriver(Place()), Place())
            began, cpu_s = time.monotonic(), time.process_time()
            done = here.retune(targets, [PROFILE])
            wall_s, cpu_s = time.monotonic() - began, time.process_time() - cpu_s
            of_prefix = processes * ((connections // processes + 1) // 2)
            whole = done.changed == of_prefix and asked(holders) == (of_prefix, 0)
            began = time.monotonic()
            back = here.put_back()
            back_s = time.monotonic() - began
            whole &= asked(holders) == (0, 0) and back.put_back == done.changed
    finally:
        for one in holders:
            one.kill()
            one.wait()
    return (f"{connections:>11} {processes:>9} {done.changed:>8} {done.changed / wall_s:>9.0f}"
            f" {done.changed / cpu_s:>8.0f} {back.put_back / back_s:>9.0f}   {'yes' if whole else 'NO'}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retuned", description=__doc__.split("\n")[0])
    parser.add_argument("--connections", default="1000,8000")
    parser.add_argument("--processes", default="1,8")
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hold:
        held(given.hold)
        return
    if not given.here:
        words = [sys.executable, "-m", "benchmarks.retuned", *sys.argv[1:], "--here"]
        raise SystemExit(subprocess.run(apart(words), timeout=LIMIT_S, check=False).returncode)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} processors")
    print("connections processes re-tuned  a second  of a CPU put back a second   all and no other")
    for connections in map(int, given.connections.split(",")):
        for processes in map(int, given.processes.split(",")):
            print(measured(connections, processes), flush=True)


if __name__ == "__main__":
    main()
