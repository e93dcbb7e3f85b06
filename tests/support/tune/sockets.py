# SPDX-License-Identifier: MIT
"""A server and its clients in a control group of their own; prints what the server's sockets say of themselves.

    sockets.py JOB.json     run it apart (tests/support/isolation.py), or in a guest

The job: profiles {name: {knob: value}}, prefixes {prefix: name}, default, clients [address, ...]; optional `after`, a
second set of rules that is applied and moved to while the clients are connected; `idle_s`, a pause after the first
data; `half_open`, addresses whose SYN is not followed by anything; `ways`, {way of `cross`: address}; `witness`, a
compiled program that reports what no option does; `everywhere`, the root of all control groups, which guests may touch.
The answer is JSON on standard output.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.tune.drivers.bpf import pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.drivers.bpf.reach import ticks_per_second
from configtron.tune.rules import difference
from tests.support.tune.left import GROUP, nothing_left

PORT = 8080
SERVER4, SERVER6 = "127.0.0.1", "::1"
# Offsets in struct tcp_info (linux/tcp.h).
INFO = {"rto_us": 8, "mss": 16, "rtt_us": 68, "snd_ssthresh": 76, "cwnd": 80}
RATES = {"pacing_rate": 104, "max_pacing_rate": 112}
OPTIONS = {
    "notsent_lowat": (6, 25), "window_clamp": (6, 10), "nodelay": (6, 1), "priority": (1, 12), "mark": (1, 36),
}  # fmt: skip
FREEBIND, V6_FREEBIND, ETH_P_IP = 15, 78, 0x0800
# TCPI_OPT_SYN_DATA in tcpi_options.
SYN_DATA = 32
# A link on which half-open clients live: addresses in 10.9.0.0/16, the server at the first.
HALF_OPEN_SERVER = "10.9.0.1"
# As `ss` prints it: timer:(on,184ms,0), timer:(on,1sec,0), timer:(on,1.500ms,2) for one second and a half.
TIMER = re.compile(r"timer:\(on,(?:(?P<s>\d+)(?:sec|\.(?=\d)))?(?:(?P<ms>\d+)ms)?,(?P<repeats>\d+)\)")


def rules(reported: dict[str, Any]) -> Rules:
    profiles = {name: Profile(name, tuple(settings.items())) for name, settings in reported["profiles"].items()}
    return Rules(profiles, reported["prefixes"], reported.get("default", ""))


def connect(address: str) -> socket.socket:
    """A client at any address of ours; IPv4 clients reach the IPv6 listener too."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    one = socket.socket(family, socket.SOCK_STREAM)
    one.setsockopt(*((41, V6_FREEBIND) if family == socket.AF_INET6 else (0, FREEBIND)), 1)
    one.bind((address, 0))
    one.connect((SERVER6 if family == socket.AF_INET6 else SERVER4, PORT))
    return one


def state_of(one: socket.socket) -> dict[str, Any]:
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    found: dict[str, Any] = {name: struct.unpack_from("=I", info, at)[0] for name, at in INFO.items()}
    found |= {name: struct.unpack_from("=Q", info, at)[0] for name, at in RATES.items()}
    found |= {name: one.getsockopt(*option) & 0xFFFFFFFF for name, option in OPTIONS.items()}
    name = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return found | {"cc": name.partition(b"\0")[0].decode(), "remote": one.getpeername()[1]}


def exchange(client: socket.socket, served: socket.socket, size: int) -> None:
    served.sendall(bytes(size))
    left = size
    while left:
        left -= len(client.recv(65536))


def witnessed(built: str) -> dict[int, dict[str, int]]:
    """Remote port -> what the witness says of the server's socket."""
    pins.mount()
    pinned = pins.BPFFS / "witness"
    subprocess.run(["bpftool", "iter", "pin", built, str(pinned)], check=True, capture_output=True)
    try:
        lines = [json.loads(line) for line in pinned.read_text().splitlines()]
    finally:
        pinned.unlink()
    return {line["remote"]: line for line in lines if line["local"] == PORT}


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def syn(address: str) -> bytes:
    source, target = socket.inet_aton(address), socket.inet_aton(HALF_OPEN_SERVER)
    segment = struct.pack("!HHIIBBHHHBBH", 40000, PORT, 7, 0, 6 << 4, 2, 65535, 0, 0, 2, 4, 1000)
    total = checksum(source + target + struct.pack("!HH", 6, len(segment)) + segment)
    segment = segment[:16] + struct.pack("!H", total) + segment[18:]
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(segment), 1, 0, 64, 6, 0, source, target)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + segment


