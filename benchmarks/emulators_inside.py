# SPDX-License-Identifier: MIT
"""Where benchmarks.emulators measures: in the lab's guest, datagrams and TCP over conditions of configtron/lab/testbed.

    python -m benchmarks.emulators_inside PLAYER PART...     in the guest; PLAYER is player.program(), built outside

A line of JSON for each measurement goes to the output folder's `found.jsonl`; what it must be is `emulators.py`'s.
"""

from __future__ import annotations

import ctypes
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.emulators import (
    COSTS,
    LINE_RATES,
    MATHIS,
    PINGS,
    SLOW_STARTS,
    capacities,
    download_bytes,
    nominal_kbit,
    plain,
)
from configtron.lab.testbed.conditions import Condition
from configtron.lab.testbed.families import named
from configtron.lab.testbed.network import CLIENT, CLIENT_ADDRESS, FRAME_BYTES, SERVERS, Testbed, raise_testbed
from configtron.lab.testbed.stack import ServerStack
from configtron.lab.testbed.wires import FAR
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from configtron.linux.netns import inside
from configtron.model.nouns import Profile
from configtron.tune.drivers import load

PORT = 7000
# A full packet, without the headers of IP and UDP.
DATAGRAM = bytes(1500 - 28)
# So much more than the link carries is offered, evenly.
OVERLOAD = 1.25
# The link's queue fills before the count begins.
WARM_UP_S = 1.0
PR_SET_TIMERSLACK = 29
SO_MAX_PACING_RATE = 47
CHUNK = memoryview(bytes(1 << 20))
# A request of TCP's rows: one segment, answered by the bytes it names.
REQUEST_BYTES = 16

Row = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Each part in turn."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    player, *parts = arguments
    testbed = raise_testbed(plain(0, 0, 0), ["a.test"], player=Path(player))
    stack = ServerStack(testbed, load)
    try:
        with (Path(GUEST_OUTPUT) / "found.jsonl").open("w") as sink:
            for part in parts:
                name, _, rest = part.partition("=")
                for row in PARTS[name](testbed, stack, rest):
                    print(json.dumps({"part": name, **row}), file=sink, flush=True)
    finally:
        testbed.close()
    return 0


def _capacity(testbed: Testbed, stack: ServerStack, only: str) -> Iterator[Row]:
    """More datagrams than the link carries, in one direction."""
    for name, direction, seconds in capacities():
        if not _is_asked(name, only):
            continue
        testbed.change(named(name), seed=1)
        yield {"name": name, "direction": direction, **_overload(testbed, named(name), direction, seconds)}


def _is_asked(name: str, only: str) -> bool:
    """Parts are asked for whole, or as PART=NAME,NAME."""
    return not only or name in only.split(",")


def _overload(testbed: Testbed, condition: Condition, direction: str, seconds: float) -> Row:
    """Datagrams are paced by fq and counted by the device that they come in by."""
    played = condition.is_played
    if direction == "down":
        source, out, target, into, address = SERVERS, "s0", CLIENT, FAR if played else "c0", CLIENT_ADDRESS
    else:
        source, out, target, into, address = CLIENT, FAR if played else "c0", SERVERS, "s0", testbed.addresses["a.test"]
    # one frame at a time: fq lets two pass at once by default, and a policer's queue has room for one
    fq = f"fq quantum {FRAME_BYTES} initial_quantum {FRAME_BYTES}"
    subprocess.run(["tc", "-n", source, "qdisc", "replace", "dev", out, "root", *fq.split()], check=True)
    with inside(target):
        silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        silent.bind((address, PORT))
    with inside(source):
        sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sending.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, _pace(condition, direction))
        sending.connect((address, PORT))
    delay = (condition.down if direction == "down" else condition.up).delay_ms / 1e3
    with silent, sending:
        _send_until(sending, time.monotonic() + WARM_UP_S + delay)
        began, before = time.monotonic(), _received(target, into)
        _send_until(sending, began + seconds)
        ended, after = time.monotonic(), _received(target, into)
    return {"kbit": (after - before) * 1500 * 8 / (ended - began) / 1e3, "packets": after - before}


def _pace(condition: Condition, direction: str) -> int:
    """Bytes a second, of frames."""
    return round(nominal_kbit(condition, direction) * 1e3 / 8 * OVERLOAD * FRAME_BYTES / 1500)


def _send_until(sending: socket.socket, end: float) -> None:
    while time.monotonic() < end:
        sending.send(DATAGRAM)


