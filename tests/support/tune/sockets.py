# SPDX-License-Identifier: MIT
"""A server and its clients in a control group of their own: what the server's sockets say of themselves. JSON.

    sockets.py JOB.json      what profiles set, in all the ways that a connection can come about
    sockets.py listened      servers at several ports and addresses, of which a place names some
    sockets.py repeated      clients that let the SYN-ACK be repeated before they answer
    sockets.py left          a connection that lives while the rules go

Run it apart (tests/support/isolation.py), or in a guest.

The job: profiles {name: {knob: value}}, prefixes {prefix: name}, default, clients [address, ...]; optional `after`, a
second set of rules that is applied and moved to while the clients are connected; `idle_s`, a pause after the first
data; `half_open`, addresses whose SYN is not followed by anything; `ways`, {way of `cross`: address}; `witness`, a
compiled program that reports what no option does; `everywhere`, the root of all control groups, which guests may touch.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.bpf import pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.drivers.bpf.reach import ticks_per_second
from configtron.tune.drivers.open_connections import Leaving
from configtron.tune.rules import difference
from tests.support.draws import ABORT
from tests.support.tune.left import GROUP, PLACE, nothing_left, placed, serving
from tests.support.waiting import PATIENCE_S

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
HALF_OPEN_SERVER, SERVER_MAC = "10.9.0.1", "02:00:00:00:00:01"
MSS = 1000
# As `ss` prints it: timer:(on,184ms,0), timer:(on,1sec,0), timer:(on,1.500ms,2) for one second and a half.
TIMER = re.compile(r"timer:\(on,(?:(?P<s>\d+)(?:sec|\.(?=\d)))?(?:(?P<ms>\d+)ms)?,(?P<repeats>\d+)\)")


def rules(reported: dict[str, Any]) -> Rules:
    profiles = {name: Profile(name, tuple(settings.items())) for name, settings in reported["profiles"].items()}
    return Rules(profiles, reported["prefixes"], reported.get("default", ""))


def client_at(address: str) -> socket.socket:
    one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    one.setsockopt(*((41, V6_FREEBIND) if ":" in address else (0, FREEBIND)), 1)
    one.bind((address, 0))
    return one


def connect(address: str) -> socket.socket:
    """A client at any address of ours; IPv4 clients reach the IPv6 listener too."""
    one = client_at(address)
    one.connect((SERVER6 if ":" in address else SERVER4, PORT))
    return one


def state_of(one: socket.socket) -> dict[str, Any]:
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    found: dict[str, Any] = {name: struct.unpack_from("=I", info, at)[0] for name, at in INFO.items()}
    found |= {name: struct.unpack_from("=Q", info, at)[0] for name, at in RATES.items()}
    found |= {name: one.getsockopt(*option) & 0xFFFFFFFF for name, option in OPTIONS.items()}
    name = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return found | {"cc": name.partition(b"\0")[0].decode(), "remote": one.getpeername()[1]}


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


def segment(client: str, flags: int, sequence: int, acknowledged: int) -> bytes:
    """An IPv4 packet of a client without data."""
    source, target = socket.inet_aton(client), socket.inet_aton(HALF_OPEN_SERVER)
    options = struct.pack("!BBH", 2, 4, MSS) if flags & 2 else b""
    offset = (20 + len(options)) // 4 << 4
    tcp = struct.pack("!HHIIBBHHH", 40000, PORT, sequence, acknowledged, offset, flags, 65535, 0, 0) + options
    tcp = tcp[:16] + struct.pack("!H", checksum(source + target + struct.pack("!HH", 6, len(tcp)) + tcp)) + tcp[18:]
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0, source, target)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + tcp


class Cable:
    """The clients' end of a cable to the server: nothing there answers by itself."""

    def __init__(self) -> None:
        for command in (
            f"link add s0 address {SERVER_MAC} type veth peer name c0", "link set c0 up arp off",
            "link set s0 up arp off", f"addr add {HALF_OPEN_SERVER}/16 dev s0",
        ):  # fmt: skip
            subprocess.run(["ip", *command.split()], check=True)
        self._wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
        self._wire.bind(("c0", ETH_P_IP))

    def send(self, packet: bytes) -> None:
        self._wire.sendto(packet, ("c0", ETH_P_IP, 0, 0, bytes.fromhex(SERVER_MAC.replace(":", ""))))

    def next(self, client: str, until: float) -> bytes | None:
        """The server's next packet to a client; None: none came in time."""
        while (left := until - time.monotonic()) > 0:
            self._wire.settimeout(left)
            try:
                packet, whence = self._wire.recvfrom(1 << 16)
            except TimeoutError:
                return None
            if whence[2] != socket.PACKET_OUTGOING and packet[16:20] == socket.inet_aton(client):
                return packet
        return None


