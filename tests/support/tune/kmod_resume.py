# SPDX-License-Identifier: MIT
"""Inside a guest: connections that resume a learned window, on scripted paths, sampled each millisecond; prints JSON.

    python3 -m tests.support.tune.kmod_resume configtron.ko paths|ways

A path: half of the round trip, then a rate with a buffer before it. The buffer is the qdisc within netem, so the sender
does not hear of what is dropped there. The server sends at once; its socket is sampled from TCP_INFO, so phases show:
`max_pacing_rate` is finite while the jump is not validated.

`ways`: connections that begin or go on in other ways than most. IPv6, v4-mapped addresses, SYN cookies, TCP Fast Open;
marks of congestion (ECN) within the jump; an application that is idle in the middle of the jump.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, NamedTuple

from configtron.lab.internet.links import sysctl
from configtron.tune.drivers.kmod.abi import FLAGS
from configtron.tune.drivers.kmod.device import Device
from tests.support.tune import kmod_net
from tests.support.waiting import until

Samples = list[list[float]]
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
RIGHT = PATHS["right"]


def link(path: Path) -> None:
    kmod_net.tc("s", "replace", f"vs root handle 1: netem {DELAY}")
    kmod_net.tc(
        "s", "replace", f"vs parent 1:1 handle 10: tbf rate {path.rate}mbit burst 3100 limit {path.buffer * 1514}"
    )


def lose(words: str) -> None:
    kmod_net.tc("s", "change", f"vs root handle 1: netem {DELAY} {words}")


def sample(one: socket.socket, at: float) -> list[float]:
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    return [at, *(struct.unpack_from("=" + code, info, offset)[0] for offset, code in FIELDS.values())]


def is_jump(row: list[float]) -> bool:
    return row[NAMES.index("max_rate")] < 1 << 62


def transfer(
    client: socket.socket, served: socket.socket, path: Path, trouble: str = "loss 100%", after_s: float = 0.02
) -> Samples:
    """A row of `NAMES` each millisecond in which it differs from the last; trouble so long after the jump began."""
    began, rows, left = time.monotonic(), Samples(), path.size
    client.setblocking(False)
    served.setblocking(False)
    assert served.send(bytes(path.size)) == path.size
    begin_at = end_at = float("inf")
    while left and (now := time.monotonic() - began) < LIMIT_S:
        row = sample(served, round(now, 6))
        if not rows or row[1:] != rows[-1][1:]:
            rows.append(row)
        if path.dropped_s and begin_at == float("inf") and is_jump(row):
            begin_at, end_at = now + after_s, now + after_s + path.dropped_s
        if begin_at <= now < end_at:
            lose(trouble)
            begin_at = LIMIT_S
        elif now >= end_at:
            lose("loss 0%")
            end_at = LIMIT_S
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
    records: list[dict[str, Any]] = []

    def closed() -> bool:
        records.extend(one for one in kmod.records() if not int(str(one["flags"])) & FLAGS["RECORD_LEFT"])
        return bool(records)

    until(closed, lambda: "no close record")
    record = records[0]
    names = ("resumed", "validated", "retreated")
    return {**{name: int(bool(record["flags"] & FLAGS[f"RECORD_{name.upper()}"])) for name in names},
            "max_cwnd": record["max_cwnd"], "retrans": record["retrans"]}  # fmt: skip


def spacing(wire: kmod_net.Wire, rows: Samples) -> dict[str, float]:
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


def runs(kmod: Device, at: socket.socket, wire: kmod_net.Wire) -> dict[str, Any]:
    found = {}
    for number, (name, path) in enumerate(PATHS.items()):
        kmod_net.profile(kmod, (f"10.{number}.0.0/24",), **path.settings)
        link(path)
        client, served = kmod_net.connected(at, f"10.{number}.0.1", kmod_net.PORT4)
        wire.data()
        rows = transfer(client, served, path)
        found[name] = {"rows": rows, "wire": spacing(wire, rows), "record": ended(kmod, served, client)}
    return found


def jumps(client: socket.socket, served: socket.socket) -> bool:
    return any(map(is_jump, transfer(client, served, RIGHT)))


def together(kmod: Device, at: socket.socket) -> dict[str, Any]:
    """Two connections of one client that overlap, a third of another in its prefix, a fourth after all have ended."""
    kmod_net.profile(kmod, ("10.100.0.0/24",), **RIGHT.settings)
    link(RIGHT)
    pairs = {
        name: kmod_net.connected(at, f"10.100.0.{host}", kmod_net.PORT4)
        for name, host in (("first", 1), ("second", 1), ("other", 2))
    }
    jumped = {name: jumps(*pair) for name, pair in pairs.items()}
    for client, served in pairs.values():
        ended(kmod, served, client)
    pair = kmod_net.connected(at, "10.100.0.1", kmod_net.PORT4)
    jumped["afterwards"] = jumps(*pair)
    ended(kmod, *reversed(pair))
    return jumped


def outlasted(kmod: Device, at: socket.socket) -> dict[str, bool]:
    """A connection longer than its claim to the window, a second that has the claim after it, and a third."""
    kmod_net.profile(kmod, ("10.102.0.0/24",), **RIGHT.settings)
    pairs, jumped = {}, {}
    for name in ("first", "second", "third"):
        pairs[name] = kmod_net.connected(at, "10.102.0.1", kmod_net.PORT4)
        jumped[name] = jumps(*pairs[name])
        if name == "first":
            time.sleep(HOLD_S + 1)
        if name == "second":
            ended(kmod, *reversed(pairs["first"]))
    for name in ("second", "third"):
        ended(kmod, *reversed(pairs[name]))
    return jumped


def rate_of(served: socket.socket) -> float:
    return sample(served, 0)[NAMES.index("max_rate")]


def in_jump(kmod: Device, at: socket.socket, net: int) -> tuple[socket.socket, socket.socket, dict[str, float]]:
    """A connection with a pacing rate of its own that jumps now, and its rate before and in the jump."""
    kmod_net.profile(kmod, (f"10.{net}.0.0/24",), **RIGHT.settings)
    client, served = kmod_net.connected(at, f"10.{net}.0.1", kmod_net.PORT4)
    set_rate(served, 40_000_000)
    served.setblocking(False)
    served.send(bytes(RIGHT.size))
    before = rate_of(served)
    until(lambda: rate_of(served) != before)
    return client, served, {"before": before, "within": rate_of(served)}


def set_rate(served: socket.socket, rate: int) -> None:
    served.setsockopt(socket.SOL_SOCKET, 47, struct.pack("=Q", rate))  # SO_MAX_PACING_RATE


def moved(kmod: Device, at: socket.socket) -> dict[str, float]:
    """A connection that leaves its profile in the middle of the jump has the rate that it had before."""
    _client, served, rates = in_jump(kmod, at, 101)
    kmod.assign(served.fileno(), 0)
    return {**rates, "after": rate_of(served)}


def own_rate(kmod: Device, at: socket.socket) -> dict[str, float]:
    """A program sets the socket's pacing rate in the middle of the jump."""
    client, served, rates = in_jump(kmod, at, 103)
    set_rate(served, 30_000_000)
    client.recv(RIGHT.size, socket.MSG_WAITALL)
    rates["after"] = rate_of(served)
    ended(kmod, served, client)
    return rates


