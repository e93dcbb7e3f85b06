# SPDX-License-Identifier: MIT
"""Conversations between real kernels that are slow for a reason that is planted, captured at three places.

    python -m tests.support.planted_slowness NAME...    in the lab's guest; writes NAME.PLACE.pcap and found.json

The truth comes from the programs' own clocks (how long they slept), from the settings, and from what the sender's
kernel accounts itself (TCP_INFO: time limited by the receive window, by the send buffer).
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count, product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from configtron.lab.internet import links
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from configtron.linux.netns import inside
from configtron.probe.wire.frames import checksum
from tests.support import capture_bytes
from tests.support.impaired_path import Rig, rig

PLACES = ("client", "between", "server")
ADDRESS, FIRST_PORT = "10.99.0.2", 2000
# Longer than any planted wait; what hangs behind a hole is given up then.
PATIENCE_S = 8.0
# A receiver whose memory bounds nothing, and a kernel that remembers no path.
SETTINGS = (("net/ipv4/tcp_no_metrics_save", "1"), ("net/ipv4/tcp_rmem", "4096 4000000 8000000"))


class Plant(NamedTuple):
    """What is planted. Times in s, sizes in bytes; `upload`: the client is the larger sender.

    cause     the limits that take most of the time, the largest first
    lose      of the main sender's data packets: number (from 0), time since the first -> lost
    syns      so many SYNs are lost, and so many SYN-ACKs
    mtu       larger packets of the main sender are lost; with `icmp` the path says so
    blind     places at which no packet shows the cause: behind the place where packets were lost
    real      to be played in real time: a virtual clock gives the writer endless speed, and no buffer holds it back
    """

    cause: tuple[str, ...]
    rtt_s: float = 0.06
    upload: bool = False
    size: int = 60_000
    requests: int = 1
    server_s: float = 0.0
    client_s: float = 0.0
    chunk: int = 0
    pause_s: float = 0.0
    read: int = 0
    read_s: float = 0.0
    rcvbuf: int = 0
    sndbuf: int = 0
    linger_s: float = 0.0
    rate_kbps: float = 0.0
    lose: Callable[[int, float], bool] = lambda number, at: False
    syns: tuple[int, int] = (0, 0)
    mtu: int = 0
    icmp: bool = False
    probing: int = 0
    blind: tuple[str, ...] = ()
    real: bool = False


def plants(*rtts_ms: int) -> Iterator[tuple[str, Plant]]:
    """Yield each kind by name, at these round trips, with either side as the larger sender; a 2 begins two causes."""
    for ms, upload in product(rtts_ms, (False, True)):
        rtt, bulk = ms / 1e3, 4_000_000 if ms < 30 else 1_500_000
        window, buffer = {"rcvbuf": 4096, "size": 200_000}, {"real": True, "sndbuf": 8192, "size": bulk}
        reader, paced = window | {"rcvbuf": 16_384, "read": 20_000, "read_s": 0.3}, {"chunk": 3000, "pause_s": 0.08}
        wait, hole = 1.0 + 5 * rtt, {"mtu": 1300, "blind": ("server" if upload else "client",)}
        kinds: dict[str, tuple[str, dict[str, Any]]] = {
            "syn": ("handshake", {"syns": (1 + (ms == 60), 0), "blind": ("server",)}),
            "synack": ("handshake", {"syns": (0, 1)}),
            "server": ("server", {"server_s": 2 * wait}),
            "client": ("client", {"requests": 4, "client_s": wait}),
            "window": ("receive-window", window),
            "reader": ("receive-window", reader),
            "paced": ("sender", paced),
            "lumps": ("sender", {"chunk": 20_000, "pause_s": 0.3 + 2 * rtt, "size": 200_000}),
            "buffer": ("sender", buffer),
            "growth": ("congestion", {"size": 1_500_000 if ms < 30 else 600_000}),
            "queue": ("congestion", {"size": 1_000_000, "rate_kbps": 4000}),
            "outage": ("timeout", {"lose": lambda n, at, rtt=rtt: 0 < at - 1.5 * rtt < 1.5}),
            "tail": ("tail-probe", {"size": 4000, "requests": 6, "lose": lambda n, at: n % 4 == 2}),
            "fast": ("fast-retransmit", {"size": 300_000, "lose": lambda n, at: n % 6 == 3}),
            "hole": ("path-mtu", hole),
            "probing": ("path-mtu", {"mtu": 1300, "probing": 1}),
            "told": ("path-mtu", hole | {"icmp": True, "size": 20_000}),
            "linger": ("end", {"linger_s": 2 * wait}),
            "2-think": ("server client", {"server_s": wait, "requests": 3, "client_s": 0.8 * wait}),
            "2-window": ("server receive-window", window | {"server_s": wait, "size": 100_000}),
            "2-paced": ("sender server", paced | {"server_s": wait}),
            "2-syn": ("handshake client", {"syns": (0, 1), "size": 20_000, "client_s": 0.7 * wait, "requests": 2}),
            "2-reader": ("receive-window end", reader | {"linger_s": wait}),
            "2-buffer": ("sender server", buffer | {"server_s": wait}),
        }
        for kind, (cause, settings) in kinds.items():
            yield f"{kind}-{'up' if upload else 'down'}-{ms}", Plant(tuple(cause.split()), rtt, upload, **settings)


class PlantedPath(Rig):
    """A path with a fate for each packet, which writes down what passes at its ends and in its middle, before the
    place where packets are lost."""

    plant, port = Plant(()), FIRST_PORT

    def begin(self, plant: Plant) -> None:
        """The next conversation."""
        self.plant, self.number, self.began, self.free = plant, 0, 0.0, [0.0, 0.0]
        self.syns, self.port = list(plant.syns), self.port + 1
        self.seen: list[list[tuple[int, bytes]]] = [[], [], []]

    def _carry(self) -> None:
        due: list[tuple[float, int, int, bytes]] = []
        order = count()
        while True:
            wait = max(due[0][0] - time.monotonic(), 0) if due else None
            ready, _, _ = select.select([*self._fds, self._stop], [], [], wait)
            if self._stop in ready:
                return
            for side in (0, 1):
                if self._fds[side] in ready:
                    data, now = os.read(self._fds[side], 65535), time.monotonic()
                    if data[0] >> 4 != 4 or self.port not in struct.unpack_from(">HH", data, 20):
                        continue  # of no conversation, or of one before that still hangs
                    stamp, way = time.time_ns(), self.plant.rtt_s / 2
                    self.seen[side * 2].append((stamp, data))
                    passes = self._passes(side, data, now)
                    self.seen[1].append((stamp + round(way * 5e8), data))
                    if not passes:
                        continue
                    if self.plant.rate_kbps and side != self.plant.upload:
                        self.free[side] = max(self.free[side], now) + len(data) * 8e-3 / self.plant.rate_kbps
                        way += self.free[side] - now
                    heappush(due, (now + way, next(order), 1 - side, data))
            while due and due[0][0] <= time.monotonic():
                _, _, side, data = heappop(due)
                self.seen[side * 2].append((time.time_ns(), data))
                os.write(self._fds[side], data)

    def _passes(self, side: int, data: bytes, now: float) -> bool:
        size = len(data) - 20 - (data[32] >> 4) * 4
        if data[33] & 2:
            self.syns[side] -= 1
            return self.syns[side] < 0
        if side == self.plant.upload or size <= 0:
            return True
        if self.plant.mtu and len(data) > self.plant.mtu:
            if self.plant.icmp:
                self._tell(side, data)
            return False
        number, self.number, self.began = self.number, self.number + 1, self.began or now
        return not self.plant.lose(number, now - self.began)

    def _tell(self, side: int, data: bytes) -> None:
        """ICMP: fragmentation needed, from the far end's address (RFC 1191)."""
        body = struct.pack(">BBHHH", 3, 4, 0, 0, self.plant.mtu) + data[:28]
        body = body[:2] + struct.pack(">H", checksum(body)) + body[4:]
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, 1, 0) + data[16:20] + data[12:16]
        packet = head[:10] + struct.pack(">H", checksum(head)) + head[12:] + body
        for place, way in ((side * 2, 0.0), (1, -self.plant.rtt_s / 4)):
            self.seen[place].append((time.time_ns() + round(way * 1e9), packet))
        os.write(self._fds[side], packet)


