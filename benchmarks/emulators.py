# SPDX-License-Identifier: MIT
"""Claim: conditions are what they are called: Pantheon's emulators, our traces, TCP over plain links by theory.

    python -m benchmarks.emulators [PART ...]      as root; all parts when none is named

In the lab's guest and its virtual time. Exit code 1: a figure lies outside its bound.

capacity     datagrams at 1.25 times the link's rate, evenly: what comes through beside what the link may carry (5 %);
             Pantheon's 18 emulators and the traces, whole periods of those that are played
slow-start   answers of 15 and 150 kB at 500 ms without a rate: whole round trips, the window doubling (0.5 %)
line-rate    long downloads, cubic and bbr, their last two thirds beside the rate (2 %)
mathis       reno at 1 and 2.5 % loss, beside MSS / RTT sqrt(3 / 2p) (15 %; Mathis and others 1997, every segment
             acknowledged or counted, as Linux does)
ping         round trips (0.1 ms)
cost         processor time of the host for a change of the condition and of the configuration (0.02 s)

TCP at full throttle over each emulator is a study of its own: configtron replay study pantheon
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from configtron.lab.testbed import opportunities, player
from configtron.lab.testbed.cellular import LINKS
from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.families import named
from configtron.lab.uml.user_mode_linux import GuestJob, pick
from configtron.model.nouns import Value
from tests.support import ROOT

# The payload of a full segment: IP, TCP and its timestamps take 52 bytes.
SEGMENT_BYTES = 1448
# A link of the kernel is even: a few seconds show as much as many, and 100 Mbit/s are work.
EVEN_BITS = 60e6
LEAST_S, MOST_S = 2.0, 10.0

SLOW_STARTS = tuple((window, size, 500) for window, size in product((1, 4, 10, 16, 20, 30), (15_000, 150_000)))
LINE_RATES = tuple(product((0.3, 1, 5, 20), (50, 150), ("cubic", "bbr")))
# Some 150 losses and more each.
MATHIS = tuple((rtt, loss, size) for rtt in (50, 150) for loss, size in ((0.01, 24_000_000), (0.025, 12_000_000)))
PINGS = ("hotcloud:0.3/50/0", "hotcloud:5/500/0", "access:dsl", "access:satellite", "pantheon:6")
SCHEMES = ("cubic", "bbr", "reno", "vegas")
COSTS: tuple[tuple[tuple[str, Value], ...], ...] = tuple(
    (("tcp_congestion_control", scheme), ("initcwnd", window), ("tcp_slow_start_after_idle", idle), ("pacing", pacing),
     ("tcp_autocorking", idle), ("tcp_low_latency", 0), ("http_version", "h2"))
    for idle, scheme, window, pacing in product((0, 1), SCHEMES, (4, 10, 30), ("fq", "pfifo_fast"))
)  # fmt: skip
# So many that a guest's own time, which varies by a tenth of a second, is little beside them.
COST_COUNTS = {"condition": 6000, "played": 1500, "configuration": 480}
BOUNDS = {"capacity": 0.05, "slow-start": 0.005, "line-rate": 0.02, "mathis": 0.15}
PING_BOUND_MS, COST_BOUND_S = 0.1, 0.02
LABELS = ("name", "direction", "scheme", "window", "size", "mbit", "rtt", "loss", "kind")
JUDGED = ("capacity", "slow-start", "line-rate", "mathis", "ping", "cost")

Row = dict[str, Any]


def plain(mbit: float, rtt_ms: float, loss: float) -> Condition:
    """A link of our own: no more than these."""
    return Condition(
        f"{mbit:g}/{rtt_ms:g}/{loss:g}", LinkDirection(mbit * 1e3, rtt_ms / 2, loss), LinkDirection(delay_ms=rtt_ms / 2)
    )


def download_bytes(mbit: float) -> int:
    """Less than ten seconds' worth: then bbr empties the path to measure it, which costs two to five per cent."""
    return round(mbit * 1e6 / 8 * 8)


def nominal_kbit(condition: Condition, direction: str) -> float:
    """What a direction carries, in full IP packets."""
    way = condition.down if direction == "down" else condition.up
    if not condition.is_played:
        return way.rate_kbit
    found = opportunities.of(way, condition.salt, opportunities.read)
    assert found
    return found.rate_kbit


def capacities() -> Iterator[tuple[str, str, float]]:
    """(condition, direction, seconds): both directions where the second is played."""
    for name in (*(f"pantheon:{number}" for number in range(1, 19)), *(f"trace:{name}+20" for name in LINKS)):
        condition = named(name)
        for direction, way in (("down", condition.down), ("up", condition.up)):
            if way.kind == "constant":
                seconds = min(MOST_S, max(LEAST_S, EVEN_BITS / (way.rate_kbit * 1e3)))
            else:
                found = opportunities.of(way, condition.salt, opportunities.read)
                assert found
                seconds = max(found.period_us / 1e6, MOST_S)
            if direction == "down" or way.kind in ("bursts", "trace"):
                yield name, direction, seconds