def paths(kmod: Device) -> dict[str, Any]:
    at, wire = kmod_net.listener(kmod_net.PORT4), kmod_net.Wire()
    found = {"names": NAMES, "runs": runs(kmod, at, wire), "together": together(kmod, at)}
    return found | {"outlasted": outlasted(kmod, at), "moved": moved(kmod, at), "own rate": own_rate(kmod, at)}


def ways(kmod: Device) -> dict[str, Any]:
    # The kernel looks at new carriers once a second; until then IPv6 has no route to the other end.
    time.sleep(CARRIER_S)
    four, six = kmod_net.listener(kmod_net.PORT4), kmod_net.listener(kmod_net.PORT6)
    return {"ways": begun(kmod, four, six), "marked": marked(kmod, four), "idle": idle(kmod, four)}


CWND, STATE = NAMES.index("cwnd"), NAMES.index("state")
# TCP_CA_CWR: the window is being reduced after a mark.
CWR = 2
# Place of the options in struct tcp_info; TCPI_OPT_SYN_DATA.
OPTIONS, SYN_DATA = 5, 32
# A first part that lets the connection jump, and how long nothing follows: some timeouts of 0.3 s.
PART, IDLE_S = 60_000, 2.0
# s of the guest.
CARRIER_S = 2.0


