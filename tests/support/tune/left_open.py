# SPDX-License-Identifier: MIT
"""A connection that lives while the rules of the driver `ebpf` go: what its socket says before and after. JSON.

Run it apart (tests/support/isolation.py).
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Rules
from configtron.tune.drivers.bpf import pins
from configtron.tune.drivers.open_connections import Leaving
from configtron.tune.rules import difference
from tests.support.tune.left import GROUP, PLACE, placed
from tests.support.tune.sockets import connect

MEGABYTE = 1 << 20


def seen(end: socket.socket, other: socket.socket) -> list[Any]:
    """Congestion control, window after a megabyte, notsent_lowat, priority."""
    other.settimeout(10)
    end.setblocking(False)
    left, unsent = MEGABYTE, MEGABYTE
    while left:
        if unsent:
            try:
                unsent -= end.send(bytes(min(unsent, 65536)))
            except BlockingIOError:
                pass
        left -= len(other.recv(1 << 20))
    control = end.getsockopt(6, 13, 16).split(b"\0")[0].decode()
    (window,) = struct.unpack_from("=I", end.getsockopt(6, 11, 112), 80)
    return [control, window, end.getsockopt(6, 25), end.getsockopt(1, 12)]


def main() -> None:
    found: dict[str, Any] = {}
    web: tuple[tuple[str, Value], ...] = (
        ("cwnd_clamp", 2), ("initcwnd", 2), ("min_rto", 0.1), ("notsent_lowat", 7000), ("priority", 3),
        ("tcp_congestion_control", "reno"),
    )  # fmt: skip
    with placed() as (driver, before):
        home = Path("/proc/self/cgroup").read_text().strip().rpartition("::/")[2]
        groups = pins.mounts("cgroup2")[0]
        (groups / GROUP / "cgroup.procs").write_text("0")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        listener = socket.create_server(("127.0.0.1", 8080))
        for name, settings in (("under", web), ("paced", (("max_pacing_rate", 50_000_000),))):
            rules = Rules({"web": Profile("web", settings)}, {"127.1.0.0/16": "web"})
            driver.apply(difference(Rules(), rules))
            ours, stranger = connect("127.1.0.1"), None
            theirs = listener.accept()[0]
            if name == "under":
                stranger = connect("127.2.0.1")
                others = listener.accept()[0]
                found["under"], found["other"] = seen(theirs, ours), others.getsockopt(6, 13, 16).decode()
            leaving = Leaving(driver, PLACE, rules)
            leaving.before()
            driver.revert(before)
            done = leaving.after(Rules())
            counts = [done.connections, done.restored, dict(done.left)]
            if name == "under":
                found |= {"after": seen(theirs, ours), "restored": counts, "other after": others.getsockopt(6, 13,
                          16).decode()}  # fmt: skip
            else:
                found["paced"] = counts
            for end in (ours, theirs, stranger):
                if end is not None:
                    end.close()
        listener.close()
        (groups / home / "cgroup.procs").write_text("0")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
