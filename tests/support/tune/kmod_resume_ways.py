# SPDX-License-Identifier: MIT
"""Inside a guest: Careful Resume on connections that begin or go on in other ways than most; prints JSON.

python3 -m tests.support.tune.kmod_resume_ways configtron.ko

IPv6, v4-mapped addresses, SYN cookies, TCP Fast Open; marks of congestion (ECN) within the jump; an application that is
idle in the middle of the jump. The path, the samples and the records are those of `kmod_resume`.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from contextlib import closing
from typing import Any

from configtron.lab.internet.links import sysctl
from configtron.tune.drivers.kmod.device import Device
from tests.support.tune.kmod_net import (
    PORT4,
    PORT6,
    complaints,
    connected,
    default,
    device,
    drained,
    hosts,
    listener,
    load,
    profile,
    switch_on,
    tc,
)
from tests.support.tune.kmod_resume import (
    DELAY,
    NAMES,
    STEP_S,
    Path,
    careful,
    ended,
    is_jump,
    link,
    sample,
    transfer,
)

RIGHT = Path(50, 1000, 1_500_000, careful(400))
CWND, STATE = NAMES.index("cwnd"), NAMES.index("state")
# TCP_CA_CWR: the window is being reduced after a mark.
CWR = 2
# Place of the options in struct tcp_info; TCPI_OPT_SYN_DATA.
OPTIONS, SYN_DATA = 5, 32
# A first part that lets the connection jump, and how long nothing follows: some timeouts of 0.3 s.
PART, IDLE_S = 60_000, 2.0
# s of the guest.
CARRIER_S = 2.0


def summary(rows: list[list[float]], record: dict[str, int]) -> dict[str, Any]:
    """What a transfer came to."""
    jumps = [row for row in rows if is_jump(row)]
    return {"jumps": len(jumps), "window": max((int(row[CWND]) for row in jumps), default=0),
            "seconds": rows[-1][0], "paced at the end": is_jump(rows[-1]),
            "reduced": any(row[STATE] == CWR for row in rows), **record}  # fmt: skip


def ways(kmod: Device) -> dict[str, Any]:
    """Connections that begin in each way; the profile is for all of them."""
    found: dict[str, Any] = {}
    link(RIGHT)
    profile(kmod, ("10.0.0.0/8", "fd00::/8"), **RIGHT.settings)
    with closing(listener(PORT4)) as four, closing(listener(PORT6)) as six:
        begins = (
            ("IPv4", four, "10.1.0.1", PORT4),
            ("IPv6", six, "fd00:1::1", PORT6),
            ("mapped", six, "10.2.0.1", PORT6),
        )
        for name, at, source, port in begins:
            client, served = connected(at, source, port)
            rows = transfer(client, served, RIGHT)
            found[name] = summary(rows, ended(kmod, served, client))
        for name, cookies, stamps in (("cookie", "2", "1"), ("cookie without timestamps", "2", "0")):
            sysctl("s", [("net/ipv4/tcp_syncookies", cookies), ("net/ipv4/tcp_timestamps", stamps)])
            client, served = connected(four, f"10.{3 + int(stamps)}.0.1", PORT4)
            rows = transfer(client, served, RIGHT)
            found[name] = summary(rows, ended(kmod, served, client))
        sysctl("s", [("net/ipv4/tcp_syncookies", "1"), ("net/ipv4/tcp_timestamps", "1")])
        client, served = connected(four, "10.5.0.1", PORT4, fast_open=True)
        rows = transfer(client, served, RIGHT)
        options = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[OPTIONS]
        record = ended(kmod, served, client)
        found["fast open"] = summary(rows, record) | {"data in SYN": bool(options & SYN_DATA)}
    return found


def marked(kmod: Device) -> dict[str, Any]:
    """A router that marks all packets, as soon as the jump has begun; and one that never does."""
    found: dict[str, Any] = {}
    for name in ("s", "c"):
        sysctl(name, [("net/ipv4/tcp_ecn", "1")])
    profile(kmod, ("10.0.0.0/8",), **RIGHT.settings)
    with closing(listener(PORT4)) as at:
        for turn, (name, words) in enumerate((("ECN", ""), ("ECN marked", " ecn loss 100%"))):
            link(RIGHT)
            client, served = connected(at, f"10.{20 + turn}.0.1", PORT4)
            rows = sampled(client, served, words)
            found[name] = summary(rows, ended(kmod, served, client))
    for name in ("s", "c"):
        sysctl(name, [("net/ipv4/tcp_ecn", "2")])
    return found


def sampled(client: socket.socket, served: socket.socket, words: str) -> list[list[float]]:
    """As `transfer`; within the jump netem marks what may be marked for some ms."""
    began, rows, left, mark_at = time.monotonic(), [], RIGHT.size, 0.0
    client.setblocking(False)
    served.setblocking(False)
    assert served.send(bytes(RIGHT.size)) == RIGHT.size
    while left and (now := time.monotonic() - began) < 30.0:
        row = sample(served, round(now, 6))
        if not rows or row[1:] != rows[-1][1:]:
            rows.append(row)
        if words and not mark_at and is_jump(row):
            mark_at = now
            tc("s", "change", f"vs root handle 1: netem {DELAY}{words}")
        if mark_at > 0 and now > mark_at + 0.02:
            mark_at = -1.0
            tc("s", "change", f"vs root handle 1: netem {DELAY} loss 0%")
        try:
            while got := len(client.recv(1 << 20)):
                left -= got
        except BlockingIOError:
            pass
        time.sleep(STEP_S)
    rows.append(sample(served, round(time.monotonic() - began, 6)))
    return rows


def idle(kmod: Device) -> dict[str, Any]:
    """An application that stops when the jump has begun, and goes on much later."""
    link(RIGHT)
    profile(kmod, ("10.0.0.0/8",), **RIGHT.settings)
    with closing(listener(PORT4)) as at:
        client, served = connected(at, "10.30.0.1", PORT4)
        first = transfer(client, served, RIGHT._replace(size=PART))
        jumped = any(map(is_jump, first))
        at_stop = sample(served, 0.0)
        time.sleep(IDLE_S)
        rows = transfer(client, served, RIGHT)
        record = ended(kmod, served, client)
    after = max(int(row[CWND]) for row in rows[:20])
    return {**summary(first + rows, record), "jumped": jumped, "paced when idle": is_jump(at_stop),
            "window after": after, "paced after": any(map(is_jump, rows))}  # fmt: skip


def main(module: str) -> None:
    found: dict[str, Any] = {}
    with hosts():
        # The kernel looks at new carriers once a second; until then IPv6 has no route to the other end.
        time.sleep(CARRIER_S)
        load(module)
        with device() as kmod:
            switch_on(kmod)
            kmod.begin_records(4096)
            found["ways"] = ways(kmod)
            found["marked"] = marked(kmod)
            found["idle"] = idle(kmod)
            default("cubic")
    found["unload"] = drained()
    found["complaints"] = complaints()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
