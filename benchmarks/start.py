# SPDX-License-Identifier: MIT
"""How long the command line takes to start, beside a bare interpreter; how fast it reads an access log.

    python -m benchmarks.start
    OMP_NUM_THREADS=1 python -m benchmarks.start import [THOUSANDS]

Claim: `configtron --version` takes 60 ms, `--help` 120 ms, a capture of ten packets 300 ms of processor time, which is
the same on a busy machine; wall time is printed too. Modules are compiled once before, as an installation has them.
Exit code 1: more.

import: `learn import` of a made log, as page views and as single requests: visitors from 130 000 addresses with 40
browsers, a page and nine objects each, in nginx's format with all fields that are used (docs/learn.md). Claim: 50 000
lines a second, by this process's CPU, from the file to the database. Exit code 1: less.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.claims import Claims
from configtron.cli.outermost import run
from tests.support.synthetic_capture import write

CLAIM_PER_S = 50_000
OBJECTS, PACKETS = 9, 10
WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/{}.0.0.0 Safari/537.36"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_{} like Mac OS X) AppleWebKit/605 Version/17.5 Safari/604.1"
AGENTS = (*map(WINDOWS.format, range(110, 140)), *map(PHONE.format, range(10)))
RUNS = 40
CONFIGTRON = str(Path(sys.executable).with_name("configtron"))
# What is run -> processor time that it may take, ms.
CLAIMS: tuple[tuple[list[str], float | None], ...] = (
    ([sys.executable, "-c", ""], None),
    ([CONFIGTRON, "--version"], 60),
    ([CONFIGTRON, "--help"], 120),
    ([CONFIGTRON, "-q", "fingerprint", "pcap", "-f", "csv", "ten.pcap"], 300),
)


def measured(command: list[str], folder: str) -> tuple[list[float], list[float]]:
    """Wall and processor times of many runs in that folder, ms, sorted; the first, which compiles, is left out."""
    wall, cpu = [], []
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for number in range(RUNS + 1):
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, cwd=folder, env=env | {"PYTHONPYCACHEPREFIX": folder}
        )
        usage = os.wait4(process.pid, 0)[2]
        if not number:
            continue
        wall.append((time.perf_counter() - began) * 1e3)
        cpu.append((usage.ru_utime + usage.ru_stime) * 1e3)
    return sorted(wall), sorted(cpu)


def start() -> int:
    """Print a line a command; 1 if one misses the claim."""
    claims = Claims()
    print(f"{RUNS} runs each, ms; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"{'command':48} {'wall':>6} {'median':>7} {'cpu':>6} {'median':>7}")
    with TemporaryDirectory() as folder:
        write(Path(folder) / "ten.pcap", PACKETS)
        for command, claim in CLAIMS:
            wall, cpu = measured(command, folder)
            name = " ".join([Path(command[0]).name, *command[1:]])
            judged = claims.at_most(cpu[0], claim, ".0f") if claim else ""
            times = f"{wall[0]:6.0f} {statistics.median(wall):7.0f} {cpu[0]:6.0f} {statistics.median(cpu):7.0f}"
            print(f"{name:48} {times}  {judged}".rstrip(), flush=True)
    return claims.exit_code


def view(chance: random.Random, at_s: float) -> Iterator[tuple[float, str]]:
    """The requests of a page view that begins then: when each ended, and its line."""
    address = f"198.{chance.randrange(18, 20)}.{chance.randrange(256)}.{chance.randrange(1, 255)}"
    agent, page = chance.choice(AGENTS), f"/page{chance.randrange(40)}"
    rtt_us = chance.randrange(5_000, 200_000)
    objects = [f"/static/app{chance.randrange(20)}.{chance.choice(('css', 'js', 'png'))}" for _ in range(OBJECTS)]
    for path, referer in ((page, "-"), *((path, f"https://shop.example{page}") for path in objects)):
        took_s = chance.uniform(0.005, 0.3)
        line = (
            f'{address} - - [22/Nov/2026:16:16:{int(at_s) % 60:02d} +0000] "GET {path} HTTP/2.0" 200 4096 "{referer}"'
            f' "{agent}" request_time={took_s:.3f} msec={at_s + took_s:.3f} host=shop.example'
            f" dest={'document' if referer == '-' else 'script'} tcpinfo_rtt={rtt_us} tcpinfo_rttvar={rtt_us // 4}\n"
        )
        yield at_s + took_s, line
        at_s += took_s + chance.uniform(0.0, 0.2) if referer == "-" else chance.uniform(0.0, 0.1)


def access_log(lines: int) -> list[str]:
    """So many lines, in the order in which a server writes them."""
    chance, at_s = random.Random(1), 1.7e9
    found: list[tuple[float, str]] = []
    while len(found) < lines:
        at_s += chance.expovariate(30.0)
        found += view(chance, at_s)
    return [line for _, line in sorted(found)]


def imported(thousands: int = 200) -> int:
    """Print both rates; 1 if one misses the claim."""
    claims = Claims()
    with TemporaryDirectory() as folder:
        path, made = Path(folder) / "access.log", access_log(thousands * 1000)
        path.write_text("".join(made))
        for metric in ("page", "request"):
            began, wall = time.process_time(), time.perf_counter()
            code = run(["--db", f"{folder}/{metric}.db", "learn", "import", "--metric", metric, str(path)])
            rate, clock = len(made) / (time.process_time() - began), len(made) / (time.perf_counter() - wall)
            judged = claims.at_least(rate if code == 0 else float("nan"), CLAIM_PER_S, ".0f")
            print(f"{metric:8s} {rate:8.0f} lines/s CPU {clock:8.0f}/s clock   {judged}", flush=True)
    return claims.exit_code


if __name__ == "__main__":
    if sys.argv[1:2] == ["import"]:
        sys.exit(imported(*map(int, sys.argv[2:])))
    sys.exit(start())
