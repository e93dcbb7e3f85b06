# SPDX-License-Identifier: MIT
"""`learn serve --local --policy initial` on this kernel: connections over a path teach it windows; then `kill -9`.

    python -m tests.support.served_initially FOLDER DRIVER SECONDS

as root in namespaces of its own (`support/isolation.py`); prints what was seen as JSON. SECONDS is the longest wait for
the first learned window. Clients of some prefixes fetch the same bytes again and again over a path of 60 ms that loses
a packet in some hundred. Each connection's initial window is read of the server's socket when it was accepted.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configtron.db.end_state_rows import EndStateRows
from configtron.db.tuning import Tuning
from configtron.fingerprint.tcp_info import field_of
from configtron.learner.window_maker import MOST_LEARNED, MOST_OF_ONE
from configtron.linux import netns
from tests.support.impaired_path import Rig, rig
from tests.support.waiting import PATIENCE_S, until

SERVER, PORT, SIZE, BEACONS = "10.99.0.2", 8080, 60_000, "127.0.0.1:9315"
PREFIXES, CLIENTS, DEFAULT = 6, 4, 10
DELAY_S, LOSS, EPOCH_S = 0.03, 0.001, 10
STRATEGIES = {"null", "pred-round"}
# s for which windows are looked at: some forty connections begin.
LOOKS_S = 3.0


class Fetched(NamedTuple):
    """One connection: when it began, its initial window, and how long it took, s."""

    at_s: float
    prefix: int
    window: int
    seconds: float


class Traffic:
    """Connections of all prefixes until it is stopped."""

    def __init__(self, path: Rig) -> None:
        self.done: list[Fetched] = []
        self._windows: dict[int, int] = {}
        self._stop = threading.Event()
        self._path = path
        with netns.inside(path.names["server"]):
            self._listener = socket.create_server((SERVER, PORT), backlog=64)
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads += [threading.Thread(target=self._fetch_all, args=(one,)) for one in range(PREFIXES)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads[1:]:
            thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                served, (_, port) = self._listener.accept()
                info = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                # A connection whose SYN-ACK was sent again begins with one segment, whatever is in force.
                if not field_of(info, "total_retrans"):
                    self._windows[port] = field_of(info, "snd_cwnd")
                threading.Thread(target=_answer, args=(served,), daemon=True).start()

    def _fetch_all(self, prefix: int) -> None:
        turn = 0
        while not self._stop.is_set():
            with suppress(OSError):
                self._fetch(prefix, f"10.98.{prefix}.{turn % CLIENTS + 1}")
            turn += 1
            self._stop.wait(0.2)

    def _fetch(self, prefix: int, source: str) -> None:
        with netns.inside(self._path.names["client"]):
            client = socket.socket()
        with client:
            client.settimeout(PATIENCE_S)
            client.bind((source, 0))
            began = time.monotonic()
            client.connect((SERVER, PORT))
            client.sendall(b"x")
            got = 0
            while got < SIZE and (some := client.recv(SIZE)):
                got += len(some)
            window = self._windows.pop(client.getsockname()[1], None)
            if got == SIZE and window is not None:
                self.done.append(Fetched(began, prefix, window, time.monotonic() - began))

    def windows(self, since_s: float) -> Counter[int]:
        """Return how many connections that began since then had each initial window."""
        return Counter(one.window for one in tuple(self.done) if one.at_s >= since_s)

    def wait_for_larger(self, since_s: float, at_most_s: float) -> None:
        """Return when a connection that began since then had a larger window than the untouched stack's."""
        until = time.monotonic() + at_most_s
        while time.monotonic() < until and not set(self.windows(since_s)) - {DEFAULT}:
            time.sleep(1.0)

    def look(self) -> Counter[int]:
        """Return the windows of connections that begin within the next seconds."""
        since_s = time.monotonic()
        time.sleep(LOOKS_S)
        return self.windows(since_s)

    def seconds(self) -> dict[str, float]:
        """Return how long connections took in the median, by whether their window was the untouched stack's."""
        found = tuple(self.done)
        parts = {"default": [one.seconds for one in found if one.window == DEFAULT],
                 "larger": [one.seconds for one in found if one.window > DEFAULT]}  # fmt: skip
        return {name: float(np.median(some)) if some else 0.0 for name, some in parts.items()}


def _answer(served: socket.socket) -> None:
    with served, suppress(OSError):
        served.recv(1)
        served.sendall(bytes(SIZE))
        served.shutdown(socket.SHUT_WR)
        served.recv(1)


