# SPDX-License-Identifier: MIT
"""Runs inside a raised world: looks at every server with tools that are not the product's, and writes down what it saw.

    look.py ASKED.json SEEN.json

ASKED is {"vantages": [{name, source_address, resolver, gateway_mac}], "hosts": [...], "truth": path}. Three raw TCP
flows a server: a SYN left alone, the same with timestamps and window scale, and a request whose answer is never
acknowledged.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dns.exception
import dns.message
import dns.query

CLONE_NEWNET = 0x40000000
SO_RCVBUFFORCE = 33
# The last of five SYN-ACKs of 3 s comes after 93 s (and an eighth).
LISTEN_S = 120.0
# By then the slowest handshake is over (two round trips of 0.4 s) and no server has given up.
SS_AT_S = 3.0
MSS = 536
ALONE, STAMPED, ASKING, FEATURED = 20000, 30000, 40000, 50000
MSS_OPTION = b"\x02\x04" + struct.pack("!H", MSS)
BIG_MSS = b"\x02\x04\x05\xb4"
OPTIONS = {
    ALONE: BIG_MSS,
    STAMPED: BIG_MSS + b"\x01\x01\x08\x0a" + struct.pack("!II", 1, 0) + b"\x01\x03\x03\x07",
    ASKING: MSS_OPTION + b"\x01\x01\x08\x0a" + struct.pack("!II", 1, 0),
    # everything a server may agree to: SACK, timestamps, window scale, a Fast Open cookie
    FEATURED: BIG_MSS + b"\x04\x02\x08\x0a" + struct.pack("!II", 1, 0) + b"\x01\x03\x03\x07\x01\x01\x22\x02",
}
# HTTP/2's, with a SETTINGS frame.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
# SYN; and with it ECE and CWR, which ask for ECN.
SYN_FLAGS = {FEATURED: 0xC2}


def enter(netns: str) -> None:
    with open(f"/run/netns/{netns}") as there:
        if ctypes.CDLL(None).setns(there.fileno(), CLONE_NEWNET):
            raise OSError("setns")


def checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


class Eye:
    """Raw flows from one vantage; a packet is a list of when, flags, number, payload, window, scale, TTL, options."""

    def __init__(self, vantage: dict[str, str]) -> None:
        self.raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        self.raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.raw.bind(("eth0", 0x0800))
        self.ether = bytes.fromhex(vantage["gateway_mac"].replace(":", "")) + self.raw.getsockname()[4] + b"\x08\0"
        self.source = socket.inet_aton(vantage["source_address"])
        self.flows: dict[tuple[bytes, int], list[list[Any]]] = {}
        self.first: dict[tuple[bytes, int], int] = {}

    def send(
        self, to: bytes, port: int, seq: int, ack: int, flags: int, options: bytes = b"", data: bytes = b""
    ) -> None:
        head = struct.pack("!HHIIBBHHH", port, 80, seq, ack, 5 + len(options) // 4 << 4, flags, 65535, 0, 0)
        tcp = head + options + data
        pseudo = self.source + to + struct.pack("!BBH", 0, 6, len(tcp))
        tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0x4000, 64, 6, 0, self.source, to)
        self.raw.send(self.ether + ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp)

    def start(self, address: str, port: int) -> None:
        to = socket.inet_aton(address)
        self.flows[to, port] = [[time.time(), 2, 0, 0, 0, -1]]
        self.send(to, port, 1000, 0, SYN_FLAGS.get(port, 2), OPTIONS[port])

    def hear(self, until: float) -> None:
        while time.time() < until:
            if select.select([self.raw], [], [], max(0.0, until - time.time()))[0]:
                frame, way = self.raw.recvfrom(65536)
                if way[2] != socket.PACKET_OUTGOING and frame[23] == 6 and frame[30:34] == self.source:
                    self.note(frame[14:])

    def note(self, packet: bytes) -> None:
        port, seq, offset, flags, window = struct.unpack("!xxHIxxxxBBH", packet[20:36])
        flow = packet[12:16], port
        header = (offset >> 4) * 4
        length = struct.unpack("!H", packet[2:4])[0] - 20 - header
        options = packet[40 : 20 + header]
        scale = options[options.index(b"\x03\x03") + 2] if port == STAMPED and b"\x03\x03" in options else -1
        if flow not in self.first:
            self.first[flow] = seq
            if port == ASKING:
                # echoes the first SYN-ACK's time, if it has one: the server's RTT sample, when it has sent two
                stamp = options.find(b"\x08\x0a") + 2
                echo = b"\x01\x01\x08\x0a" + struct.pack("!I", 2) + options[stamp : stamp + 4] if stamp > 1 else b""
                self.send(flow[0], port, 1001, seq + 1, 16, echo)
                self.send(flow[0], port, 1001, seq + 1, 24, echo, b"GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n")
        relative = seq - self.first[flow] & 0xFFFFFFFF
        ttl, announced = packet[8], options.index(b"\x02\x04") if flags & 2 else -1
        row = [time.time(), flags, relative, length, window, scale, ttl, announced]
        self.flows[flow].append([*row, options.hex()])


def ask(host: str, resolver: str) -> dns.message.Message:
    """The name server's answer; a link may lose a few questions."""
    for _ in range(5):
        with contextlib.suppress(dns.exception.Timeout):
            return dns.query.udp(dns.message.make_query(host, "A"), resolver, timeout=2)
    raise TimeoutError(host)