class Conversation:
    """One conversation; `slept` has how long its programs slept, by the limit that this is."""

    def __init__(self, names: dict[str, str], plant: Plant, port: int) -> None:
        self.names, self.plant, self.port = names, plant, port
        self.slept: dict[str, float] = {}
        self.info: dict[str, float] = {}

    def play(self) -> None:
        plant = self.plant
        with inside(self.names["server"]):
            listener = socket.socket()
        with inside(self.names["client"]):
            client = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for end, sends in ((listener, not plant.upload), (client, plant.upload)):
            end.settimeout(PATIENCE_S)
            if plant.sndbuf and sends:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, plant.sndbuf)
            if plant.rcvbuf and not sends:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, plant.rcvbuf)
        listener.bind((ADDRESS, self.port))
        listener.listen(1)
        server = threading.Thread(target=self._serve, args=(listener,))
        server.start()
        with client, suppress(OSError):
            client.connect((ADDRESS, self.port))
            for turn in range(plant.requests):
                if turn:
                    self._sleep("client", plant.client_s)
                self._write(client) if plant.upload else client.sendall(b"?" * 100)
                self._read(client, 100 if plant.upload else plant.size)
            self._sleep("end", plant.linger_s)
            if plant.upload:
                self._account(client)
        server.join()

    def _serve(self, listener: socket.socket) -> None:
        with listener, suppress(OSError):
            taken, _ = listener.accept()
            with taken, suppress(OSError):
                taken.settimeout(PATIENCE_S)
                for _ in range(self.plant.requests):
                    self._read(taken, self.plant.size if self.plant.upload else 100)
                    self._sleep("server", self.plant.server_s)
                    taken.sendall(b"!" * 100) if self.plant.upload else self._write(taken)
                while taken.recv(100):
                    pass
                if not self.plant.upload:
                    self._account(taken)

    def _sleep(self, limit: str, seconds: float) -> None:
        began = time.monotonic()
        if seconds:
            time.sleep(seconds)
            self.slept[limit] = self.slept.get(limit, 0.0) + time.monotonic() - began

    def _write(self, end: socket.socket) -> None:
        chunk = self.plant.chunk or self.plant.size
        for at in range(0, self.plant.size, chunk):
            if at:
                self._sleep("sender", self.plant.pause_s)
            end.sendall(b"x" * min(chunk, self.plant.size - at))

    def _read(self, end: socket.socket, size: int) -> None:
        left, pause = size, self.plant.read
        while left > 0:
            some = end.recv(min(left, 65536))
            if not some:
                raise OSError("closed")
            left, pause = left - len(some), pause - len(some)
            if self.plant.read and pause <= 0 and left > 0:
                self._sleep("reader", self.plant.read_s)
                pause = self.plant.read

    def _account(self, end: socket.socket) -> None:
        """What the kernel says held this sender back (linux/tcp.h, struct tcp_info): microseconds there."""
        data = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
        names = ("busy", "receive-window", "sender")
        self.info = dict(zip(names, (us / 1e6 for us in struct.unpack_from("QQQ", data, 168)), strict=True))


def play(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Play these; write captures; return what programs and kernel say of each."""
    found: dict[str, Any] = {}
    with rig(kind=PlantedPath) as path:
        for name in names:
            # KIND-WAY-MS
            plant = dict(plants(int(name.rpartition("-")[2])))[name]
            assert isinstance(path, PlantedPath)
            for netns in path.names.values():
                links.sysctl(netns, [*SETTINGS, ("net/ipv4/tcp_mtu_probing", str(plant.probing))])
                links.ip(netns, ["link set tun0 txqueuelen 10000", "route flush cache"])
            path.begin(plant)
            one = Conversation(path.names, plant, path.port)
            one.play()
            time.sleep(3 * plant.rtt_s + 1)
            for place, frames in zip(PLACES, path.seen, strict=True):
                written = capture_bytes.pcap(sorted(frames, key=itemgetter(0)), nano=True)
                (folder / f"{name}.{place}.pcap").write_bytes(written)
            found[name] = {"slept": one.slept, "info": one.info}
            print(name, found[name], flush=True)
    return found


if __name__ == "__main__":
    Path(GUEST_OUTPUT, "found.json").write_text(json.dumps(play(Path(GUEST_OUTPUT), sys.argv[1:])))