def half_open(addresses: list[str]) -> dict[str, dict[str, Any]]:
    """What the server answers to a SYN that nothing follows: the window it offers, the timer that it starts."""
    cable, found = Cable(), {}
    for address in addresses:
        cable.send(segment(address, 2, 7, 0))
        packet = cable.next(address, time.monotonic() + PATIENCE_S)
        assert packet, address
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
        client_at(address) as client,
    ):
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)
        to = (SERVER6 if family == socket.AF_INET6 else SERVER4, server.getsockname()[1])
        if way == "fast open":
            client.sendto(b"early", socket.MSG_FASTOPEN, to)
        else:
            client.connect(to)
        with server.accept()[0] as served:
            flags = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)[5]
            return state_of(served) | {"with data in its SYN": bool(flags & SYN_DATA)}


def of_job(job: dict[str, Any], driver: EbpfDriver) -> dict[str, Any]:
    # of this network namespace, where reno is always allowed; a default of BBR would hide who began it, and when
    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
    first = rules(job)
    answer: dict[str, Any] = {"as_asked": driver.apply(difference(Rules(), first)) == first}
    answer["read"] = driver.read() == first
    subprocess.run(["ip", "-6", "route", "add", "local", "fd00::/8", "dev", "lo"], check=True)
    with socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64) as listener:
        pairs = {address: (connect(address), listener.accept()[0]) for address in job["clients"]}

        def states() -> dict[str, dict[str, Any]]:
            return {address: state_of(served) for address, (_, served) in pairs.items()}

        answer["begun"] = states()
        if "witness" in job:
            seen = witnessed(job["witness"])
            answer["witnessed"] = {one: seen[served.getpeername()[1]] for one, (_, served) in pairs.items()}
        if "half_open" in job:
            answer["half_open"] = half_open(job["half_open"])
        if "idle_s" in job:
            for when, pause_s in (("busy", 0.0), ("idled", job["idle_s"])):
                time.sleep(pause_s)
                for client, served in pairs.values():
                    served.sendall(bytes(20_000))
                    client.recv(20_000, socket.MSG_WAITALL)
                answer[when] = states()
        if "ways" in job:
            answer["ways"] = {way: cross(way, address) for way, address in job["ways"].items()}
            names, numbers = (line.split() for line in Path("/proc/net/netstat").read_text().splitlines()[:2])
            answer["cookies"] = int(numbers[names.index("SyncookiesRecv")])
        if "after" in job:
            driver.apply(difference(first, rules(job["after"])))
            answer["unmoved"] = states()
            answer["move"], answer["moved"] = driver.move(), states()
    answer["refusals"], answer["ticks_per_s"] = driver.refusals(), ticks_per_second()
    return answer


LISTEN = "443,127.0.0.9:8080,[::1]:8081"
# A name for each way -> who listens where, and the address that the client connects to.
WAYS = {
    "443": ("0.0.0.0", 443, "127.0.0.1"), "443 mapped": ("::", 443, "127.0.0.1"), "443 v6": ("::", 443, "::1"),
    "22": ("0.0.0.0", 22, "127.0.0.1"), "22 mapped": ("::", 22, "127.0.0.1"), "22 v6": ("::", 22, "::1"),
    "8080 of the named address": ("0.0.0.0", 8080, "127.0.0.9"),
    "8080 mapped, of the named address": ("::", 8080, "127.0.0.9"),
    "8080 of another": ("0.0.0.0", 8080, "127.0.0.8"), "8081 of the named address": ("::", 8081, "::1"),
    "8081 of another": ("0.0.0.0", 8081, "127.0.0.9"),
}  # fmt: skip
FIRST = Profile("p", (("initcwnd", 23), ("initrwnd", 5), ("tcp_congestion_control", "cubic")))
AFTER = Profile("p", (("tcp_congestion_control", "bbr"),))


