# SPDX-License-Identifier: MIT
"""Bulk flows of other hosts through the same link while a page loads, and the bytes that the page costs them.

Question   How many bytes do the neighbours lose for each byte of the page?
Method     A namespace behind the servers' has a device, an address and a delay for each neighbour: each neighbour's
           round trip is one to two times the page's. A sender with the kernel's default stack and cubic always has data
           to send; the client counts the bytes that it reads. The delays, and the phase of each flow's cubic sawtooth
           at the page's start, are drawn from the load's seed: the same under every configuration. A run of the same
           flows with the same seed and no page shows their bytes without it. Bytes count from the page's start to
           `AFTERWARDS_S` after its end.
Reads as   neighbour bytes lost, to be divided by the page's bytes: 1.0 the page took its own size, 0 it used idle
           capacity only, above 1 it hurt the neighbours.
Fails as   `Missing`, `Mismatch` where a namespace or a delay is not as configured.
Differs    from a share of the link: a page that is done sooner takes a larger share for a shorter time.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from configtron.lab.testbed.competing_host import raise_host
from configtron.lab.testbed.conditions import MOST_NEIGHBOURS, Condition
from configtron.lab.testbed.wires import CLIENT, ORIGINS_NET
from configtron.linux.netns import inside
from configtron.linux.qdisc import Qdiscs, differences, netem
from configtron.model.errors import Mismatch

NEIGHBOURS, PORT = "neighbours", 7100
# Last byte of the first neighbour's address, above the origins' (`wires.MOST_ORIGINS`) and below the router's 254;
# number of the servers' first device towards the neighbours, s5.
FIRST_ADDRESS, FIRST_BEHIND = 240, 5
# The warm-up lasts 4 s plus 4 drain times of the bottleneck queue: by then a cubic flow has left slow start and had
# its first loss.
WARM_S, WARM_QUEUES = 4.0, 4.0
# A random part of this is added to the warm-up; it is longer than one period of cubic's sawtooth at these rates.
PHASE_S = 4.0
# s after the page's end in which lost bytes still count: a congestion window that was halved takes time to grow back.
AFTERWARDS_S = 1.5
# s after the page's start for which the run without the page goes on; for later times `ByteLog.until` takes the mean
# rate of the log's second half.
ALONE_S = 15.0
# Longest round trip of a neighbour, in round trips of the page.
LONGEST = 2.0
# SO_RCVLOWAT of the client: 16 KiB, 13 ms at 10 Mbit/s.
LOW_WATER_BYTES = 1 << 14
CHUNK, DISCARD = memoryview(bytes(1 << 20)), bytearray(1 << 20)
# SO_LINGER: on, 0 s; closing is a reset.
RESET = struct.pack("ii", 1, 0)
LOOK_EVERY_S = 0.25


@dataclass(frozen=True)
class FlowStarts:
    """When the flows start, and their delays, drawn from a load's seed.

    added_ms   delay that each flow has beyond the page's round trip (ms)
    start_s    from the flows' start to the page's start (s)
    fraction   fraction of a second of the monotonic clock at which the flows start, 0 to 1
    """

    added_ms: tuple[float, ...]
    start_s: float
    fraction: float

    @staticmethod
    def of(condition: Condition, seed: int) -> FlowStarts:
        """Return the plan for this load: the same for the same condition and seed."""
        chance = Random(f"neighbours {condition.salt} {seed}")
        added = tuple((LONGEST - 1) * condition.rtt_ms * chance.random() for _ in range(condition.neighbours))
        down = condition.down
        queue_s = down.queue_bytes * 8e-3 / down.rate_kbit if down.rate_kbit else 0.0
        return FlowStarts(added, WARM_S + WARM_QUEUES * queue_s + PHASE_S * chance.random(), chance.random())


@dataclass(frozen=True)
class ByteLog:
    """Bytes that all neighbours together had received (total_bytes) at each time (at_s), in order of time.

    Times are in s since the flows' start; end_s: the time at which the log ends.
    """

    at_s: Sequence[float]
    total_bytes: Sequence[int]
    end_s: float

    def until(self, at_s: float) -> float:
        """Return bytes received before a time (s); after the log's end, at the mean rate of the log's second half."""
        if at_s > self.end_s:
            half_s = self.end_s / 2
            rate = (self.until(self.end_s) - self.until(half_s)) / (self.end_s - half_s)
            return self.until(self.end_s) + rate * (at_s - self.end_s)
        place = bisect_left(self.at_s, at_s)
        return self.total_bytes[place - 1] if place else 0


def lost_bytes(alone: ByteLog, beside: ByteLog, begun_s: float, end_s: float) -> float:
    """Return the bytes that neighbours lost to the page, from its start to `AFTERWARDS_S` after its end."""
    end_s += AFTERWARDS_S
    return (alone.until(end_s) - alone.until(begun_s)) - (beside.until(end_s) - beside.until(begun_s))


class Neighbourhood:
    """The neighbours' host, set up once per boot after the testbed; it runs the flows of one load at a time."""

    def __init__(self) -> None:
        """Errors: `Missing`."""
        self.addresses = tuple(f"{ORIGINS_NET}.{FIRST_ADDRESS + n}" for n in range(MOST_NEIGHBOURS))
        raise_host(NEIGHBOURS, self.addresses, FIRST_BEHIND)
        self._qdiscs = Qdiscs(NEIGHBOURS)

    @contextmanager
    def flows(self, plan: FlowStarts) -> Iterator[Flows]:
        """Yield running flows with the plan's delays, until the block ends; they start at the plan's clock fraction."""
        self._delay(plan)
        now = time.monotonic()
        time.sleep((plan.fraction - now) % 1 + 1)
        with Flows(self.addresses[: len(plan.added_ms)]) as flows:
            yield flows

    def _delay(self, plan: FlowStarts) -> None:
        """Set the delays and read them back. Errors: `Mismatch`."""
        wanted = {f"v{n}": (netem(delay_ms=added, seed=1),) for n, added in enumerate(plan.added_ms)}
        self._qdiscs.put(wanted)
        found = self._qdiscs.read()
        if wrong := [words for device, queue in wanted.items() for words in differences(queue, found[device])]:
            raise Mismatch(f"a neighbour's delay is not as asked: {'; '.join(wrong)}")


