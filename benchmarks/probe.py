# SPDX-License-Identifier: MIT
"""Claim: at least 500 initial windows a second, nearly all right; beside two older ways to read them, in one run.

    python -m benchmarks.probe [COUNT]      as root; connections of each kind, 3000 by default

A town's nginx has each of several initial windows in turn, on a quiet road and on one that loses packets. Against it:

    configtron    the early run at 536 bytes, all kept as in a campaign: packets, journal, readings, database; right is
                  also a true bound
    exact only    the same connections, of which those count whose reading claims to be exact
    span          COMSYS's count over our packets at 64 bytes without SACK: highest byte over segment size
    scapy         a sniffer that runs before anything is sent, one connection after the other; `SCAPY` of them, since
                  each takes a second

Per second is wall time on this machine, the server's work included; CPU seconds are the prober's, per thousand sites.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.naive import MSS, span
from benchmarks.town import AT_ROAD, Town, lit, town
from configtron.db.store import Store
from configtron.model.nouns import Observation, Target, Value
from configtron.model.records import Result
from configtron.probe.pacing import STARTS_AT_ONCE
from configtron.probe.target_session import Call
from configtron.probe.wire.namespaces import ip
from configtron.probe.wire.pcap import read_evidence
from configtron.probe.wire.pump import Pump
from configtron.probe.wire.recorder import Recorder

WINDOWS = (4, 10, 30)
LOSSES_PERCENT = (0, 2)
SCAPY = 12
# A connection lasts a tenth of a second at least; more than these make the server, on the same two cores, no faster.
AT_ONCE = 400
PORTS = range(1024, 32768)
CLAIM_PER_S = 500


class Probed(NamedTuple):
    """What one way gave: connections, seconds by the clock on the wall and of the prober, how many were right."""

    connections: int
    wall_s: float
    cpu_s: float
    right: int
    wrong: int

    def __add__(self, other: object) -> Probed:
        assert isinstance(other, Probed)
        return Probed(*(a + b for a, b in zip(self, other, strict=True)))  # type: ignore[arg-type]


def set_window(standing: Town, segments: int) -> None:
    """The server's initial window, by its route."""
    ip("route", "replace", "default", "via", AT_ROAD, "initcwnd", str(segments), netns=standing.netns)


@contextmanager
def losing(standing: Town, percent: int) -> Iterator[None]:
    """That share of packets lost on the road, either way, each by itself: the server makes no frames of several."""
    rules = (
        "table inet losing { chain road { type filter hook forward priority 0;"
        f" numgen random mod 100 < {percent} drop; }}; }}"
    )
    if percent:
        ip("link", "set", "eth0", "gso_max_segs", "1", netns=standing.netns)
        subprocess.run(["ip", "netns", "exec", standing.road, "nft", rules], check=True)
    yield


def ours(standing: Town, count: int, window: int, params: dict[str, Value]) -> tuple[Probed, Probed, Probed]:
    """Our rows, all readings and the exact ones, and the span's over the same packets."""
    call = [Call("icw", tuple(sorted(params.items())), Target(lit(n), lit(n))) for n in range(count)]
    vantage = standing.vantages[0]
    with (
        tempfile.TemporaryDirectory(prefix="probe-") as name,
        Pump([vantage], ports=PORTS, seed=window, agent="benchmark") as pump,
        Store(Path(name) / "benchmark.db") as store,
    ):
        files, run = {vantage.name: "evidence.pcapng"}, store.begin_run("{}")

        def sink(results: Sequence[Result]) -> None:
            if results:
                store.record(run, list(results))

        recorder = Recorder(pump, Path(name), files, {}, sink, lambda host, address: "")
        read: list[Observation] = []
        wall, cpu, begun, back = time.monotonic(), time.process_time(), 0, 0
        while back < count:
            for n in range(begun, min(begun + STARTS_AT_ONCE, begun + AT_ONCE - pump.active, count)):
                recorder.begin(f"{vantage.name}/{n}/icw.1", vantage.name, call[n], call[n].target)
                begun = n + 1
            for finished in recorder.finished(0.0 if begun < count and pump.active < AT_ONCE else 0.5):
                back += 1
                read += [o for o in finished.readings if o.knob == "icw"]
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        recorder.close()
        spans = [span(trace) for trace in read_evidence(Path(name) / "evidence.pcapng")]
    exact = [o for o in read if o.grade == "C"]
    bounds_too = sum(o.grade == "L" and isinstance(o.value, int) and o.value <= window for o in read)
    right = sum(o.value == window for o in exact)
    overclaims = len([o for o in read if o.value is not None]) - right - bounds_too
    return (
        Probed(count, wall, cpu, right + bounds_too, overclaims),
        Probed(count, wall, cpu, right, len(exact) - right),
        Probed(count, wall, cpu, spans.count(window), sum(s not in (0, window) for s in spans)),
    )


def scapys(standing: Town, window: int) -> Probed:
    """The row of scapy's way."""
    vantage = standing.vantages[0]
    words = [sys.executable, "-m", "benchmarks.naive", lit(window), str(SCAPY), vantage.source_address]
    began = time.monotonic()
    process = subprocess.Popen(["ip", "netns", "exec", vantage.netns, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    counts = [int(line) for line in process.stdout]
    _, _, usage = os.wait4(process.pid, 0)
    right = counts.count(window)
    return Probed(SCAPY, time.monotonic() - began, usage.ru_utime + usage.ru_stime, right, len(counts) - right)


def main(count: int) -> int:
    """Print a row a way and loss; 1 if the claim does not hold."""
    print(f"{'loss':>5} {'way':12} {'sites':>6} {'per second':>11} {'CPU s per 1000':>15} {'right':>8} {'wrong':>8}")
    holds = True
    with town() as standing:
        for percent in LOSSES_PERCENT:
            rows: dict[str, Probed] = {}
            with losing(standing, percent):
                for window in WINDOWS:
                    set_window(standing, window)
                    each = count // len(WINDOWS)
                    first, exact, _ = ours(standing, each, window, {"mss": 536, "early": True})
                    _, _, spans = ours(standing, each, window, {"mss": MSS})
                    found = {"configtron": first, "exact only": exact, "span": spans, "scapy": scapys(standing, window)}
                    rows = {way: rows[way] + row if way in rows else row for way, row in found.items()}
            for way, row in rows.items():
                print(
                    f"{percent:3} % {way:12} {row.connections:6} {row.connections / row.wall_s:11.0f}"
                    f" {1000 * row.cpu_s / row.connections:15.2f} {100 * row.right / row.connections:6.1f} %"
                    f" {100 * row.wrong / row.connections:6.1f} %",
                    flush=True,
                )
            ahead = rows["configtron"]
            holds = holds and not ahead.wrong and (percent > 0 or ahead.connections / ahead.wall_s >= CLAIM_PER_S)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000))
