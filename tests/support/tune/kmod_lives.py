# SPDX-License-Identifier: MIT
"""Inside a guest: connections with something done to them, namespaces, churn, the end of the module; prints JSON.

python3 -m tests.support.tune.kmod_lives configtron.ko
"""

from __future__ import annotations

import ctypes
import json
import random
import select
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from configtron.linux.netns import inside
from configtron.tune.drivers.kmod.abi import FLAGS, KEY_OF
from configtron.tune.drivers.kmod.device import Device
from configtron.tune.drivers.kmod.kmod_driver import CONTROL
from configtron.tune.drivers.kmod.module_units import packed
from tests.support.tune.kmod_net import (
    PORT4,
    complaints,
    connected,
    control,
    default,
    device,
    drained,
    failure,
    hosts,
    listener,
    load,
    profile,
    switch_on,
    unload,
    window,
)

CHURN = 1500
LOADS = 100


def lives(opened: Device, at: socket.socket) -> dict[str, Any]:
    """One connection after another, each with something done to it on its way."""
    a = profile(opened, ("10.3.0.0/16",), tcp_congestion_control="bbr", initcwnd=40)
    b = profile(opened, ("10.4.0.0/16",), tcp_congestion_control="vegas", initcwnd=4)
    found: dict[str, Any] = {}
    client, served = connected(at, "10.3.0.1", PORT4)
    found["by prefix"] = [control(served), window(served)]
    opened.set_settings(a, {KEY_OF["tcp_congestion_control"]: "reno"})
    _, later = connected(at, "10.3.0.2", PORT4)
    found["older version lives"] = [control(served), control(later)]
    opened.assign(served.fileno(), b)
    found["assigned"] = [control(served), opened.of_socket(served.fileno())[0] == b]
    opened.assign(served.fileno(), 0)
    found["given back"] = [control(served), opened.of_socket(served.fileno())[0]]
    served.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    found["application chose"] = [control(served), opened.of_socket(served.fileno())[0]]
    served.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONTROL.encode())
    found["application chose us"] = [control(served), opened.of_socket(served.fileno())[0] == a]
    found["listener"] = failure(lambda: opened.assign(at.fileno(), a))
    with inside("s"), socket.socket() as chosen:
        chosen.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        chosen.bind(("", 7000))
        chosen.listen()
        _, bypassed = connected(chosen, "10.4.0.3", 7000)
        found["listener of its own"] = [control(bypassed), opened.of_socket(bypassed.fileno())[0]]
    opened.set_options(0, 0, "cubic")
    _, off = connected(at, "10.4.0.4", PORT4)
    Path("/sys/module/configtron/parameters/enabled").write_text("0")
    opened.set_options(FLAGS["ENABLED"], 0, "reno")
    _, dark = connected(at, "10.4.0.5", PORT4)
    Path("/sys/module/configtron/parameters/enabled").write_text("1")
    opened.set_options(FLAGS["ENABLED"], b, "reno")
    _, on = connected(at, "10.99.0.1", PORT4)
    found["switches"] = [control(one) for one in (off, dark, on)]
    opened.set_options(FLAGS["ENABLED"], 0, "cubic")
    found["actives"] = [_active(opened, 0, b), _active(opened, FLAGS["ACTIVE_OPENS"], b)]
    found["reconnected"] = _reconnected(opened, at)
    opened.set_options(FLAGS["ENABLED"], 0, "cubic")
    return found


def _active(opened: Device, flag: int, b: int) -> list[object]:
    """The server's side as a client: of a listener in the other namespace."""
    opened.set_options(FLAGS["ENABLED"] | flag, 0, "cubic")
    opened.set_prefixes(packed({"192.0.2.2/32": b}))
    with inside("c"), socket.socket() as far:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        far.bind(("192.0.2.2", 7001))
        far.listen()
        with inside("s"):
            one = socket.socket()
        one.connect(("192.0.2.2", 7001))
        with one, far.accept()[0]:
            return [control(one), opened.of_socket(one.fileno())[0] == b]