class Flows:
    """Senders that always have data to send, and a client that counts the bytes it reads, all in one thread."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._over = threading.Event()
        self._at: list[float] = []
        self._totals: list[int] = []
        self._total = 0
        self._ready = selectors.DefaultSelector()
        self._open: list[socket.socket] = []
        for number, address in enumerate(addresses):
            self._connect(number, address)
        self.began = time.monotonic()
        self._thread = threading.Thread(target=self._drive)

    def _connect(self, number: int, address: str) -> None:
        with inside(NEIGHBOURS), socket.create_server((address, PORT)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, f"v{number}".encode())
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            with inside(CLIENT):
                client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, LOW_WATER_BYTES)
            client.connect((address, PORT))
            sender = listener.accept()[0]
        ends = ((sender, selectors.EVENT_WRITE, self._send), (client, selectors.EVENT_READ, self._receive))
        for end, event, handler in ends:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._ready.register(end, event, handler)
            self._open.append(end)

    def __enter__(self) -> Flows:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for one in self._open:
            one.close()
        self._ready.close()

    def _drive(self) -> None:
        while not self._over.is_set():
            for key, _ in self._ready.select(LOOK_EVERY_S):
                assert isinstance(key.fileobj, socket.socket)
                try:
                    key.data(key.fileobj)
                except BlockingIOError:
                    pass
                except OSError:
                    # a flow that the kernel has given up is watched no more: its bytes are lost
                    self._ready.unregister(key.fileobj)

    def _send(self, one: socket.socket) -> None:
        one.send(CHUNK)

    def _receive(self, one: socket.socket) -> None:
        # MSG_TRUNC: the kernel counts the bytes and discards them without a copy
        self._total += one.recv_into(DISCARD, 0, socket.MSG_TRUNC)
        self._at.append(time.monotonic() - self.began)
        self._totals.append(self._total)

    def log(self) -> ByteLog:
        """Return the counts up to now."""
        end_s, count = time.monotonic() - self.began, len(self._totals)
        return ByteLog(self._at[:count], self._totals[:count], end_s)