def listening(host: str, port: int) -> socket.socket:
    six = ":" in host
    return socket.create_server((host, port), family=socket.AF_INET6 if six else socket.AF_INET, dualstack_ipv6=six)


def shown(server: int, client: int) -> dict[str, Any]:
    """The server's socket as `ss` shows it, by both ports."""
    words = ["ss", "-tinHO", "sport", "=", f":{server}", "and", "dport", "=", f":{client}"]
    line = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    control, cwnd = re.search(r"\b(cubic|bbr|reno)\b", line), re.search(r"\bcwnd:(\d+)", line)
    assert control and cwnd, line
    return {"cc": control[1], "cwnd": int(cwnd[1])}


def listened(driver: EbpfDriver, _: str) -> dict[str, Any]:
    """Ways [a client reaches a listener] -> what `ss -ti` shows of the server's socket, as soon as it is connected, and
    again after `move` to other settings."""
    # The host's own default is not what a profile asks for.
    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
    driver.apply(Changes({"p": FIRST}, default="p"))
    answer: dict[str, Any] = {"begun": {}, "offered": {}}
    with ExitStack() as stack:
        ports = {}
        for way, (host, port, address) in WAYS.items():
            with listening(host, port) as one:
                client = stack.enter_context(socket.create_connection((address, port)))
                stack.enter_context(one.accept()[0])
            ports[way] = port, client.getsockname()[1]
            answer["begun"][way] = shown(*ports[way])
            # tcpi_snd_wnd of the client: what the server's SYN-ACK offered
            info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            answer["offered"][way] = int.from_bytes(info[228:232], "little")
        with ExitStack() as listeners:
            for port in {way[1] for way in WAYS.values() if way[0] == "::"}:
                listeners.enter_context(listening("::", port))
            driver.apply(Changes({"p": AFTER}))
            answer["move"] = driver.move()
        answer["moved"] = {way: shown(*both) for way, both in ports.items()}
    # The same group without listeners, or with others, is another place.
    others = [EbpfDriver(Place(cgroup=GROUP, listen=listen)).read() for listen in ("", "443")]
    return answer | {"others see nothing": others == [Rules(), Rules()]}


# `repeated`: client -> how many SYN-ACKs it waits for. The last one's prefix has no profile.
WINDOW = 20
CLIENTS = {"10.9.7.1": 1, "10.9.7.2": 2, "10.9.7.3": 3, "10.9.7.4": 4, "10.9.8.1": 3}
SYN, ACK = 0x02, 0x10
# Nothing of a first flight on a virtual cable comes later, nothing is repeated before.
FLIGHT_S = 0.15
OURS = 7


def heard(cable: Cable, client: str, until: float) -> tuple[int, int, int] | None:
    """The server's next packet to a client: flags, sequence number, bytes of data; None: none came in time."""
    packet = cable.next(client, until)
    if packet is None:
        return None
    sequence, _, offset, flags = struct.unpack_from("!IIBB", packet, 24)
    return flags, sequence, struct.unpack_from("!H", packet, 2)[0] - 20 - (offset >> 4) * 4


def visit(cable: Cable, listener: socket.socket, client: str, wanted: int) -> list[int]:
    """One handshake, answered after so many SYN-ACKs; the first flight of what the server sends."""
    cable.send(segment(client, SYN, OURS, 0))
    answers = theirs = 0
    while answers < wanted:
        found = heard(cable, client, time.monotonic() + PATIENCE_S)
        assert found, f"{client}: {answers} SYN-ACKs"
        if found[0] & (SYN | ACK) == SYN | ACK:
            answers, theirs = answers + 1, found[1]
    cable.send(segment(client, ACK, OURS + 1, theirs + 1))
    with listener.accept()[0] as served:
        cwnd = state_of(served)["cwnd"]
        served.sendall(bytes(3 * WINDOW * MSS))
        # A repeat has a number that was seen; what is new ends with the window.
        until, flight = time.monotonic() + FLIGHT_S, dict[int, int]()
        while found := heard(cable, client, until):
            if found[2]:
                flight[found[1]] = max(found[2], flight.get(found[1], 0))
        served.setsockopt(*ABORT)
    return [answers, round(sum(flight.values()) / MSS), cwnd]