def expected(row: Row) -> float:
    """What theory has for a row, in its own unit."""
    part = row["part"]
    if part == "capacity":
        condition, direction = named(row["name"]), row["direction"]
        way = condition.down if direction == "down" else condition.up
        # in the kernel too: what was lost before the queue leaves room for another
        return nominal_kbit(condition, direction) * (1 - way.loss if condition.is_played else 1)
    if part == "slow-start":
        rounds = math.ceil(math.log2(row["size"] / (row["window"] * SEGMENT_BYTES) + 1))
        return float(row["rtt"] / 1e3 * (1 + rounds))
    if part == "line-rate":
        return float(row["mbit"] * 1e3 * SEGMENT_BYTES / 1500)
    assert part == "mathis", part
    return SEGMENT_BYTES * 8 / float(row["rtt"]) * math.sqrt(1.5 / row["loss"])


def measured(row: Row) -> float:
    """What was found, in the same unit."""
    return float(row["took_s"] if row["part"] == "slow-start" else row["kbit"])


def label(row: Row) -> str:
    """Which row it is."""
    return " ".join(str(row[key]) for key in LABELS if key in row)


def wrong(row: Row) -> str:
    """Why a row does not hold, or ""."""
    part = row["part"]
    if part == "ping":
        off = row["least_ms"] - named(row["name"]).rtt_ms
        # a token bucket lets a packet pass at once when it has been idle
        return "" if 0 <= off <= PING_BOUND_MS else f"{row['name']}: {off:.3f} ms off"
    if part == "cost":
        return "" if row["each_s"] <= COST_BOUND_S else f"a change of the {row['kind']} takes {row['each_s']:.4f} s"
    if part not in BOUNDS:
        return ""
    error = measured(row) / expected(row) - 1
    return "" if abs(error) <= BOUNDS[part] else f"{part} {label(row)}: {100 * error:+.1f} %"


def boot(parts: Sequence[str], folder: Path) -> tuple[list[Row], float]:
    """One guest: its rows and the processor time it took."""
    backend, _ = pick("uml-virtual")
    folder.mkdir()
    words = (sys.executable, "-m", "benchmarks.emulators_inside", str(player.program()), *parts)
    job = GuestJob(words, folder, seed=1, cpu=max(os.sched_getaffinity(0)), environment=(("PYTHONPATH", str(ROOT)),))
    before = _used_s()
    running = backend.boot(job)
    if running.wait():
        raise SystemExit(running.console.read_text() + running.last_words())
    rows = [json.loads(line) for line in (folder / "found.jsonl").read_text().splitlines()]
    return rows, _used_s() - before


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def costs(folder: Path) -> Iterator[Row]:
    """What a change costs: a guest with many beside a guest with none."""
    for kind, many in COST_COUNTS.items():
        used = {count: boot([f"cost={kind},{count}"], folder / f"{kind}{count}")[1] for count in (0, many)}
        yield {"part": "cost", "kind": kind, "each_s": (used[many] - used[0]) / many, "boot_s": used[0]}


def rows(parts: Sequence[str], folder: Path) -> Iterator[Row]:
    """All that is asked for, a guest a part."""
    for part in parts:
        yield from costs(folder) if part == "cost" else boot([part], folder / part.replace(":", "-"))[0]


def line_of(row: Row) -> str:
    """A row for the reader."""
    if row["part"] == "ping":
        return f"{label(row):34} {row['least_ms']:10.3f} {named(row['name']).rtt_ms:10.3f} ms"
    if row["part"] == "cost":
        return f"{label(row):34} {row['each_s']:10.5f} s of processor time (a guest without: {row['boot_s']:.2f})"
    error = measured(row) / expected(row) - 1
    return f"{label(row):34} {measured(row):10.3f} {expected(row):10.3f} {100 * error:+7.2f} %"


def main(parts: Sequence[str]) -> int:
    """Measure, print, judge."""
    bad: list[str] = []
    began, last = time.monotonic(), ""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for row in rows(parts or JUDGED, Path(folder)):
            if row["part"] != last:
                last = row["part"]
                print(f"{last:34} {'found':>10} {'expected':>10}   [{time.monotonic() - began:.0f} s]")
            print(f"{line_of(row)}{'  !' if wrong(row) else ''}", flush=True)
            bad += [wrong(row)] if wrong(row) else []
    print("\n".join(bad) if bad else "every figure within its bound")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