def summary(rows: Samples, record: dict[str, int]) -> dict[str, Any]:
    """What a transfer came to."""
    return {"window": max((int(row[CWND]) for row in rows if is_jump(row)), default=0),
            "paced at the end": is_jump(rows[-1]), "reduced": any(row[STATE] == CWR for row in rows),
            **record}  # fmt: skip


def begun(kmod: Device, four: socket.socket, six: socket.socket) -> dict[str, Any]:
    """Connections that begin in each way; the profile is for all of them."""
    found: dict[str, Any] = {}
    link(RIGHT)
    kmod_net.profile(kmod, ("10.0.0.0/8", "fd00::/8"), **RIGHT.settings)
    for name, at, source, cookies, stamps in (
        ("IPv4", four, "10.1.0.1", "1", "1"), ("IPv6", six, "fd00:1::1", "1", "1"),
        ("mapped", six, "10.2.0.1", "1", "1"), ("cookie", four, "10.4.0.1", "2", "1"),
        ("cookie without timestamps", four, "10.3.0.1", "2", "0"), ("fast open", four, "10.5.0.1", "1", "1"),
    ):  # fmt: skip
        sysctl("s", [("net/ipv4/tcp_syncookies", cookies), ("net/ipv4/tcp_timestamps", stamps)])
        client, served = kmod_net.connected(
            at, source, kmod_net.PORT4 if at is four else kmod_net.PORT6, name == "fast open"
        )
        rows = transfer(client, served, RIGHT)
        options = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[OPTIONS]
        found[name] = summary(rows, ended(kmod, served, client)) | {"data in SYN": bool(options & SYN_DATA)}
    return found


def marked(kmod: Device, at: socket.socket) -> dict[str, Any]:
    """A router that marks all packets, as soon as the jump has begun; and one that never does."""
    found: dict[str, Any] = {}
    for name in ("s", "c"):
        sysctl(name, [("net/ipv4/tcp_ecn", "1")])
    kmod_net.profile(kmod, ("10.0.0.0/8",), **RIGHT.settings)
    for net, name, marked_s in ((20, "ECN", 0.0), (21, "ECN marked", 0.02)):
        link(RIGHT)
        ends = kmod_net.connected(at, f"10.{net}.0.1", kmod_net.PORT4)
        rows = transfer(*ends, RIGHT._replace(dropped_s=marked_s), "ecn loss 100%", 0.0)
        found[name] = summary(rows, ended(kmod, *reversed(ends)))
    for name in ("s", "c"):
        sysctl(name, [("net/ipv4/tcp_ecn", "2")])
    return found


def idle(kmod: Device, at: socket.socket) -> dict[str, Any]:
    """An application that stops when the jump has begun, and goes on much later."""
    link(RIGHT)
    kmod_net.profile(kmod, ("10.0.0.0/8",), **RIGHT.settings)
    client, served = kmod_net.connected(at, "10.30.0.1", kmod_net.PORT4)
    first = transfer(client, served, RIGHT._replace(size=PART))
    at_stop = sample(served, 0.0)
    time.sleep(IDLE_S)
    rows = transfer(client, served, RIGHT)
    after = max(int(row[CWND]) for row in rows[:20])
    return {**summary(first + rows, ended(kmod, served, client)), "jumped": any(map(is_jump, first)),
            "paced when idle": is_jump(at_stop), "window after": after,
            "paced after": any(map(is_jump, rows))}  # fmt: skip


def play(name: str) -> dict[str, Any]:
    with kmod_net.device() as kmod:
        kmod_net.switch_on(kmod)
        kmod.begin_records(4096)
        return {"paths": paths, "ways": ways}[name](kmod)


if __name__ == "__main__":
    kmod_net.program(play)