@contextmanager
def clients_path() -> Iterator[Rig]:
    """The path, with the addresses of all clients at its one end and the way back at the other."""
    # Names of other programs' network namespaces are neither seen nor swept, nor ours.
    Path("/run/netns").mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run/netns"], check=True)
    with rig(delay_s=DELAY_S, loss=LOSS) as path:
        for prefix in range(PREFIXES):
            for client in range(CLIENTS):
                ip(path, "client", "addr", "add", f"10.98.{prefix}.{client + 1}/32", "dev", "tun0")
        ip(path, "server", "route", "add", "10.98.0.0/16", "dev", "tun0")
        yield path


def ip(path: Rig, end: str, *words: str) -> str:
    """Run ip(8) at an end."""
    command = ["ip", "-n", path.names[end], *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def state_of(path: Rig) -> str:
    """Return what a driver may have left at the server: its routes, its rules, its pins."""
    shown = [ip(path, "server", *words) for words in (("rule",), ("route", "show", "table", "all"))]
    return "\n".join((*shown, *sorted(map(str, Path("/sys/fs/bpf").rglob("*")))))


class Serving:
    """`learn serve --local --policy initial`, in the server's network namespace."""

    def __init__(self, path: Rig, folder: Path, driver: str) -> None:
        self.log, self.database = folder / "served", folder / "loop.db"
        options = {"driver": driver, "policy": "initial", "strategies": "null=0.5,pred-round=0.5", "epoch": EPOCH_S,
                   "holdback": 0.0, "port": PORT, "beacons": BEACONS,
                   "log-socket": folder / "log"}  # fmt: skip
        self._command = ["nsenter", f"--net=/run/netns/{path.names['server']}", sys.executable, "-m", "configtron"]
        self._command += ["--db", str(self.database), "learn", "serve", "--local", "--no-stages"]
        self._command += [word for name, value in options.items() for word in (f"--{name}", str(value))]

    def start(self) -> subprocess.Popen[bytes]:
        """Start it; its words are added to the log."""
        with open(self.log, "a") as output:
            return subprocess.Popen(self._command, stdout=output, stderr=output)


def main(folder: Path, driver: str, seconds: float) -> None:
    """Serve, fetch, kill, look; serve again, end it, look."""
    with ExitStack() as stack:
        path = stack.enter_context(clients_path())
        before, serving = state_of(path), Serving(path, folder, driver)
        traffic = stack.enter_context(Traffic(path))
        seen: dict[str, Any] = {"before": traffic.look()}
        began_s, process = time.monotonic(), serving.start()
        stack.callback(lambda: process.kill())
        traffic.wait_for_larger(began_s, seconds)
        wait_for_ends(serving.database, began_s + seconds)
        seen |= {"during": traffic.look(), "state during": state_of(path) != before, "running": process.poll()}
        process.send_signal(signal.SIGKILL)
        process.wait()
        # The kernel's lease, or the watchdog's, puts back what stood.
        until(lambda: not _other_lines(before, state_of(path)), lambda: _other_lines(before, state_of(path)))
        seen |= {"killed": traffic.look(), "state killed": _other_lines(before, state_of(path))}
        began_s, process = time.monotonic(), serving.start()
        traffic.wait_for_larger(began_s, PATIENCE_S)
        seen["again"] = traffic.windows(began_s)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        seen |= {"ended": traffic.look(), "state ended": _other_lines(before, state_of(path))}
        seen["seconds"] = traffic.seconds()
        print(json.dumps({**seen, **stored(serving.database), "log": serving.log.read_text()}))


def wait_for_ends(database: Path, until_s: float) -> None:
    """Return when connections of both strategies have ended and are rows, or it is that late."""
    while time.monotonic() < until_s:
        with EndStateRows(database) as rows:
            if STRATEGIES <= set(rows.latest(MOST_LEARNED, MOST_OF_ONE).strategy.tolist()):
                return
        time.sleep(1.0)


def _other_lines(before: str, after: str) -> list[str]:
    """Return the lines that came or went; the kernel itself adds and drops cached routes."""
    return sorted(line for line in set(before.splitlines()) ^ set(after.splitlines()) if "cache" not in line)


def stored(database: Path) -> dict[str, Any]:
    """Return what the database has of ends: how many, of which strategies, how many with a window and round trips."""
    with EndStateRows(database) as rows:
        states = rows.latest(MOST_LEARNED, MOST_OF_ONE)
    with Tuning(database) as journal:
        leased = sum(one.status == "leased" for one in journal.acts())
    known = {name: int((~np.isnan(getattr(states, name))).sum()) for name in ("max_cwnd", "max_rtt_ms", "packets_in")}
    return {
        "ends": len(states), "teach": int(states.teaches.sum()), "known": known, "leased": leased,
        "strategies": Counter(states.strategy.tolist()), "rtt_ms": float(np.nanmedian(states.min_rtt_ms)),
        "max_rtt_ms": float(np.nanmedian(states.max_rtt_ms)),
    }  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