def handshake(address: str, host: str) -> dict[str, object]:
    """ALPN, certificate and first frames, by openssl and Python's ssl; the page by curl."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    with context.wrap_socket(socket.create_connection((address, 443), 10), server_hostname=host) as stream:
        alpn = stream.selected_alpn_protocol()
        frames = b""
        if alpn == "h2":
            stream.sendall(PREFACE)
            while b"\0\0\0\x04\x01\0\0\0\0" not in frames:
                frames += stream.recv(65536)
    shown = subprocess.run(
        ["openssl", "s_client", "-connect", f"{address}:443", "-servername", host],
        input=b"", capture_output=True, timeout=30,
    ).stdout.decode()  # fmt: skip
    curl = ["curl", "-sk", "-o", "/dev/null", "-w", "%{size_download} %{http_version}", f"https://{host}/"]
    resolved = ["--resolve", f"{host}:443:{address}"]
    page = subprocess.run([*curl, *resolved], capture_output=True, text=True, timeout=60).stdout
    subject = next(line for line in shown.splitlines() if line.startswith("subject="))
    return {"alpn": alpn, "frames": frames.hex(), "subject": subject, "page": page}


def sockets(netns: str) -> list[str]:
    """The established connections of that namespace, as ss lists them, a line each."""
    command = ["ip", "netns", "exec", netns, "ss", "-tinHO", "state", "established"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def clear_h2(address: str) -> bool:
    """Whether port 80 answers HTTP/2's preface with a SETTINGS frame."""
    with socket.create_connection((address, 80), 10) as stream:
        stream.sendall(PREFACE)
        return stream.recv(9)[3:4] == b"\x04"


def main(asked: dict[str, Any]) -> dict[str, object]:
    eyes = []
    seen: dict[str, dict[str, Any]] = {}
    for vantage in asked["vantages"]:
        name = vantage["name"]
        enter(f"v-{name}")
        addresses = []
        for host in asked["hosts"]:
            address = ask(host, vantage["resolver"]).answer[0][0].address
            addresses.append(address)
            row = {"address": address, **handshake(address, host), "h2c": clear_h2(address)}
            seen[f"{name}/{host}"] = row
        seen[f"{name}/nxdomain"] = {"rcode": ask("absent.example", vantage["resolver"]).rcode()}
        eye = watched(vantage, addresses, OPTIONS, SS_AT_S)
        eyes.append((name, eye))
        seen[f"{name}/ss"] = {"lines": [line for pool in asked["server_pools"] for line in sockets(pool)]}
        eye.hear(time.time() + LISTEN_S)
    for name, eye in eyes:
        rows = {row["address"]: row for key, row in seen.items() if key.startswith(f"{name}/") and "address" in row}
        for (to, port), packets in eye.flows.items():
            rows[socket.inet_ntoa(to)][str(port)] = packets
    hidden = {folder: os.listdir(folder) for folder in (str(asked["truth"]), "/run/world")}
    return {"seen": seen, "hidden": hidden, "vantages": Path("/run/vantages.toml").read_text()}


def watched(vantage: dict[str, str], addresses: Iterable[str], ports: Iterable[int], listen_s: float) -> Eye:
    """An eye whose flows to these addresses have begun, so many seconds later."""
    eye = Eye(vantage)
    for address in addresses:
        for port in ports:
            eye.start(address, port)
    eye.hear(time.time() + listen_s)
    return eye


def peek(asked: dict[str, Any]) -> dict[str, object]:
    """Only the flows, to addresses that are known: for servers that do not answer everything."""
    enter(f"v-{asked['vantage']['name']}")
    eye = watched(asked["vantage"], asked["addresses"], asked["ports"], asked["listen_s"])
    return {f"{socket.inet_ntoa(to)}/{port}": packets for (to, port), packets in eye.flows.items()}


if __name__ == "__main__":
    wanted = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps((peek if "addresses" in wanted else main)(wanted), sort_keys=True))