def half_open(addresses: list[str]) -> dict[str, dict[str, Any]]:
    """What the server answers to a SYN that nothing follows: the window it offers, the timer that it starts."""
    for command in (
        "link add s0 type veth peer name c0",
        "link set s0 up arp off",
        "link set c0 up arp off",
        f"addr add {HALF_OPEN_SERVER}/16 dev s0",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    found = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP)) as wire:
        wire.bind(("c0", ETH_P_IP))
        wire.settimeout(5)
        shown = subprocess.run(["ip", "-json", "link", "show", "s0"], check=True, capture_output=True).stdout
        to = json.loads(shown)[0]["address"].replace(":", "")
        for address in addresses:
            wire.sendto(syn(address), ("c0", ETH_P_IP, 0, 0, bytes.fromhex(to)))
            packet = b""
            while packet[16:20] != socket.inet_aton(address):
                packet = wire.recv(2048)
            found[address] = {"window": struct.unpack_from("!H", packet, 20 + 14)[0]}
    lines = subprocess.run(["ss", "-Htno", "state", "syn-recv"], check=True, capture_output=True, text=True).stdout
    for line in lines.splitlines():
        peer = line.split()[3].rpartition(":")[0].strip("[]").removeprefix("::ffff:")
        reported = TIMER.search(line)
        assert reported, line
        left_ms = 1000 * int(reported["s"] or 0) + int(reported["ms"] or 0)
        found[peer] |= {"left_ms": left_ms, "repeats": int(reported["repeats"])}
    return found


def cross(way: str, address: str) -> dict[str, Any]:
    """One connection, made in one of the ways that a server can come to it; what its socket says."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listens = socket.AF_INET6 if way == "mapped" else family
    host = "::" if listens == socket.AF_INET6 else "0.0.0.0"
    Path("/proc/sys/net/ipv4/tcp_syncookies").write_text("2" if way == "cookie" else "1")
    # client and server, and no cookie asked for: the SYN's data is taken at once
    Path("/proc/sys/net/ipv4/tcp_fastopen").write_text(str(0x1 | 0x2 | 0x4 | 0x200))
    with (
        socket.create_server((host, 0), family=listens, dualstack_ipv6=way == "mapped") as server,
        socket.socket(family, socket.SOCK_STREAM) as client,
    ):
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)
        client.setsockopt(*((41, V6_FREEBIND) if family == socket.AF_INET6 else (0, FREEBIND)), 1)
        client.bind((address, 0))
        to = (SERVER6 if family == socket.AF_INET6 else SERVER4, server.getsockname()[1])
        if way == "fast open":
            client.sendto(b"early", socket.MSG_FASTOPEN, to)
        else:
            client.connect(to)
        with server.accept()[0] as served:
            flags = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)[5]
            return state_of(served) | {"with data in its SYN": bool(flags & SYN_DATA)}


def cookies_sent() -> int:
    names, numbers = Path("/proc/net/netstat").read_text().splitlines()[:2]
    reported = dict(zip(names.split()[1:], numbers.split()[1:], strict=True))
    return int(reported["SyncookiesRecv"])


def look(job: dict[str, Any], driver: EbpfDriver) -> dict[str, Any]:
    # of this network namespace, where reno is always allowed; a default of BBR would hide who began it, and when
    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
    first = rules(job)
    wanted = difference(Rules(), first)
    got = driver.apply(wanted)
    answer: dict[str, Any] = {"as_asked": got == Rules(first.profiles, first.prefixes, first.default)}
    answer["read"] = driver.read() == first
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "-6", "route", "add", "local", "fd00::/8", "dev", "lo"], check=True)
    with socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64) as listener:
        pairs = []
        for address in job["clients"]:
            client = connect(address)
            pairs.append((address, client, listener.accept()[0]))
        answer["begun"] = {address: state_of(served) for address, _, served in pairs}
        if "witness" in job:
            seen = witnessed(job["witness"])
            answer["witnessed"] = {address: seen[served.getpeername()[1]] for address, _, served in pairs}
        if "half_open" in job:
            answer["half_open"] = half_open(job["half_open"])
        if "idle_s" in job:
            for _, client, served in pairs:
                exchange(client, served, 20_000)
            answer["busy"] = {address: state_of(served) for address, _, served in pairs}
            time.sleep(job["idle_s"])
            for _, client, served in pairs:
                exchange(client, served, 20_000)
            answer["idled"] = {address: state_of(served) for address, _, served in pairs}
        if "ways" in job:
            answer["ways"] = {way: cross(way, address) for way, address in job["ways"].items()}
            answer["cookies"] = cookies_sent()
        if "after" in job:
            driver.apply(difference(first, rules(job["after"])))
            answer["unmoved"] = {address: state_of(served) for address, _, served in pairs}
            answer["move"] = driver.move()
            answer["moved"] = {address: state_of(served) for address, _, served in pairs}
    answer["refusals"], answer["ticks_per_s"] = driver.refusals(), ticks_per_second()
    return answer


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    name = GROUP
    place = Place(cgroup="" if "everywhere" in job else name)
    group = pins.mounts("cgroup2")[0] / name
    group.mkdir()
    home = [line.split(":")[2].strip() for line in Path("/proc/self/cgroup").open() if line.startswith("0:")][0]
    driver = EbpfDriver(place)
    before = driver.before()
    try:
        (group / "cgroup.procs").write_text("0")
        answer = look(job, driver)
        driver.revert(before)
        answer["nothing left"] = nothing_left()
        print(json.dumps(answer))
    finally:
        driver.revert(before)
        (pins.mounts("cgroup2")[0] / home.strip("/") / "cgroup.procs").write_text("0")
        group.rmdir()


if __name__ == "__main__":
    main()
