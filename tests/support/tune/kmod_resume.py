# SPDX-License-Identifier: MIT
"""Inside a guest: connections that resume a learned window, on scripted paths, sampled each millisecond; prints JSON.

python3 -m tests.support.tune.kmod_resume configtron.ko

A path: half of the round trip, then a rate with a buffer before it. The buffer is the qdisc within netem, so the sender
does not hear of what is dropped there. The server sends at once; its socket is sampled from TCP_INFO, so phases show:
`max_pacing_rate` is finite while the jump is not validated.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from contextlib import closing
from typing import Any, NamedTuple

from configtron.tune.drivers.kmod.abi import FLAGS
from configtron.tune.drivers.kmod.device import Device
from tests.support.tune.kmod_net import (
    PORT4,
    Wire,
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

STEP_S = 0.001
LIMIT_S = 30.0
# As CT_CLIENT_HOLD of kmod/resume.c.
HOLD_S = 60
DELAY = "delay 50ms limit 100000"
# name and offset in struct tcp_info
FIELDS = {
    "state": (1, "B"), "unacked": (24, "I"), "sacked": (28, "I"), "lost": (32, "I"), "retrans": (36, "I"),
    "rtt": (68, "I"), "ssthresh": (76, "I"), "cwnd": (80, "I"), "total_retrans": (100, "I"), "max_rate": (112, "Q"),
    "acked": (120, "Q"), "notsent": (144, "I"), "min_rtt": (148, "I"), "delivered": (192, "I"),
}  # fmt: skip
NAMES = ("at", *FIELDS)
SEGMENT = 1448


class Path(NamedTuple):
    """rate in Mbit/s, buffer in packets, bytes to send, what the profile sets, how long everything is dropped."""

    rate: int
    buffer: int
    size: int
    settings: dict[str, int | str]
    dropped_s: float = 0.0


def careful(window: int, rtt_us: int = 100_000, **more: int | str) -> dict[str, int | str]:
    return {"tcp_congestion_control": "cubic", "resume_cwnd": window, "resume_rtt": rtt_us, **more}


PATHS = {
    "never": Path(50, 1000, 1_500_000, {"tcp_congestion_control": "cubic"}),
    "right": Path(50, 1000, 1_500_000, careful(400)),
    "right reno": Path(50, 1000, 1_500_000, careful(400, tcp_congestion_control="reno")),
    "right vegas": Path(50, 1000, 1_500_000, careful(400, tcp_congestion_control="vegas")),
    "ten times": Path(5, 43, 1_500_000, careful(430)),
    "lossy": Path(50, 1000, 1_500_000, careful(400), dropped_s=0.004),
    "silent": Path(50, 1000, 1_500_000, careful(400), dropped_s=0.4),
    "nearer": Path(50, 1000, 600_000, careful(400, 210_000)),
    "farther": Path(50, 1000, 600_000, careful(400, 9_900)),
    "clamped": Path(50, 1000, 600_000, careful(400, cwnd_clamp=60)),
    "small": Path(50, 1000, 12_000, careful(400)),
    "little": Path(50, 1000, 60_000, careful(400)),
}


def link(path: Path) -> None:
    tc("s", "replace", f"vs root handle 1: netem {DELAY}")
    tc("s", "replace", f"vs parent 1:1 handle 10: tbf rate {path.rate}mbit burst 3100 limit {path.buffer * 1514}")


def lose(words: str) -> None:
    tc("s", "change", f"vs root handle 1: netem {DELAY} {words}")


def sample(one: socket.socket, at: float) -> list[float]:
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    return [at, *(struct.unpack_from("=" + code, info, offset)[0] for offset, code in FIELDS.values())]


def is_jump(row: list[float]) -> bool:
    return row[NAMES.index("max_rate")] < 1 << 62


def transfer(client: socket.socket, served: socket.socket, path: Path) -> list[list[float]]:
    """A row of `NAMES` each millisecond in which it differs from the last."""
    began, rows, left = time.monotonic(), [], path.size
    client.setblocking(False)
    served.setblocking(False)
    assert served.send(bytes(path.size)) == path.size
    drop_at = drop_end = float("inf")
    while left and (now := time.monotonic() - began) < LIMIT_S:
        row = sample(served, round(now, 6))
        if not rows or row[1:] != rows[-1][1:]:
            rows.append(row)
        if path.dropped_s and drop_at == float("inf") and is_jump(row):
            drop_at, drop_end = now + 0.02, now + 0.02 + path.dropped_s
        if drop_at <= now < drop_end:
            lose("loss 100%")
            drop_at = LIMIT_S
        elif now >= drop_end:
            lose("loss 0%")
            drop_end = LIMIT_S
        try:
            while got := len(client.recv(1 << 20)):
                left -= got
        except BlockingIOError:
            pass
        time.sleep(STEP_S)
    rows.append(sample(served, round(time.monotonic() - began, 6)))
    return rows


def ended(kmod: Device, *ends: socket.socket) -> dict[str, int]:
    """Close both ends and return what the close record says."""
    for one in ends:
        one.close()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for record in kmod.records():
            flags = record["flags"]
            assert isinstance(flags, int)
            if not flags & FLAGS["RECORD_LEFT"]:
                names = {name: int(bool(flags & FLAGS[f"RECORD_{name.upper()}"]))
                         for name in ("resumed", "validated", "retreated")}  # fmt: skip
                counted = {name: int(record[name]) for name in ("max_cwnd", "segs_in", "segs_out", "retrans")}
                return {**names, **counted}
        time.sleep(0.1)
    raise AssertionError("no close record")


def spacing(wire: Wire, rows: list[list[float]]) -> dict[str, float]:
    """Of the jump's packets as they reach the client: how many, and the most of them within a tenth of a round trip."""
    seen = wire.data()
    jumps = [row[0] for row in rows if is_jump(row)]
    if not jumps:
        return {}
    first = seen[0].at_s
    times = [one.at_s - first for one in seen]
    inside = [at for at in times if jumps[0] + 0.002 < at <= jumps[-1]]
    most = max(sum(at <= other < at + 0.01 for other in inside) for at in inside)
    return {"packets": len(inside), "most in 10 ms": most}


