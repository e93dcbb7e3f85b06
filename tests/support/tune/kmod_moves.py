# SPDX-License-Identifier: MIT
"""Inside a guest: the driver kmod moves connections that were open before it had rules; prints JSON.

python3 -m tests.support.tune.kmod_moves configtron.ko
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from typing import Any

from configtron.linux.netns import inside
from configtron.model.nouns import Profile, Value
from configtron.model.protocols import Mover
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.kmod.kmod_driver import KmodDriver
from tests.support.tune.kmod_net import (
    PORT4,
    PORT6,
    SERVER,
    complaints,
    connected,
    control,
    default,
    device,
    drained,
    hosts,
    listener,
    load,
)

# Who it is -> the client and the port it comes to.
CLIENTS = {
    "by prefix": ("10.1.0.9", PORT4), "by longer prefix": ("10.1.2.9", PORT4), "without a profile": ("10.9.0.9", PORT4),
    "IPv6": ("fd00::9", PORT6), "mapped": ("10.1.0.10", PORT6), "held back": ("10.2.0.9", PORT4),
    "of another process": ("10.1.0.11", PORT4), "ended": ("10.1.0.12", PORT4),
}  # fmt: skip


def named(name: str, **settings: Value) -> Profile:
    return Profile(name, tuple(settings.items()))


RULES = Changes(
    {
        "web": named("web", tcp_congestion_control="bbr", initcwnd=40, min_rto=0.05),
        "small": named("small", tcp_congestion_control="vegas"),
        "as it is": named("as it is"),
    },
    {"10.1.0.0/16": "web", "10.1.2.0/24": "small", "fd00::/16": "small", "10.2.0.0/16": "as it is",
     "192.0.2.2/32": "small"},
)  # fmt: skip


def passed_on(one: socket.socket) -> tuple[int, int]:
    """Give a connection to a process that does nothing else; (that process, what ends it)."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        for number in map(int, os.listdir("/proc/self/fd")):
            if number not in (one.fileno(), ours):
                with suppress(OSError):  # the listing's own
                    os.close(number)
        os.read(ours, 1)
        os._exit(0)
    os.close(ours)
    one.close()
    return child, theirs


def controls() -> dict[str, str]:
    """Client -> the congestion control of its connection, as the kernel reports all of them (sock_diag)."""
    opened = os.popen("ip netns exec s ss -tinHO state established").read()
    found = {}
    for name, (client, _) in CLIENTS.items():
        lines = [line.split() for line in opened.splitlines() if f"{client}:" in line or f"{client}]:" in line]
        found[name] = next((word for line in lines for word in line if word in ("bbr", "vegas", "cubic")), "")
    return found


def main(module: str) -> None:
    load(module)
    found: dict[str, Any] = {}
    with hosts():
        driver = KmodDriver(Place("s"))
        # IPv6 looks whether another host has its link's addresses
        time.sleep(3)
        before = driver.before()
        found["mover"], found["nothing in force"] = isinstance(driver, Mover), driver.move()
        at = {PORT4: listener(PORT4), PORT6: listener(PORT6)}
        ends = {name: connected(at[port], client, port) for name, (client, port) in CLIENTS.items()}
        child, stop = passed_on(ends["of another process"][1])
        for one in ends["ended"]:
            one.close()
        active, far = _opened_by_us()
        waiting = _unaccepted()
        time.sleep(1)
        driver.apply(RULES)
        found["untouched"] = controls()
        found["moved"], found["after"] = driver.move(), controls()
        found["our own"] = control(active)
        with device() as opened:
            (web,) = (number for number, name in opened.profiles().items() if name == "web")
            held, settings = opened.of_socket(ends["by prefix"][1].fileno())
            found["held"] = [held == web, settings[1] < 40, opened.stats(web)["opened"]]
            found["again"] = [driver.move(), opened.stats(web)["opened"]]
            driver.apply(Changes({"web": named("web")}))
            found["newer version"] = [driver.move(), control(ends["by prefix"][1]), opened.stats(web)["opened"]]
        driver.revert(before)
        os.close(stop)
        os.waitpid(child, 0)
        for one in (*(one for pair in ends.values() for one in pair), *at.values(), active, *far, *waiting):
            with suppress(OSError):
                one.close()
        default("cubic")
    found["unload"], found["complaints"] = drained(), complaints()
    print(json.dumps(found))


def _opened_by_us() -> tuple[socket.socket, list[socket.socket]]:
    """The server's side as a client: (its end, the others)."""
    with inside("c"):
        far = socket.create_server(("192.0.2.2", 7001))
    with inside("s"):
        one = socket.create_connection(("192.0.2.2", 7001))
    return one, [far, far.accept()[0]]


def _unaccepted() -> list[socket.socket]:
    """A connection that the server has not taken yet: no process holds it."""
    with inside("s"):
        at = socket.create_server((SERVER, 7002))
    with inside("c"):
        return [at, socket.create_connection((SERVER, 7002))]


if __name__ == "__main__":
    main(sys.argv[1])
