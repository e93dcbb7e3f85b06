# SPDX-License-Identifier: MIT
"""Clients at many loopback addresses, a server in a control group, a plan: each connection beside user space's draw.

Run it apart (tests/support/isolation.py): it adds addresses to the loopback.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.draw import Key, Mix, Plan, draw, propensity, unit_of
from configtron.model.nouns import Profile
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver

KEY = Key(0x1234567890ABCDEF, 0xFEDCBA0987654321)
FOREVER = 1 << 62
# Arm i has window 12 + 7 i and the i-th of three congestion controls.
CONTROLS = ("cubic", "reno", "bbr")
ARMS = {
    f"p{i}": Profile(f"p{i}", (("initcwnd", 12 + 7 * i), ("tcp_congestion_control", CONTROLS[i % 3]))) for i in range(8)
}
# While a plan is in force no client has a class's own settings.
CLASSES = {name: Profile(name, (("initcwnd", 99),)) for name in ("A", "B", "C")}
PREFIXES = {"127.1.0.0/16": "A", "127.2.0.0/16": "B", "fd00:1::/32": "C"}
EIGHT = Mix(tuple(ARMS), (20000, 15000, 10000, 8000, 6000, 4000, 2000, 536))
MIXES = {"A": EIGHT, "B": Mix(("p0", "p1", "p2"), (32768, 30000, 2768)), "C": EIGHT}
IP_FREEBIND, IPV6_FREEBIND = (0, 15), (41, 78)
ABORT = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
CWND, CONTROL = 80, (socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)


class Server:
    """A listener of each family, in the driver's control group."""

    def __init__(self, port: int = 8080) -> None:
        self.port = port
        self.four = socket.create_server(("127.0.0.1", port), backlog=256)
        self.six = socket.create_server(("::", port + 1), family=socket.AF_INET6, dualstack_ipv6=True, backlog=256)

    def connect(self, address: str, mapped: bool = False) -> tuple[socket.socket, socket.socket]:
        """A client at an address of ours, mapped: over IPv4 to the listener of IPv6; its socket and the server's."""
        is_six = ":" in address
        client = socket.socket(socket.AF_INET6 if is_six else socket.AF_INET)
        client.setsockopt(*(IPV6_FREEBIND if is_six else IP_FREEBIND), 1)
        client.bind((address, 0))
        client.connect(("::1", self.port + 1) if is_six else ("127.0.0.1", self.port + mapped))
        return client, (self.six if is_six or mapped else self.four).accept()[0]


def settings(served: socket.socket) -> tuple[int, str]:
    """Return (window, congestion control) that the kernel has."""
    info = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("=I", info, CWND)[0], served.getsockopt(*CONTROL).partition(b"\0")[0].decode()


def expected(arm: int | None, untouched: tuple[int, str]) -> tuple[int, str]:
    return untouched if arm is None else (12 + 7 * arm, CONTROLS[arm % 3])


def plan(epoch: int, holdback: int = 0, **more: Any) -> Plan:
    return Plan(KEY, epoch, more.pop("not_after", FOREVER), holdback, **more)


def put(driver: EbpfDriver, wanted: Plan, mixes: Mapping[str, Mix] = MIXES) -> None:
    driver.load_plan(wanted, mixes)
    driver.turn()


class Clients:
    """Addresses of three kinds, neighbours many of them; each is asked for several times."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        near = self._random.randrange
        self._four = {
            name: [f"127.{net}.{near(256)}.{near(1, 255)}" for _ in range(600)] for name, net in (("A", 1), ("B", 2))
        }
        self._six = [f"fd00:1:{near(65536):x}:{near(65536):x}" for _ in range(400)]

    def next(self) -> tuple[str, str, bool]:
        """Class, address, whether mapped."""
        kind, near = self._random.randrange(10), self._random.randrange
        if kind < 3:
            interface = ":".join(f"{near(1, 65536):x}" for _ in range(4))
            return "C", f"{self._random.choice(self._six)}:{interface}", False
        name = "A" if kind < 7 else "B"
        return name, self._random.choice(self._four[name]), kind % 2 == 0


def many(driver: EbpfDriver, server: Server, count: int) -> dict[str, Any]:
    """Every connection's socket and records against the draw in user space."""
    untouched = settings(connected := server.connect("127.9.0.1")[1])
    connected.close()
    wrong, kinds, arms = Counter[str](), Counter[str](), defaultdict[tuple[int, str, int], set[int | None]](set)
    held_units = defaultdict[int, set[bool]](set)
    wanted: dict[int, tuple[str, int, int | None, str]] = {}
    opened: dict[int, OpenRecord] = {}
    closed: dict[int, CloseRecord] = {}
    clients = Clients(5)

    def drain() -> None:
        for record in driver.records():
            if isinstance(record, CloseRecord):
                closed[record.opened.cookie or 0] = record
            else:
                opened[record.cookie or 0] = record

    for number in range(count):
        in_force = plan(100 + number * 4 // count, 6554 if number >= count // 2 else 0)
        if number % (count // 4) == 0:
            put(driver, in_force)
        name, address, mapped = clients.next()
        client, served = server.connect(address, mapped)
        drawn, unit = draw(in_force, MIXES[name], unit_of(address)), unit_of(address)
        arms[in_force.epoch, name, unit].add(drawn.arm)
        held_units[unit].add(drawn.held) if in_force.holdback else None
        kinds["IPv6" if ":" in address else "mapped" if mapped else "IPv4"] += 1
        wrong["socket"] += settings(served) != expected(drawn.arm, untouched)
        cookie = struct.unpack("=Q", served.getsockopt(socket.SOL_SOCKET, 57, 8))[0]
        cut = ip_network(f"{address}/{48 if ':' in address else 24}", strict=False)
        wanted[cookie] = name, in_force.epoch, drawn.arm, str(cut)
        share = propensity(in_force, MIXES[name], drawn.arm)
        wrong["propensity"] += share != drawn.propensity
        client.setsockopt(*ABORT)
        client.close()
        served.close()
        if number % 1000 == 0:
            drain()
    time.sleep(0.2)
    drain()
    for cookie, (name, epoch, arm, prefix) in wanted.items():
        found = opened.get(cookie)
        mine = found and (found.class_name, found.epoch, found.arm, found.prefix)
        wrong["open record"] += mine != (name, epoch, arm, prefix)
        wrong["close record"] += cookie not in closed or closed[cookie].opened != found
        wrong["profile"] += found is None or found.profile != ("" if arm is None else MIXES[name].profiles[arm])
    return {
        "connections": count, "kinds": kinds, "wrong": wrong, "lost": driver.lost_records(),
        "records": [len(opened), len(closed)], "units": len(arms),
        "units with two arms": sum(len(found) > 1 for found in arms.values()),
        "held": sum(True in found for found in held_units.values()),
        "held and not": sum(len(found) > 1 for found in held_units.values()),
        "without rtt": sum(record.rtt_us is None for record in opened.values()),
        "start before end": sum(0 < one.opened.start_ns <= one.end_ns for one in closed.values()),
    }  # fmt: skip
