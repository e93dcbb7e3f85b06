# SPDX-License-Identifier: MIT
"""Where benchmarks.tune measures: a server that is tuned between two that are not, one client process for all three.

    python -m benchmarks.tune_inside PLAN.json     in the lab's enclosure: as root, with namespaces and a cgroup

Each phase is one driver with one number of prefixes. Its servers stand in network namespaces and cgroups of their own
behind links of their own; blocks of connections go to them in turn, in an order drawn anew for every round. The rows
written are raw: what is made of them is `tune.py`'s.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from configtron.lab.internet import links
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from configtron.linux.netns import enter, inside
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers import load
from tests.support.children import child
from tests.support.guest_module import MODULE

OUTPUT = Path(GUEST_OUTPUT)
PORT = 8080
# churn.c's clients: number k has the address 10.64.0.0 + 8 k + 2.
CLIENTS, FIRST_CLIENT = 100_000, 0x0A400000
CLIENT_NET = "10.64.0.0/11"
# How long the prefixes are when there are so many of them: each set covers all clients, so that every connection of a
# tuned server finds one, and the same addresses come at any size.
LENGTHS = {1_000: 22, 100_000: 29}
# Two profiles in turn. reno is the one congestion control that any namespace may have as its default; the profiles set
# another, so that setting it is work. What that one itself costs is the row "listener".
ORDINARY, TUNED = "reno", "cubic"
PROFILES = {
    "short": Profile("short", (("initcwnd", 20), ("tcp_congestion_control", TUNED))),
    "long": Profile("long", (("initcwnd", 30), ("tcp_congestion_control", TUNED))),
}
# These are the same for every cgroup, and say so.
NO_CGROUPS = ("kmod", "route", "sysctl")
# What needs no driver of ours: a library before the server; the server's own listener, for everybody alike.
BY_THEMSELVES = ("shim", "listener")
ROLES = ("untouched", "tuned", "untouched again")
# A server that does not listen by then has failed.
PATIENCE_S = 30.0


class Server(NamedTuple):
    """One server: its namespace (also its cgroup's name), its address, the process that answers."""

    netns: str
    address: str
    pid: int


def main(plan: Path) -> int:
    """Every phase of the plan; a line a block."""
    asked = json.loads(plan.read_text())
    _clients()
    if any(phase["driver"] == "kmod" for phase in asked["phases"]):
        # Until a namespace makes it its default, nothing of it runs.
        subprocess.run(["insmod", str(MODULE)], check=True)
    with (OUTPUT / "blocks.jsonl").open("w") as out:
        for number, phase in enumerate(asked["phases"]):
            for row in _phase(number, phase, asked):
                out.write(json.dumps(row) + "\n")
    return 0


def _clients() -> None:
    links.ip("", ["netns add clients"])
    links.ip("clients", ["link set lo up", f"route add local {CLIENT_NET} dev lo"])


def _phase(number: int, phase: dict[str, Any], asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One driver at one number of prefixes."""
    driver, count = phase["driver"], phase["prefixes"]
    prefixes = prefixes_of(count)
    with ExitStack() as stack:
        servers = []
        for role, name in enumerate(ROLES):
            by = driver if name == "tuned" else ""
            servers.append(stack.enter_context(_server(number * len(ROLES) + role, asked, by, prefixes)))
        if driver not in BY_THEMSELVES:
            stack.enter_context(_tuned(driver, servers[1].netns, prefixes))
        _check(servers, tuned=count > 0 or driver == "listener")
        visits = stack.enter_context(_visitor(asked["programs"]))
        yield from _rounds(driver, count, servers, visits, asked)


def _rounds(
    driver: str, count: int, servers: Sequence[Server], visits: subprocess.Popen[str], asked: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """A first round that does not count, then as many as asked."""
    chance, first = random.Random(asked["seed"]), 0
    assert visits.stdin and visits.stdout
    for turn in range(-1, asked["rounds"]):
        order = list(range(len(servers)))
        chance.shuffle(order)
        for role in order:
            server = servers[role]
            began = time.time()
            words = (server.address, PORT, server.pid, asked["block"], first)
            visits.stdin.write(" ".join(map(str, words)) + "\n")
            visits.stdin.flush()
            answer = visits.stdout.readline().split()
            if len(answer) != 5:
                raise SystemExit(f"{driver}, {count} prefixes: the client ended during a block ({ROLES[role]})")
            done, wall, cpu, p50, p99 = map(int, answer)
            if turn >= 0:
                yield {
                    "driver": driver, "prefixes": count, "round": turn, "role": ROLES[role], "connections": done,
                    "wall_ns": wall, "cpu_ns": cpu, "p50_ns": p50, "p99_ns": p99, "began": began, "ended": time.time(),
                }  # fmt: skip
        # The same clients for all servers of a round, others in the next.
        first = (first + asked["block"]) % CLIENTS


def prefixes_of(count: int) -> list[str]:
    """So many prefixes that cover all clients together; sorted. 0 is none."""
    if not count:
        return []
    length = LENGTHS[count]
    return [f"{_address(FIRST_CLIENT + (n << (32 - length)))}/{length}" for n in range(count)]


def _address(number: int) -> str:
    return socket.inet_ntoa(number.to_bytes(4, "big"))


@contextmanager
def _server(number: int, asked: dict[str, Any], driver: str, prefixes: Sequence[str]) -> Iterator[Server]:
    """A server in a network namespace and a cgroup of its own, with what it does itself to be tuned."""
    netns, net = f"s{number}", f"10.200.{number}"
    links.ip("", [f"netns add {netns}"])
    links.ip(netns, [f"link add eth0 type veth peer name {netns} netns clients", f"addr add {net}.2/24 dev eth0",
                     "link set lo up", "link set eth0 up", f"route add default via {net}.1"])  # fmt: skip
    links.ip("clients", [f"addr add {net}.1/24 dev {netns}", f"link set {netns} up"])
    links.sysctl(netns, [("net/ipv4/tcp_congestion_control", ORDINARY), ("net/ipv4/tcp_no_metrics_save", "1")])
    group = _group(netns)
    group.mkdir()
    environment = dict(os.environ)
    if driver == "shim":
        file = OUTPUT / "prefixes.txt"
        file.write_text("".join(f"{prefix} {TUNED}\n" for prefix in prefixes))
        environment |= {"LD_PRELOAD": f"{asked['programs']}/shim.so", "CHURN_PREFIXES": str(file)}

    def settle() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        enter(netns)

    words = [f"{asked['programs']}/churn", "serve", str(PORT), *([TUNED] if driver == "listener" else [])]
    with child(words, signal.SIGTERM, settle, stdout=subprocess.DEVNULL, env=environment) as process:
        try:
            _await(netns, process)
            yield Server(netns, f"{net}.2", process.pid)
        finally:
            process.terminate()
            process.wait()
            links.ip("", [f"netns del {netns}"])


def _await(netns: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not links.listens(netns, PORT):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{process.args!r} does not listen")
        time.sleep(0.05)


def _group(netns: str) -> Path:
    return Path("/run/cgroup") / netns


@contextmanager
def _tuned(driver: str, netns: str, prefixes: Sequence[str]) -> Iterator[None]:
    """The driver in force on that server; read back whole."""
    hand = load(driver, Place(netns=netns, cgroup="" if driver in NO_CGROUPS else netns))
    if reason := hand.missing():
        raise SystemExit(f"driver {driver}: {reason}")
    before = hand.before()
    names = list(PROFILES)
    rules = {prefix: names[n % len(names)] for n, prefix in enumerate(prefixes)}
    try:
        hand.apply(Changes(profiles=PROFILES, prefixes=rules))
        if hand.read().prefixes != rules:
            raise SystemExit(f"driver {driver}: what is in force is not the {len(rules)} prefixes that were asked for")
        yield
    finally:
        hand.revert(before)


@contextmanager
def _visitor(programs: str) -> Iterator[subprocess.Popen[str]]:
    words = [f"{programs}/churn", "visit"]
    pipe = subprocess.PIPE
    with child(words, prepare=lambda: enter("clients"), text=True, stdin=pipe, stdout=pipe) as process:
        yield process


def _check(servers: Sequence[Server], *, tuned: bool) -> None:
    """Connections are what the phase says they are, by `ss`: else the figures would be of something else."""
    for role, server in zip(ROLES, servers, strict=True):
        with inside("clients"), socket.socket() as client:
            client.bind((_address(FIRST_CLIENT + 2), 0))
            client.settimeout(PATIENCE_S)
            client.connect((server.address, PORT))
            # Accepted by then, so that a shim has had its chance.
            time.sleep(0.2)
            words = ["ip", "netns", "exec", server.netns, "ss", "-tinHO", "state", "established", f"sport = :{PORT}"]
            output = subprocess.check_output(words, text=True)
        wanted = TUNED if role == "tuned" and tuned else ORDINARY
        if wanted not in output.split():
            raise SystemExit(f"{role}: a connection is not under {wanted} as this phase needs, but: {output.strip()}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