def _reconnected(opened: Device, at: socket.socket) -> list[int]:
    """connect(AF_UNSPEC) ends a connection without closing its socket; a second close must not count twice."""
    made = profile(opened, ("10.6.0.0/16",), initcwnd=20)
    client, served = connected(at, "10.6.0.9", PORT4)
    nowhere = struct.pack("=H14x", socket.AF_UNSPEC)
    assert ctypes.CDLL(None).connect(served.fileno(), nowhere, len(nowhere)) == 0
    now = opened.stats(made)
    served.close()
    client.close()
    after = opened.stats(made)
    return [now["opened"], now["closed"], after["opened"], after["closed"]]


def namespaces(opened: Device) -> dict[str, Any]:
    """Tables of one namespace are not another's, and go with it."""
    subprocess.run(["ip", "netns", "add", "other"], check=True)
    with device("other") as other:
        mine = profile(other, ("10.0.0.0/8", "fd00::/8"), initcwnd=20)
        found: dict[str, Any] = {
            "apart": [
                len(other.dump()),
                len(opened.dump().keys() & other.dump().keys()),
                other.profiles() == {mine: "p"},
            ],
            "inherited": other.options()[2],
        }
        with inside("s"), socket.socket() as stranger:
            found["stranger"] = failure(lambda: other.assign(stranger.fileno(), mine))
    subprocess.run(["ip", "netns", "del", "other"], check=True)
    return found


def generation(opened: Device) -> dict[str, Any]:
    """A watcher sees a change by any process, without reading the tables."""
    with device() as watcher:
        watcher.status()
        poll = select.poll()
        poll.register(watcher.fileno(), select.POLLPRI)
        quiet = poll.poll(0)
        made = opened.new_profile("seen")
        seen = poll.poll(0)
        watcher.status()
        calm = poll.poll(0)
        opened.delete_profile(made)
    return {"seen": [len(quiet), len(seen), len(calm)]}


def churn(opened: Device, at: socket.socket) -> dict[str, Any]:
    """Connections while profiles, prefixes and sockets change under them; then every counter balances."""
    chance = random.Random(7)
    made = [profile(opened, (f"10.{20 + i}.0.0/16",), initcwnd=10 + i) for i in range(8)]
    kept: list[socket.socket] = []
    for _ in range(CHURN):
        client, served = connected(at, f"10.{chance.randrange(20, 40)}.0.{chance.randrange(1, 250)}", PORT4)
        kept += (client, served)
        with suppress(OSError):
            _disturb(opened, served, made, chance)
        if len(kept) > 200:
            for one in kept:
                one.close()
            kept.clear()
    for one in kept:
        one.close()
    opened.flush()
    return {"profiles": made}


def _disturb(opened: Device, served: socket.socket, made: list[int], chance: random.Random) -> None:
    which, some = chance.randrange(8), chance.choice(made)
    if which == 0:
        opened.assign(served.fileno(), chance.choice([0, some]))
    elif which == 1:
        served.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, chance.choice([b"reno", b"bbr", CONTROL.encode()]))
    elif which == 2:
        opened.set_settings(
            some, {KEY_OF["initcwnd"]: chance.randrange(1, 40), KEY_OF["tcp_congestion_control"]: "bbr"}
        )
    elif which == 3:
        opened.set_prefixes(packed({f"10.{chance.randrange(20, 40)}.0.0/{chance.choice((16, 24))}": some}))
    elif which == 4:
        opened.delete_prefixes(packed({f"10.{chance.randrange(20, 40)}.0.0/16": 0}))
    elif which == 5:
        opened.new_profile("more")
        opened.delete_profile(max(opened.profiles()))
    else:
        served.send(bytes(chance.randrange(1, 100_000)), socket.MSG_DONTWAIT)


def main(module: str) -> None:
    load(module)
    found: dict[str, Any] = {}
    with hosts():
        with device() as opened:
            switch_on(opened)
            at = listener(PORT4)
            found |= {"lives": lives(opened, at), "generation": generation(opened)}
            found |= {"namespaces": namespaces(opened), "churn": churn(opened, at), "busy": unload()}
            at.close()
            default("cubic")
            subprocess.run(["sleep", "120"], check=True)
            stats = [opened.stats(one) for one in opened.profiles()]
            found["balance"] = [[one["opened"], one["closed"]] for one in stats]
            # one for each of the namespaces (the first, s, c), one for each profile
            found["versions"] = opened.status()["versions"] - 3 - len(opened.profiles())
    found["unload"] = drained()
    for _ in range(LOADS):
        load(module)
        assert unload() == 0
    found["complaints"] = complaints()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
