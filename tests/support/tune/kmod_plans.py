# SPDX-License-Identifier: MIT
"""Inside a guest: the module draws; arms and records against the Python draw, lease, turns, faults; prints JSON.

python3 -m tests.support.tune.kmod_plans configtron.ko
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from configtron.lab.internet.links import sysctl
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.draw import Key, Mix, Plan, draw, unit_of
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.kmod.draws import LENGTH4, LENGTH6
from configtron.tune.drivers.kmod.kmod_driver import KmodDriver
from tests.support.tune.kmod_net import PORT4, PORT6, connected, device, drained, hosts, listener, load, tc, window
from tests.support.tune.kmod_rules import refused

# The first window that each profile gives is its mark. 10 is the kernel's own.
WINDOWS = {"a": 11, "b": 12, "c": 13, "near": 14, "far": 15, "alone": 16, "other": 17}
PLAIN = 10
KEY = Key(0x0706050403020100, 0x0F0E0D0C0B0A0908)
MIXES = {"near": Mix(("a", "b", "c"), (30_000, 35_000, 536)), "far": Mix(("b", "c"), (1, 65_535))}
PREFIXES = {"10.1.0.0/16": "near", "10.2.0.0/16": "far", "10.3.0.0/16": "alone", "fd00:1::/32": "near"}
HOLDBACK = 13_107
CLIENTS = 300
LEASE_S = 5.0


def boottime() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def plan(epoch: int, lease_s: float = 3600, holdback: int = HOLDBACK, bands: tuple[tuple[int, str], ...] = ()) -> Plan:
    return Plan(KEY, epoch, boottime() + int(lease_s * 1e9), holdback, bands=bands)


def expected(now: Plan, source: str, class_name: str) -> tuple[int | None, bool, str]:
    found = draw(now, MIXES[class_name], unit_of(source))
    return found.arm, found.held, "" if found.arm is None else MIXES[class_name].profiles[found.arm]


def ended(*ends: socket.socket) -> None:
    """Close without TIME-WAIT at either side: the client's end resets."""
    for one in ends:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()