def runs(kmod: Device, at: socket.socket, wire: Wire) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, (name, path) in enumerate(PATHS.items()):
        profile(kmod, (f"10.{number}.0.0/24",), **path.settings)
        link(path)
        client, served = connected(at, f"10.{number}.0.1", PORT4)
        wire.data()
        rows = transfer(client, served, path)
        found[name] = {"rows": rows, "wire": spacing(wire, rows), "record": ended(kmod, served, client)}
    return found


def together(kmod: Device, at: socket.socket) -> dict[str, Any]:
    """Two connections of one client that overlap, a third of another in its prefix, a fourth after all have ended."""
    path = PATHS["right"]
    profile(kmod, ("10.100.0.0/24",), **path.settings)
    link(path)
    pairs = {
        name: connected(at, f"10.100.0.{host}", PORT4) for name, host in (("first", 1), ("second", 1), ("other", 2))
    }
    jumped = {name: any(map(is_jump, transfer(*pair, path))) for name, pair in pairs.items()}
    for client, served in pairs.values():
        ended(kmod, served, client)
    pair = connected(at, "10.100.0.1", PORT4)
    jumped["afterwards"] = any(map(is_jump, transfer(*pair, path)))
    ended(kmod, *reversed(pair))
    return jumped


def outlasted(kmod: Device, at: socket.socket) -> dict[str, bool]:
    """A connection longer than its claim to the window, a second that has the claim after it, and a third."""
    path = PATHS["right"]
    profile(kmod, ("10.102.0.0/24",), **path.settings)
    pairs, jumped = {}, {}
    for name in ("first", "second", "third"):
        pairs[name] = connected(at, "10.102.0.1", PORT4)
        jumped[name] = any(map(is_jump, transfer(*pairs[name], path)))
        if name == "first":
            time.sleep(HOLD_S + 1)
        if name == "second":
            ended(kmod, *reversed(pairs["first"]))
    for name in ("second", "third"):
        ended(kmod, *reversed(pairs[name]))
    return jumped


def rate_of(served: socket.socket) -> float:
    return sample(served, 0)[NAMES.index("max_rate")]


def in_jump(at: socket.socket, address: str, path: Path) -> tuple[socket.socket, socket.socket, dict[str, float]]:
    """A connection with a pacing rate of its own that jumps now, and its rate before and in the jump."""
    client, served = connected(at, address, PORT4)
    set_rate(served, 40_000_000)
    served.setblocking(False)
    served.send(bytes(path.size))
    before = within = rate_of(served)
    until = time.monotonic() + 5
    while within == before and time.monotonic() < until:
        time.sleep(STEP_S)
        within = rate_of(served)
    return client, served, {"before": before, "within": within}


def set_rate(served: socket.socket, rate: int) -> None:
    served.setsockopt(socket.SOL_SOCKET, 47, struct.pack("=Q", rate))  # SO_MAX_PACING_RATE


def moved(kmod: Device, at: socket.socket) -> dict[str, float]:
    """A connection that leaves its profile in the middle of the jump has the rate that it had before."""
    path = PATHS["right"]
    profile(kmod, ("10.101.0.0/24",), **path.settings)
    client, served, rates = in_jump(at, "10.101.0.1", path)
    kmod.assign(served.fileno(), 0)
    rates["after"] = rate_of(served)
    for one in (client, served):
        one.close()
    return rates


def own_rate(kmod: Device, at: socket.socket) -> dict[str, float]:
    """A program sets the socket's pacing rate in the middle of the jump."""
    path = PATHS["right"]
    profile(kmod, ("10.103.0.0/24",), **path.settings)
    client, served, rates = in_jump(at, "10.103.0.1", path)
    set_rate(served, 30_000_000)
    left = path.size
    while left:
        left -= len(client.recv(1 << 20))
    rates["after"] = rate_of(served)
    ended(kmod, served, client)
    return rates


def main(module: str) -> None:
    found: dict[str, Any] = {"names": NAMES}
    with hosts():
        load(module)
        with device() as kmod, closing(listener(PORT4)) as at, closing(Wire().socket) as _:
            switch_on(kmod)
            kmod.begin_records(4096)
            found["runs"] = runs(kmod, at, Wire())
            found["together"] = together(kmod, at)
            found["outlasted"] = outlasted(kmod, at)
            found["moved"] = moved(kmod, at)
            found["own rate"] = own_rate(kmod, at)
            default("cubic")
    found["unload"] = drained()
    found["complaints"] = complaints()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
