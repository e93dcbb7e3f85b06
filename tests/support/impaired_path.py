# SPDX-License-Identifier: MIT
"""Two namespaces and a path between them that delays, loses, swaps and doubles packets: real programs, real kernels,
our troubles. With `merged` the kernels hand over super-frames, as captures show where offloading is on.

The path is two TUN devices with this process between them, so nothing of the host's network is touched and no kernel
module but tun is needed. What is lost and swapped is drawn from a seed, but which packet that hits depends on timing.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

from configtron.probe.wire.namespaces import ip
from tests.support.children import child
from tests.support.namespaces import throwaway
from tests.support.waiting import PATIENCE_S

TUNSETIFF, IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 1, 0x1000, 0x4000
# What we take unfinished: checksums, segments of TCP over IPv4 and IPv6; 10 bytes before each packet say so.
TUNSETOFFLOAD, OFFLOADS, VNET_HEADER = 0x400454D0, 0x01 | 0x02 | 0x04, 10
# setns(2): a network namespace.
CLONE_NEWNET = 0x40000000
ADDRESSES = {"client": ("10.99.0.1/24", "fd99::1/64"), "server": ("10.99.0.2/24", "fd99::2/64")}


class Rig:
    """`run` a program at one end; packets pass while the rig stands."""

    def __init__(
        self, names: dict[str, str], delay_s: float, loss: float, swap: float, double: float, merged: bool, seed: int
    ) -> None:
        self.names = names
        self.delay_s, self.loss, self.swap, self.double, self.merged = delay_s, loss, swap, double, merged
        # Client's IPv4 address -> its one-way delay, s, in place of `delay_s`; it may change while packets pass.
        self.delays: dict[str, float] = {}
        self.chance = random.Random(seed)
        self._fds: list[int] = []
        self._stop, self._wake = os.pipe()

    def run(self, end: str, *words: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a program to its end."""
        return subprocess.run(
            ["ip", "netns", "exec", self.names[end], *words], capture_output=True, timeout=PATIENCE_S, **more
        )

    @contextmanager
    def running(self, end: str, *words: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Have a program run meanwhile."""
        command = ["ip", "netns", "exec", self.names[end], *words]
        with child(command, signal.SIGTERM, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as process:
            yield process

    @contextmanager
    def recording(self, end: str, path: Path, *words: str) -> Iterator[None]:
        """tcpdump at one end."""
        with self.running(end, "tcpdump", "-i", "tun0", "-U", "-w", str(path), *words) as child:
            assert child.stderr is not None
            line = b""
            while b"listening on" not in line:
                line = child.stderr.readline()
                assert line, "tcpdump ended"
            yield
            # What is under way still arrives; tcpdump is asked to stop, not killed, and writes what it has.
            # A busy machine hands it packets late.
            time.sleep(3 * self.delay_s + 1.0)

    def _raise(self) -> None:
        for end, name in self.names.items():
            self._fds.append(self._tun(name))
            ip("link", "set", "tun0", "up", netns=name)
            for address in ADDRESSES[end]:
                ip("addr", "add", address, "dev", "tun0", *(["nodad"] if ":" in address else []), netns=name)

    def _tun(self, namespace: str) -> int:
        """A TUN device in a namespace, made by a thread of its own so that we stay where we are."""
        made: list[int] = []

        def make() -> None:
            import ctypes

            with open(f"/run/netns/{namespace}", "rb") as place:
                assert ctypes.CDLL(None, use_errno=True).setns(place.fileno(), CLONE_NEWNET) == 0
                fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
                flags = IFF_TUN | IFF_NO_PI | (IFF_VNET_HDR if self.merged else 0)
                fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"tun0", flags))
                if self.merged:
                    fcntl.ioctl(fd, TUNSETOFFLOAD, OFFLOADS)
                made.append(fd)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def _carry(self) -> None:
        """Packets from one end to the other, until asked to stop."""
        one, other = self._fds
        due: list[tuple[float, int, int, bytes]] = []
        order = count()
        while True:
            wait = max(due[0][0] - time.monotonic(), 0) if due else None
            ready, _, _ = select.select([one, other, self._stop], [], [], wait)
            if self._stop in ready:
                return
            for fd in ready:
                data = os.read(fd, 65535 + VNET_HEADER)
                if self.chance.random() >= self.loss:
                    delay_s = self._delay_of(data)
                    for _ in range(1 + (self.chance.random() < self.double)):
                        late = delay_s * 0.3 if self.chance.random() < self.swap else 0.0
                        heappush(due, (time.monotonic() + delay_s + late, next(order), self._across(fd), data))
            while due and due[0][0] <= time.monotonic():
                _, _, to, data = heappop(due)
                os.write(to, data)

    def _delay_of(self, data: bytes) -> float:
        """Return a packet's delay, by the client whose it is; of IPv6 and with `merged` there is one for all."""
        if not self.delays or self.merged:
            return self.delay_s
        ends = (socket.inet_ntoa(data[at : at + 4]) for at in (12, 16))
        return next((self.delays[end] for end in ends if end in self.delays), self.delay_s)

    def _across(self, fd: int) -> int:
        return self._fds[1] if fd == self._fds[0] else self._fds[0]


@contextmanager
def rig(
    *, delay_s: float = 0.02, loss: float = 0.0, swap: float = 0.0, double: float = 0.0,
    merged: bool = False, seed: int = 1, kind: type[Rig] = Rig,
) -> Iterator[Rig]:  # fmt: skip
    """Raise it, have it carry, take it down. Its namespaces are its process's own, whatever other tests run here."""
    with ExitStack() as stack:
        names = {end: stack.enter_context(throwaway(end)) for end in ADDRESSES}
        made = kind(names, delay_s, loss, swap, double, merged, seed)
        carrier = threading.Thread(target=made._carry, daemon=True)
        try:
            made._raise()
            carrier.start()
            yield made
        finally:
            os.write(made._wake, b"x")
            if carrier.ident is not None:
                carrier.join()
            for fd in made._fds:
                os.close(fd)