def sources(epoch: int) -> list[tuple[str, str, int]]:
    """(address, class, port): IPv4, IPv6, and IPv4 at a socket of IPv6, whose addresses are mapped."""
    found = [(f"10.1.{epoch}.{i % 250 + 1}", "near", PORT6 if i % 3 else PORT4) for i in range(CLIENTS)]
    return found + [(f"fd00:1:{i:x}::{epoch + 1}", "near", PORT6) for i in range(CLIENTS // 3)]


def epoch_of(driver: KmodDriver, number: int, ends: dict[int, socket.socket]) -> dict[str, Any]:
    """One epoch's connections: how many were as Python draws them, by window and by record."""
    now = plan(number)
    driver.load_plan(now, MIXES)
    driver.turn()
    wrong: list[str] = []
    arms: Counter[str] = Counter()
    for source, class_name, port in sources(number):
        client, served = connected(ends[port], source, port)
        arm, held, profile = expected(now, source, class_name)
        arms[profile or "held"] += 1
        if window(served) != (WINDOWS[profile] if profile else PLAIN):
            wrong.append(f"{source}: window {window(served)}, profile {profile}")
        ended(served, client)
        for record in driver.records():
            if isinstance(record, CloseRecord):
                arms[str(record.ending)] += 1
            opened = record if isinstance(record, OpenRecord) else record.opened
            facts = (opened.arm, opened.held, opened.profile, opened.epoch, opened.class_name)
            if facts != (arm, held, profile, number, class_name):
                wrong.append(f"{source}: record {facts}")
            arms["ends" if isinstance(record, CloseRecord) else "beginnings"] += 1
            if source.rsplit(".", 1)[0] in str(record) and source in str(record):
                wrong.append(f"{source}: whole address in a record")
    return {"wrong": wrong[:5], "counts": dict(arms)}


def lease(driver: KmodDriver, at: socket.socket) -> dict[str, Any]:
    """Windows of one client of a class, second by second, after the last renewal."""
    now = plan(50, LEASE_S, holdback=0)
    driver.load_plan(now, MIXES)
    driver.turn()
    began, found = boottime(), []
    while (since := (boottime() - began) / 1e9) < 2 * LEASE_S:
        client, served = connected(at, "10.1.9.9", PORT4)
        found.append((since + 0.1, window(served)))
        ended(client, served)
        time.sleep(0.4)
    driver.renew(boottime() + int(60e9))
    client, served = connected(at, "10.1.9.9", PORT4)
    renewed = window(served)
    ended(client, served)
    tuned = WINDOWS[expected(now, "10.1.9.9", "near")[2]]
    return {
        "last tuned": max(since for since, width in found if width == tuned),
        "first plain": min(since for since, width in found if width == PLAIN),
        "others": sorted({width for _, width in found} - {tuned, PLAIN}),
        "renewed": renewed == tuned,
    }


def bands(driver: KmodDriver, at: socket.socket) -> dict[str, Any]:
    """(round trip of the record in ms, band, class) of clients that no prefix holds."""
    driver.load_plan(plan(60, holdback=0, bands=((20_000, "near"), (150_000, "far"))), MIXES)
    driver.turn()
    found: dict[str, Any] = {}
    for ms in (10, 100, 300):
        for name, end in (("s", "vs"), ("c", "vc")):
            tc(name, "change", f"{end} root netem delay {ms / 2}ms limit 100000")
        for way, settings in {
            "plain": ("1", "1"),
            "cookie without timestamps": ("2", "0"),
        }.items():
            sysctl("s", [("net/ipv4/tcp_syncookies", settings[0]), ("net/ipv4/tcp_timestamps", settings[1])])
            list(driver.records())
            ends = connected(at, "10.77.0.1", PORT4)
            record = next(one for one in driver.records() if isinstance(one, OpenRecord))
            found[f"{ms} {way}"] = [round((record.rtt_us or 0) / 1000), record.band, record.class_name]
            ended(*ends)
    sysctl("s", [("net/ipv4/tcp_syncookies", "1"), ("net/ipv4/tcp_timestamps", "1")])
    for name, end in (("s", "vs"), ("c", "vc")):
        tc(name, "change", f"{end} root netem delay 50ms limit 100000")
    return found


def closing(driver: KmodDriver, at: socket.socket) -> dict[str, Any]:
    """The close record of a transfer that ends in FINs, and of one that the client resets."""
    found: dict[str, Any] = {}
    for way in ("fins", "server first", "reset", "reset, read", "abort"):
        list(driver.records())
        client, served = connected(at, "10.3.0.1", PORT4)
        served.sendall(b"x" * 200_000)
        left = 200_000
        while left:
            left -= len(client.recv(65_536))
        if way.startswith("reset"):
            ended(client)
            time.sleep(0.5)
            if way == "reset, read":
                # as servers do, and the error is off the socket
                with suppress(ConnectionResetError):
                    served.recv(1)
            served.close()
        elif way == "abort":
            ended(served, client)
        else:
            for one in (served, client) if way == "server first" else (client, served):
                one.close()
                time.sleep(1)
        time.sleep(2)
        close = next(one for one in driver.records() if isinstance(one, CloseRecord))
        opened = close.opened
        found[way] = {
            "ending": close.ending, "bytes": close.bytes_acked, "segments": close.segments,
            "seconds": round((close.end_ns - opened.start_ns) / 1e9, 1), "rtt_ms": (close.min_rtt_us or 0) // 1000,
            "profile": opened.profile, "class": opened.class_name, "arm": opened.arm, "version": opened.version,
            "app_limited": close.app_limited, "rwnd_limited": close.rwnd_limited,
        }  # fmt: skip
    return found


def refusals(driver: KmodDriver) -> dict[str, str]:
    """Plans that must change nothing."""
    driver.load_plan(plan(70), MIXES)
    driver.turn()
    found = {
        "other mixes": refused(lambda: driver.load_plan(plan(70), {"near": MIXES["near"]})),
        "other holdback": refused(lambda: driver.load_plan(plan(70, holdback=HOLDBACK // 2), MIXES)),
        "other bands": refused(lambda: driver.load_plan(plan(70, bands=((20_000, "near"),)), MIXES)),
        "no such profile": refused(lambda: driver.load_plan(plan(71), {"unknown": MIXES["near"]})),
        "no such arm": refused(lambda: driver.load_plan(plan(71), {"near": Mix(("unknown",), (65_536,))})),
        "nothing loaded": refused(driver.turn),
        "profile in use": refused(lambda: driver.apply(Changes(dropped_profiles=frozenset({"a"})))),
        "same again": refused(lambda: driver.load_plan(plan(70), MIXES)),
    }
    driver.drop_plan()
    found["renew without"] = refused(lambda: driver.renew(boottime()))
    return found


def dropped(driver: KmodDriver, at: socket.socket) -> list[int]:
    """Windows of a client of each class once the plan is dropped: those of the profiles that prefixes point to."""
    found = []
    for source in ("10.1.0.9", "10.2.0.9", "10.3.0.9", "10.77.0.9"):
        ends = connected(at, source, PORT4)
        found.append(window(ends[1]))
        ended(*ends)
    return found


def main(module: str) -> None:
    found: dict[str, Any] = {}
    with hosts():
        load(module)
        driver = KmodDriver(Place("s"))
        before = driver.before()
        found["not in force"] = refused(lambda: driver.load_plan(plan(1), MIXES))
        profiles = {name: Profile(name, (("initcwnd", width),)) for name, width in WINDOWS.items()}
        driver.apply(Changes(profiles=profiles, prefixes=PREFIXES))
        ends = {port: listener(port) for port in (PORT4, PORT6)}
        found["cut to"] = [LENGTH4, LENGTH6]
        found["epochs"] = {number: epoch_of(driver, number, ends) for number in (7, 8)}
        found["lease"] = lease(driver, ends[PORT4])
        found["bands"] = bands(driver, ends[PORT4])
        found["closing"] = closing(driver, ends[PORT4])
        found["refusals"] = refusals(driver)
        found["dropped"] = dropped(driver, ends[PORT4])
        found["lost"] = driver.lost_records()
        driver.load_plan(plan(80), MIXES)
        driver.turn()
        driver.load_plan(plan(81), MIXES)
        driver.revert(before)
        with device() as reported:
            found["nothing left"] = [reported.plan_status()["flags"], reported.plan_mixes(), reported.profiles()]
        driver.stop_records()
        for one in ends.values():
            one.close()
    found["drained"] = drained()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