def repeated(driver: EbpfDriver, _: str) -> dict[str, Any]:
    """Client -> [SYN-ACKs sent to it, segments of the first flight, `cwnd` that the server's socket says of itself].

    Every client's prefix but the last one's asks for an initial window of `WINDOW` segments. The handshake is made of
    raw packets, so that nothing answers before it is meant to.
    """
    settings = (("initcwnd", WINDOW), ("synack_rto", 0.2), ("tcp_congestion_control", "cubic"))
    driver.apply(Changes({"wide": Profile("wide", settings)}, {"10.9.7.0/24": "wide"}))
    with socket.create_server(("0.0.0.0", PORT)) as listener:
        cable = Cable()
        return {"clients": {client: visit(cable, listener, client, wanted) for client, wanted in CLIENTS.items()}}


MEGABYTE = 1 << 20
WEB: tuple[tuple[str, Value], ...] = (
    ("cwnd_clamp", 2), ("initcwnd", 2), ("min_rto", 0.1), ("notsent_lowat", 7000), ("priority", 3),
    ("tcp_congestion_control", "reno"),
)  # fmt: skip


def seen(served: socket.socket, client: socket.socket) -> list[Any]:
    """Congestion control, window after a megabyte, notsent_lowat, priority."""
    client.settimeout(10)
    served.setblocking(False)
    left, unsent = MEGABYTE, MEGABYTE
    while left:
        if unsent:
            try:
                unsent -= served.send(bytes(min(unsent, 65536)))
            except BlockingIOError:
                pass
        left -= len(client.recv(1 << 20))
    state = state_of(served)
    return [state[what] for what in ("cc", "cwnd", "notsent_lowat", "priority")]


def withdrawn(driver: EbpfDriver, before: str, rules: Rules) -> list[Any]:
    """Connections that had the rules, how many were put back, and what is left at some."""
    leaving = Leaving(driver, PLACE, rules)
    leaving.before()
    driver.revert(before)
    done = leaving.after(Rules())
    return [done.connections, done.restored, dict(done.left)]


def left(driver: EbpfDriver, before: str) -> dict[str, Any]:
    """What the socket says before and after its rules go."""
    web, paced = (Rules({"web": Profile("web", asked)}, {"127.1.0.0/16": "web"})
                  for asked in (WEB, (("max_pacing_rate", 50_000_000),)))  # fmt: skip
    with socket.create_server((SERVER4, PORT)) as listener:
        driver.apply(difference(Rules(), web))
        ours, stranger = ((connect(f"127.{net}.0.1"), listener.accept()[0]) for net in (1, 2))
        found: dict[str, Any] = {"under": seen(ours[1], ours[0]), "other": state_of(stranger[1])["cc"]}
        found["restored"] = withdrawn(driver, before, web)
        found |= {"after": seen(ours[1], ours[0]), "other after": state_of(stranger[1])["cc"]}
        for end in (*ours, *stranger):
            end.close()
        driver.apply(difference(Rules(), paced))
        _ours = connect("127.1.0.1"), listener.accept()[0]
        return found | {"paced": withdrawn(driver, before, paced)}


PLAYS = {"listened": (listened, LISTEN), "repeated": (repeated, ""), "left": (left, "")}


def main(what: str) -> None:
    play, listen = PLAYS.get(what, (None, ""))
    job = {} if play else json.loads(Path(what).read_text())
    place = Place() if "everywhere" in job else Place(cgroup=GROUP, listen=listen)
    with placed(place) as (driver, before):
        with serving():
            answer = play(driver, before) if play else of_job(job, driver)
        driver.revert(before)
        print(json.dumps(answer | {"nothing left": nothing_left()}))


if __name__ == "__main__":
    main(sys.argv[1])
