# SPDX-License-Identifier: MIT
"""Claim: the initial window is read right on real servers, whatever it is set to, however it is asked; or bounded.

    python -m benchmarks.icw [N...]      as root; the windows to try, 14 of them by default

Raises nginx, Apache, h2o, Caddy and HAProxy on this host, sets the kernel's initial window for their answers to N by a
route, and reads it by every combination of segment size, SACK and timestamps, three ways: over HTTP, by the certificate
flight, at a request inside TLS. Truth is N; at a request it is what the kernel says of that very connection while its
answer is withheld (`ss -ti`), since a handshake may have grown the window. Exit code 1 if any value is wrong.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge
from configtron.model.nouns import Observation, Target, Trace, Value
from configtron.probe.wire.namespaces import addresses, ip, owner
from configtron.probe.wire.pump import Pump
from tests.support.servers import Raised, raised

WINDOWS = (1, 2, 3, 4, 6, 10, 16, 20, 24, 30, 32, 45, 64, 100)
SERVERS = ("nginx", "apache", "h2o", "caddy", "haproxy")
SIZES = (64, 536, 1460)
WAYS = {"icw": "HTTP", "icw_tls": "certificate", "cwnd_at_request": "TLS at request"}
PORTS = range(1024, 32768)
# How often the kernel is asked: an answer is withheld for 80 ms at least.
ASK_EVERY_S = 0.025
# Connections to one server at once: at more, one worker process answers later than our patience for a burst.
AT_ONCE = 60


class Case(NamedTuple):
    """One connection's question."""

    server: str
    probe: str
    params: tuple[tuple[str, Value], ...]
    target: Target


def cases(standing: Raised) -> Iterator[Case]:
    """Every combination; runs without SACK open the gate early."""
    for probe, mss, sack, stamps in product(WAYS, SIZES, (False, True), (False, True)):
        row: dict[str, Value] = {"mss": mss, "sack": sack, "timestamps": stamps, "wscale": 7, "early": not sack}
        for target in standing.clear if probe == "icw" else standing.tls:
            yield Case(target.provider, probe, tuple(sorted(row.items())), target)


class Kernel:
    """What the servers' kernel says of its connections: our port -> (asked, answered, window); ns, segments."""

    def __init__(self, netns: str) -> None:
        self._netns, self._asked_at = netns, 0.0
        self.samples: dict[int, list[tuple[int, int, int]]] = {}

    def ask(self) -> None:
        """Note every window, unless it was just done."""
        if time.monotonic() - self._asked_at < ASK_EVERY_S:
            return
        self._asked_at, asked_ns = time.monotonic(), time.time_ns()
        output = subprocess.run(
            ["ip", "netns", "exec", self._netns, "ss", "-Htin", "sport", "=", ":443"], capture_output=True, text=True
        ).stdout
        now_ns = time.time_ns()
        for port, line, window in re.findall(r":(\d+)\s*\n(\s.*?\bcwnd:(\d+).*)", output):
            # A timer has fired: the window is that of a loss.
            if " lost:" in line or " backoff:" in line:
                continue
            self.samples.setdefault(int(port), []).append((asked_ns, now_ns, int(window)))

    def window(self, trace: Trace, port: int, begin_at: float, end_at: float) -> int | None:
        """The window of a connection between two times of its trace, if it was asked for then."""
        begin_ns, end_ns = (trace.started_at + int(at * 1e9) for at in (begin_at, end_at))
        samples = self.samples.get(port, ())
        found = [window for asked_ns, now_ns, window in samples if begin_ns < asked_ns and now_ns < end_ns]
        return found[0] if found else None


def held(trace: Trace) -> tuple[float, float]:
    """From the request's answer to whatever ended the withholding, in the trace's time."""
    asked = max(n for n, p in enumerate(trace.packets) if p.way == "out" and p.segment.length)
    came = [p for p in trace.packets[asked:] if p.way == "in" and p.segment.length]
    acked = next((p.at for p in trace.packets[asked + 1 :] if p.way == "out"), trace.packets[-1].at)
    return (came[0].at if came else acked), acked


