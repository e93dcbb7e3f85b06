# SPDX-License-Identifier: MIT
"""What the kernel's draw costs with the driver ebpf; whether every connection gets the arm that user space computes.

    python -m benchmarks.draw [--connections 100000] [--blocks 300]

Claims: a draw costs at most 100 ns; no connection among 100 000 (IPv4, mapped, IPv6) has another arm, in its socket or
in its records, than `configtron/model/draw.py` computes, and no client two arms in an epoch.

parts        ns of the hash, the choice, the holdback's hash and the lease's clock, less the loop's, least of many runs
program      four listeners of one process, each in a control group of its own: no program, the driver without a plan,
             with a plan, with a plan and records. CPU of both ends of a connection, in blocks that take turns; the
             median of the paired differences and the interval that holds its middle half
reader       us that `records()` takes for one record
connections  every one beside the draw in user space

Runs in namespaces of its own (isolation.py); needs root, clang, libbpf-dev. Exit code 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from configtron.linux.libbpf import Object, call, info
from configtron.model.draw import PARTS, Mix
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.bpf import objects, pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.drivers.bpf.tables import BpfMaps
from tests.support import ROOT
from tests.support.draws import ABORT, ARMS, CLASSES, PREFIXES, Server, many, plan, put, settings
from tests.support.isolation import apart

GROUP = f"configtron-draw-{os.getpid()}"
KINDS = ("none", "driver", "plan", "records")
# Connections of one block: some milliseconds, shorter than a time slice of another process.
BLOCK, WARM = 60, 500
# As many as an agent finds that looks once a second on a server with 5000 connections a second.
AT_ONCE = 5000
# Runs of CLIENTS turns each, per part; the least of so many is reported.
RUNS, REPEATS, CLIENTS = 200, 50, 1024
DRAW_CLAIM_NS = 100.0
# BPF_STATS_RUN_TIME; offsets of run_time_ns and run_cnt in struct bpf_prog_info.
RUN_TIME, RUN_TIME_AT = 0, 192


@contextmanager
def driven(name: str) -> Iterator[EbpfDriver]:
    """A driver with classes and arms in force at a control group of its own; this process is put there."""
    root = pins.mounts("cgroup2")[0]
    (root / f"{GROUP}-{name}").mkdir()
    driver = EbpfDriver(Place(cgroup=f"{GROUP}-{name}"))
    before = driver.before()
    try:
        driver.apply(Changes({**ARMS, **CLASSES}, PREFIXES))
        (root / f"{GROUP}-{name}" / "cgroup.procs").write_text("0")
        yield driver
    finally:
        (root / "cgroup.procs").write_text("0")
        driver.revert(before)
        (root / f"{GROUP}-{name}").rmdir()


def loopback() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "-6", "route", "add", "local", "fd00::/16", "dev", "lo"], check=True)


def parts() -> dict[str, float]:
    """ns of each part of a draw."""
    with driven("parts") as driver:
        put(driver, plan(1, 6554))
        here = pins.folder(driver.place)
        with BpfMaps(here) as maps:
            numbers = {name: number for number, name in maps.names().items()}
        with Object(objects.compiled("draw", Path(__file__).parent), here) as program:
            program.constants(struct.pack("=I", numbers["A"]))
            program.load()
            names = ("nothing", "hash", "hash_and_choice", "holdback", "lease")
            least = {name: min(program.run(name, REPEATS) for _ in range(RUNS)) / CLIENTS for name in names}
    return {name: cost - least["nothing"] for name, cost in least.items() if name != "nothing"}


def connection(listener: socket.socket, number: int) -> None:
    client = socket.socket()
    client.setsockopt(socket.IPPROTO_IP, 15, 1)
    client.setsockopt(*ABORT)
    client.bind((f"127.1.{number % 250}.{number // 250 % 250 + 1}", 0))
    client.connect(listener.getsockname())
    served, _ = listener.accept()
    client.close()
    served.close()


def run_time(driver: EbpfDriver) -> tuple[int, int]:
    """ns and runs of the driver's program since it was loaded, while statistics are on."""
    number, _ = pins.link_state(pins.folder(driver.place) / pins.LINK)
    descriptor = call("bpf_prog_get_fd_by_id", number)
    try:
        run_ns, runs = struct.unpack_from("=2Q", info(descriptor), RUN_TIME_AT)
    finally:
        os.close(descriptor)
    return run_ns, runs


def program(blocks: int) -> dict[str, Any]:
    """CPU of a connection under each kind, in blocks that take turns; ns in the program; us of the reader."""
    wide = {"A": Mix(("p0",), (PARTS,))}
    with driven("driver") as driver:
        # the same settings without a draw
        driver.apply(Changes(prefixes={"127.1.0.0/16": "p0"}))
        listeners = {"driver": socket.create_server(("127.0.0.1", 9001), backlog=128)}
        with driven("plan") as planned, driven("records") as recorded:
            drivers = {"driver": driver, "plan": planned, "records": recorded}
            root = pins.mounts("cgroup2")[0]
            for name, port in (("plan", 9002), ("records", 9003)):
                (root / f"{GROUP}-{name}" / "cgroup.procs").write_text("0")
                listeners[name] = socket.create_server(("127.0.0.1", port), backlog=128)
                drivers[name].load_plan(plan(1, 300), wide)
                drivers[name].turn(records=name == "records")
            (root / "cgroup.procs").write_text("0")
            listeners["none"] = socket.create_server(("127.0.0.1", 9000), backlog=128)
            return timed(drivers, listeners, blocks)