def _received(netns: str, device: str) -> int:
    """Packets that came in by a device."""
    with inside(netns):
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    return next(int(line.split()[2]) for line in lines if line.strip().startswith(f"{device}:"))


@contextmanager
def _serving(testbed: Testbed) -> Iterator[None]:
    """Send a client as many bytes as it asks for."""
    with inside(SERVERS):
        listener = socket.create_server((testbed.addresses["a.test"], PORT), backlog=64)

    def serve() -> None:
        while True:
            try:
                peer = listener.accept()[0]
            except OSError:
                return
            with peer:
                left = int(peer.recv(REQUEST_BYTES) or 0)
                while left:
                    left -= peer.send(CHUNK[: min(left, len(CHUNK))])

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        server.join()


def _download(testbed: Testbed, size: int) -> list[tuple[float, int]]:
    """Moments since the connection was asked for, and bytes until then."""
    with inside(CLIENT):
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    began, got = time.monotonic(), 0
    found: list[tuple[float, int]] = []
    with client:
        client.connect((testbed.addresses["a.test"], PORT))
        client.sendall(str(size).ljust(REQUEST_BYTES).encode())
        while got < size:
            got += len(client.recv(1 << 20))
            found.append((time.monotonic() - began, got))
    return found


def _set(stack: ServerStack, congestion_control: str, window: int = 10) -> None:
    pacing = "fq" if congestion_control == "bbr" else "pfifo_fast"
    knobs = (("tcp_congestion_control", congestion_control), ("initcwnd", window), ("pacing", pacing))
    stack.apply(Profile(f"{congestion_control}/{window}", knobs))


def _slow_start(testbed: Testbed, stack: ServerStack, _: str) -> Iterator[Row]:
    for window, size, rtt in SLOW_STARTS:
        testbed.change(plain(0, rtt, 0), seed=1)
        _set(stack, "reno", window)
        with _serving(testbed):
            yield {"window": window, "size": size, "rtt": rtt, "took_s": _download(testbed, size)[-1][0]}


def _line_rate(testbed: Testbed, stack: ServerStack, _: str) -> Iterator[Row]:
    for mbit, rtt, scheme in LINE_RATES:
        testbed.change(named(f"hotcloud:{mbit:g}/{rtt}/0"), seed=1)
        _set(stack, scheme)
        with _serving(testbed):
            found = _download(testbed, download_bytes(mbit))
        # the last two thirds: slow start is over
        (from_s, before), (to_s, after) = found[len(found) // 3], found[-1]
        yield {"mbit": mbit, "rtt": rtt, "scheme": scheme, "kbit": (after - before) * 8 / (to_s - from_s) / 1e3}


def _mathis(testbed: Testbed, stack: ServerStack, _: str) -> Iterator[Row]:
    for rtt, loss, size in MATHIS:
        testbed.change(plain(0, rtt, loss), seed=1)
        _set(stack, "reno")
        with _serving(testbed):
            took_s, got = _download(testbed, size)[-1]
        yield {"rtt": rtt, "loss": loss, "kbit": got * 8 / took_s / 1e3}


def _ping(testbed: Testbed, stack: ServerStack, _: str) -> Iterator[Row]:
    for name in PINGS:
        testbed.change(named(name), seed=1)
        words = ["ip", "netns", "exec", CLIENT, "ping", "-c", "5", "-i", "0.5", "-q", testbed.addresses["a.test"]]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        yield {"name": name, "least_ms": float(output.rpartition(" = ")[2].split("/")[0])}


def _cost(testbed: Testbed, stack: ServerStack, words: str) -> Iterator[Row]:
    """So many changes of one kind; the host's clock sees what they cost."""
    kind, _, count = words.partition(",")
    changes: dict[str, Callable[[int], object]] = {
        "condition": lambda n: testbed.change(named("hotcloud:5/150/1"), seed=n),
        "played": lambda n: testbed.change(named("pantheon:1"), seed=n),
        "configuration": lambda n: stack.apply(Profile(str(n), COSTS[n % len(COSTS)])),
    }
    changes[kind](0)
    for number in range(int(count)):
        changes[kind](number)
    yield {"kind": kind, "count": int(count)}


PARTS: dict[str, Callable[[Testbed, ServerStack, str], Iterator[Row]]] = {
    "capacity": _capacity,
    "slow-start": _slow_start,
    "line-rate": _line_rate,
    "mathis": _mathis,
    "ping": _ping,
    "cost": _cost,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
