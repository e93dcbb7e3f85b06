# SPDX-License-Identifier: MIT
"""Clients that let the SYN-ACK be repeated before they answer: the server's first flight to each, counted on the wire.

    repeated.py         run it apart (tests/support/isolation.py)

Every client's prefix but the last one's asks for an initial window of `WINDOW` segments. The handshake is made of raw
packets, so that nothing answers before it is meant to. JSON on standard output: client -> [SYN-ACKs sent to it,
segments of the first flight, `cwnd` that the server's socket says of itself].
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import time

from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.tune.drivers.bpf import pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.rules import difference
from tests.support.tune.left import GROUP, nothing_left, placed
from tests.support.tune.sockets import ETH_P_IP, HALF_OPEN_SERVER, PORT, checksum, state_of

WINDOW, MSS = 20, 1000
# Client -> how many SYN-ACKs it waits for. The last one's prefix has no profile.
CLIENTS = {"10.9.7.1": 1, "10.9.7.2": 2, "10.9.7.3": 3, "10.9.7.4": 4, "10.9.8.1": 3}
SYN, ACK = 0x02, 0x10
# Nothing of a first flight on a virtual cable comes later, nothing is repeated before.
FLIGHT_S = 0.15
PATIENCE_S = 20.0
OURS = 7


def segment(client: str, flags: int, sequence: int, acknowledged: int) -> bytes:
    """An IPv4 packet of a client without data."""
    source, target = socket.inet_aton(client), socket.inet_aton(HALF_OPEN_SERVER)
    options = struct.pack("!BBH", 2, 4, MSS) if flags & SYN else b""
    offset = (20 + len(options)) // 4 << 4
    tcp = struct.pack("!HHIIBBHHH", 40000, PORT, sequence, acknowledged, offset, flags, 65535, 0, 0) + options
    tcp = tcp[:16] + struct.pack("!H", checksum(source + target + struct.pack("!HH", 6, len(tcp)) + tcp)) + tcp[18:]
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0, source, target)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + tcp


class Wire:
    """The clients' end of a cable to the server."""

    def __init__(self) -> None:
        for command in (
            "link add s0 type veth peer name c0",
            "link set s0 up arp off",
            "link set c0 up arp off",
            f"addr add {HALF_OPEN_SERVER}/16 dev s0",
        ):
            subprocess.run(["ip", *command.split()], check=True)
        shown = subprocess.run(["ip", "-json", "link", "show", "s0"], check=True, capture_output=True).stdout
        self._to = bytes.fromhex(json.loads(shown)[0]["address"].replace(":", ""))
        self._wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
        self._wire.bind(("c0", ETH_P_IP))

    def send(self, packet: bytes) -> None:
        self._wire.sendto(packet, ("c0", ETH_P_IP, 0, 0, self._to))

    def next(self, client: str, until: float) -> tuple[int, int, int] | None:
        """The server's next packet to a client: flags, sequence number, bytes of data; None: none came in time."""
        while (left := until - time.monotonic()) > 0:
            self._wire.settimeout(left)
            try:
                packet, whence = self._wire.recvfrom(1 << 16)
            except TimeoutError:
                return None
            if whence[2] == socket.PACKET_OUTGOING or packet[16:20] != socket.inet_aton(client):
                continue
            sequence, _, offset, flags = struct.unpack_from("!IIBB", packet, 24)
            return flags, sequence, struct.unpack_from("!H", packet, 2)[0] - 20 - (offset >> 4) * 4
        return None


def visit(wire: Wire, listener: socket.socket, client: str, wanted: int) -> list[int]:
    """One handshake, answered after so many SYN-ACKs; the first flight of what the server sends."""
    wire.send(segment(client, SYN, OURS, 0))
    heard = theirs = 0
    while heard < wanted:
        found = wire.next(client, time.monotonic() + PATIENCE_S)
        assert found, f"{client}: {heard} SYN-ACKs"
        if found[0] & (SYN | ACK) == SYN | ACK:
            heard, theirs = heard + 1, found[1]
    wire.send(segment(client, ACK, OURS + 1, theirs + 1))
    with listener.accept()[0] as served:
        cwnd = state_of(served)["cwnd"]
        served.sendall(bytes(3 * WINDOW * MSS))
        # A repeat has a number that was seen; what is new ends with the window.
        until, flight = time.monotonic() + FLIGHT_S, dict[int, int]()
        while found := wire.next(client, until):
            if found[2]:
                flight[found[1]] = max(found[2], flight.get(found[1], 0))
        served.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return [heard, round(sum(flight.values()) / MSS), cwnd]


def look(driver: EbpfDriver) -> dict[str, list[int]]:
    settings = (("initcwnd", WINDOW), ("synack_rto", 0.2), ("tcp_congestion_control", "cubic"))
    driver.apply(difference(Rules(), Rules({"wide": Profile("wide", settings)}, {"10.9.7.0/24": "wide"})))
    wire = Wire()
    with socket.create_server(("0.0.0.0", PORT)) as listener:
        return {client: visit(wire, listener, client, wanted) for client, wanted in CLIENTS.items()}


def main() -> None:
    home = [line.split(":")[2].strip() for line in open("/proc/self/cgroup") if line.startswith("0:")][0]
    with placed() as (driver, before):
        (pins.mounts("cgroup2")[0] / GROUP / "cgroup.procs").write_text("0")
        try:
            answer = look(driver)
        finally:
            (pins.mounts("cgroup2")[0] / home.strip("/") / "cgroup.procs").write_text("0")
        driver.revert(before)
        print(json.dumps({"clients": answer, "nothing left": nothing_left()}))


if __name__ == "__main__":
    main()