def timed(drivers: dict[str, EbpfDriver], listeners: dict[str, socket.socket], blocks: int) -> dict[str, Any]:
    cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    reading_s, read = 0.0, 0
    for kind in KINDS:
        for number in range(WARM):
            connection(listeners[kind], number)
    list(drivers["records"].records())
    for block in range(blocks):
        for kind in KINDS[block % 4 :] + KINDS[: block % 4]:
            began = time.process_time_ns()
            for number in range(BLOCK):
                connection(listeners[kind], block * BLOCK + number)
            cpu[kind].append((time.process_time_ns() - began) / BLOCK)
        began_s = time.process_time()
        read += len(list(drivers["records"].records()))
        reading_s += time.process_time() - began_s
    for number in range(AT_ONCE):
        connection(listeners["records"], number)
    began_s = time.process_time()
    at_once = len(list(drivers["records"].records()))
    at_once_s = time.process_time() - began_s
    with statistics_on():
        inside = {}
        for kind, driver in drivers.items():
            before = run_time(driver)
            for number in range(2000):
                connection(listeners[kind], number)
            after = run_time(driver)
            inside[kind] = {"ns": (after[0] - before[0]) / 2000, "runs": (after[1] - before[1]) / 2000}
    pairs = {f"{one} - {other}": spread(cpu[one], cpu[other]) for one, other in zip(KINDS[1:], KINDS, strict=False)}
    return {
        "cpu": {kind: statistics.median(found) for kind, found in cpu.items()},
        "paired": pairs,
        "inside": inside,
        "reader_us": reading_s / read * 1e6,
        "at_once_us": at_once_s / at_once * 1e6,
        "records": [read, at_once],
        "lost": drivers["records"].lost_records(),
    }


def spread(one: list[float], other: list[float]) -> list[float]:
    """Quartiles of the paired differences."""
    return statistics.quantiles([a - b for a, b in zip(one, other, strict=True)], n=4)


@contextmanager
def statistics_on() -> Iterator[None]:
    """The kernel counts each program's time, as long as this is open."""
    descriptor = call("bpf_enable_stats", RUN_TIME)
    try:
        yield
    finally:
        os.close(descriptor)


def connections(count: int) -> dict[str, Any]:
    with driven("many") as driver:
        server = Server()
        answer = many(driver, server, count)
        connected, served = server.connect("127.9.0.1")
        answer["untouched"] = settings(served)
        connected.close()
    return answer


def inside(count: int, blocks: int) -> None:
    """Print one line of JSON; apart from the host."""
    loopback()
    print(json.dumps({"parts": parts(), "program": program(blocks), "connections": connections(count)}))


def report(found: dict[str, Any]) -> int:
    """Print what was measured; 1 if a claim does not hold."""
    costs, cpu, many_of = found["parts"], found["program"], found["connections"]
    for name, ns in costs.items():
        print(f"{name:18} {ns:7.1f} ns")
    print(f"\n{'program':10} {'CPU us':>8} {'ns in it':>9} {'runs':>5}    a connection, both ends")
    for kind in KINDS:
        ran = cpu["inside"].get(kind, {"ns": 0.0, "runs": 0.0})
        print(f"{kind:10} {cpu['cpu'][kind] / 1000:8.2f} {ran['ns']:9.0f} {ran['runs']:5.1f}")
    for pair, (low, middle, high) in cpu["paired"].items():
        print(f"{pair:20} {middle / 1000:+6.2f} us, quartiles {low / 1000:+.2f} to {high / 1000:+.2f}")
    small, large = cpu["records"]
    print(f"reader: {cpu['reader_us']:.1f} us a record, {2 * BLOCK} at a time ({small} in all)")
    print(f"        {cpu['at_once_us']:.1f} us a record, {large} at a time; {cpu['lost']} lost")
    print(f"\nconnections: {json.dumps(many_of)}")
    wrong = sum(many_of["wrong"].values()) + many_of["units with two arms"] + many_of["held and not"]
    holds = costs["hash_and_choice"] + costs["holdback"] <= DRAW_CLAIM_NS and wrong == 0
    print("the claims hold" if holds else "a claim does NOT hold")
    return 0 if holds else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=100_000)
    parser.add_argument("--blocks", type=int, default=300)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.connections, options.blocks)
        return 0
    again = [sys.executable, "-m", "benchmarks.draw", "--inside", f"--connections={options.connections}",
             f"--blocks={options.blocks}"]  # fmt: skip
    done = subprocess.run(apart(again), cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return report(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