class Judged(NamedTuple):
    """A reading beside its truth (None: the kernel could not be asked in time)."""

    case: Case
    seen: Observation
    truth: int | None

    @property
    def word(self) -> str:
        """right, bound, wrong, none or unchecked."""
        if self.seen.value is None:
            return "none"
        if self.truth is None:
            return "unchecked"
        if self.seen.grade == "L":
            return "bound" if int(str(self.seen.value)) <= self.truth else "wrong"
        return "right" if self.seen.value == self.truth else "wrong"


def measure(pump: Pump, kernel: Kernel, rows: Sequence[Case], window: int) -> Iterator[Judged]:
    """Ask all, a few at once, and yield each beside its truth."""
    waiting = list(enumerate(rows))[::-1]
    flying = 0
    while waiting or flying:
        while waiting and flying < AT_ONCE:
            number, case = waiting.pop()
            pump.begin("host", f"{window}/{number}", case.target, case.probe, case.params)
            flying += 1
        for recording in pump.poll(ASK_EVERY_S):
            flying -= 1
            trace = recording.trace
            case = rows[int(trace.id.partition("/")[2])]
            (seen,) = (o for o in read(trace) if o.knob == case.probe)
            truth: int | None = window
            if case.probe == "cwnd_at_request" and seen.value is not None:
                port = int.from_bytes(recording.frames[0].data[20:22], "big")
                truth = kernel.window(trace, port, *held(trace))
            yield Judged(case, seen, truth)
        kernel.ask()


def main(windows: Sequence[int]) -> int:
    """Print a row a way, server and segment size; then what is wrong, if anything is."""
    judged: list[Judged] = []
    verdicts: Counter[str] = Counter()
    with raised(SERVERS) as standing, Pump([standing.vantage], ports=PORTS, seed=1, agent="benchmark") as pump:
        address = standing.clear[0].address
        folder = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        # Another process may have raised the same addresses in namespaces of its own.
        mine = [line.split()[0] for line in folder.splitlines() if owner() in line]
        netns = next(name for name in mine if address in addresses(name))
        device = addresses(netns)[address]
        kernel, rows = Kernel(netns), list(cases(standing))
        for window in windows:
            route = ("route", "replace", f"{standing.vantage.source_address}/32", "dev", device)
            ip(*route, "initcwnd", str(window), netns=netns)
            now = list(measure(pump, kernel, rows, window))
            judged += now
            for probe, server in product(("icw", "icw_tls"), SERVERS):
                trials = [t.seen for t in now if t.case.probe == probe and t.case.server == server]
                verdict = merge(trials)
                verdicts[f"{WAYS[probe]:16} {Judged(now[0].case, verdict, window).word} {verdict.grade}"] += 1
            print(f"window {window}: {len(now)} connections", file=sys.stderr)
    words = ("right", "bound", "none", "unchecked", "wrong")
    print(f"{'way':16} {'server':10} {'MSS':>5}" + "".join(f"{word:>11}" for word in words))
    for probe, server, mss in product(WAYS, SERVERS, SIZES):
        counted = Counter(
            t.word for t in judged if (t.case.probe, t.case.server, dict(t.case.params)["mss"]) == (probe, server, mss)
        )
        print(f"{WAYS[probe]:16} {server:10} {mss:5}" + "".join(f"{counted[word]:11}" for word in words))
    print("verdicts over all runs of a server:", ", ".join(f"{word} {n}" for word, n in sorted(verdicts.items())))
    wrong = [t for t in judged if t.word == "wrong"]
    for t in wrong[:20]:
        case, seen = t.case, t.seen
        print(f"wrong: {case.server} {case.probe} {case.params} says {seen.text}, is {t.truth}: {seen.details}")
    return 1 if wrong or any(" wrong " in word for word in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or WINDOWS))
