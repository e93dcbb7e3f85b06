# SPDX-License-Identifier: MIT
"""Clients of classes under a plan: what the server's sockets have, what the records state, and what is drawn for them.

    drawn.py WHAT [CONNECTIONS]     run it apart (tests/support/isolation.py)

WHAT is a row of `SCENARIOS`. JSON on standard output.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from configtron.linux.libbpf import Object
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.draw import PARTS, Key, Mix, Plan
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.bpf import objects, pins, reach
from configtron.tune.drivers.bpf.drawing import Halves, mixes_bytes, plan_bytes
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.drivers.bpf.tables import BpfMaps
from tests.support.draws import ABORT, ARMS, CLASSES, FOREVER, MIXES, PREFIXES, Server, many, plan, put, settings
from tests.support.tune.left import GROUP, nothing_left, placed, serving

LEASE_S, LOOK_S = 3.0, 3.0
TURNS, ANSWER, REQUEST = 10, 200_000, 100


@contextmanager
def ruled() -> Iterator[tuple[EbpfDriver, Server]]:
    """Classes and arms in force at a group of its own, and a server in it."""
    with placed() as (driver, _), serving():
        subprocess.run(["ip", "-6", "route", "add", "local", "fd00::/16", "dev", "lo"], check=True)
        driver.apply(Changes({**ARMS, **CLASSES}, PREFIXES))
        yield driver, Server()


def ends(driver: EbpfDriver, server: Server, _: int) -> dict[str, Any]:
    """How the records describe connections that end in different ways."""
    put(driver, plan(1))
    answer = {}
    for way in ("server first", "client first", "client resets", "server resets", "data"):
        list(driver.records())
        client, served = server.connect("127.1.0.5")
        for _ in range(TURNS if way == "data" else 0):
            served.sendall(bytes(ANSWER))
            client.recv(ANSWER, socket.MSG_WAITALL)
            client.send(bytes(REQUEST))
            served.recv(REQUEST)
            time.sleep(0.03)
        first, second = (client, served) if way.startswith("client") else (served, client)
        if way.endswith("resets"):
            first.setsockopt(*ABORT)
        first.close()
        time.sleep(0.05)
        second.close()
        time.sleep(0.05)
        closed = (record for record in driver.records() if isinstance(record, CloseRecord))
        answer[way] = [record._asdict() | {"opened": record.opened._asdict()} for record in closed]
    return answer


def untyped(driver: EbpfDriver, server: Server, _: int) -> dict[str, Any]:
    """The same by the program for kernels without type information."""
    driver.revert(driver.before())
    reach.has_types = lambda: False
    driver.apply(Changes({**ARMS, **CLASSES}, PREFIXES))
    return ends(driver, server, 0)


def bands(driver: EbpfDriver, server: Server, _: int) -> dict[str, Any]:
    """Classes by the handshake's round trip, for clients that no prefix holds; the default's class for the others."""
    answer = {}
    driver.apply(Changes(default="B"))
    one_arm = {name: Mix((arm,), (PARTS,)) for name, arm in (("A", "p1"), ("B", "p2"), ("C", "p3"))}
    rows = {"second": ((1, "C"), (60_000_000, "A")), "none": ((1, "A"),), "no bands": ()}
    for epoch, (name, table) in enumerate(rows.items(), 1):
        put(driver, plan(epoch, bands=table), one_arm)
        for way, address in ((name, "127.9.0.1"), (f"{name}, with a prefix", "127.2.0.1")):
            list(driver.records())
            client, served = server.connect(address)
            (record,) = driver.records()
            assert isinstance(record, OpenRecord) and record.rtt_us
            answer[way] = [settings(served)[0], record.class_name, record.band, record.profile]
            client.close()
            served.close()
    return answer


def servers(driver: EbpfDriver, server: Server, _: int) -> dict[str, Any]:
    """Another server, whose profiles have other numbers: who is held back there, and who has which arm."""
    root, second = pins.mounts("cgroup2")[0], f"{GROUP}-second"
    (root / second).mkdir()
    other, clients = EbpfDriver(Place(cgroup=second)), [f"127.1.3.{i}" for i in range(250)]
    try:
        other.apply(Changes(dict(reversed([*CLASSES.items(), *ARMS.items()])), PREFIXES))
        (root / second / "cgroup.procs").write_text("0")
        others = Server(9080)
        (root / GROUP / "cgroup.procs").write_text("0")
        for each in (driver, other):
            put(each, plan(7, 20000))
        here, there = zip(*((one_of(server, one), one_of(others, one)) for one in clients), strict=True)
        put(other, plan(8, 20000))
        later = [one_of(others, one) for one in clients]
    finally:
        other.revert(other.before())
        (root / second).rmdir()
    none = one_of(server, "127.9.0.1")
    both = list(zip(there, later, strict=True))
    return {
        "clients": len(clients), "differ": sum(one != two for one, two in zip(here, there, strict=True)),
        "held": here.count(none), "held in another epoch": later.count(none),
        "held in one epoch alone": sum((one == none) != (two == none) for one, two in both),
        "the same arm in both": sum(one == two != none for one, two in both),
    }  # fmt: skip


def one_of(server: Server, address: str, mapped: bool = False) -> tuple[int, str]:
    """Return the settings of a connection that ends at once."""
    client, served = server.connect(address, mapped)
    found = settings(served)
    client.setsockopt(*ABORT)
    client.close()
    served.close()
    return found


def moved(driver: EbpfDriver, server: Server, _: int) -> dict[str, Any]:
    """Open connections, one of them by a band, whose arm's profile changes; then with the lease passed."""
    table = {"A": Mix(("p1",), (PARTS,)), "C": Mix(("p2",), (PARTS,))}
    put(driver, plan(1, bands=((60_000_000, "C"),)), table)
    ends = [server.connect(address) for address in ("127.1.0.5", "127.9.0.1")]

    def controls(name: str = "") -> list[str]:
        if name:
            profile = (("tcp_congestion_control", name),)
            driver.apply(Changes({arm: Profile(arm, profile) for arm in ("p1", "p2")}))
            counts.append(driver.move())
        return [settings(served)[1] for _, served in ends]

    counts: list[tuple[int, int]] = []
    answer: dict[str, Any] = {"begun": controls(), "moved": controls("cubic")}
    driver.renew(1)
    answer["lapsed"] = controls("reno")
    answer["counts"], answer["lapsed counts"] = counts
    for client, served in ends:
        client.close()
        served.close()
    time.sleep(0.2)
    closed = [record for record in driver.records() if isinstance(record, CloseRecord)]
    answer["records"] = sorted((one.opened.class_name, one.opened.band, one.moved) for one in closed)
    return answer


def listens(driver: EbpfDriver, server: Server, _: int) -> dict[str, Any]:
    """A plan with a class for every client, at a place that names one port: other ports' connections are untouched."""
    driver.revert(driver.before())
    named = EbpfDriver(Place(cgroup=GROUP, listen="8080"))
    named.apply(Changes({**ARMS, **CLASSES}, default="A"))
    put(named, plan(1))
    ways = {port: one_of(server, "127.1.0.5", mapped=port == 8081) for port in (8080, 8081)}
    ports = {record.local_port for record in named.records() if isinstance(record, OpenRecord)}
    named.revert(named.before())
    return {"ways": ways, "recorded": sorted(ports)}


def full(driver: EbpfDriver, server: Server, count: int) -> dict[str, Any]:
    """More connections than the stream holds, and no reader."""
    put(driver, plan(1))
    for number in range(count):
        one_of(server, f"127.1.{number % 250}.9")
    time.sleep(0.2)
    read = len(list(driver.records()))
    return {"read": read, "lost": driver.lost_records(), "again": len(list(driver.records()))}


def refused(driver: EbpfDriver, server: Server, _: int) -> dict[str, Any]:
    """Messages of what the driver refuses."""
    answer = {}

    def attempt(name: str, call: Callable[..., object], *words: Any) -> None:
        try:
            answer[name] = f"no error: {call(*words)}"
        except ConfigtronError as error:
            answer[name] = f"{type(error).__name__}: {error}"

    load, dropped = driver.load_plan, Changes(dropped_profiles=frozenset(("p7",)))
    other = {"A": Mix.of([("p0", 1.0), ("p1", 1.0)])}
    attempt("turn without a plan", driver.turn)
    put(driver, plan(1))
    attempt("other mixes in the epoch", load, plan(1), other)
    attempt("another holdback in the epoch", load, plan(1, 9), MIXES)
    attempt("the same again", put, driver, plan(1))
    attempt("no such class", load, plan(2), {"nothing": other["A"]})
    attempt("no such arm", load, plan(2), {"A": Mix(("nothing",), (PARTS,))})
    attempt("no such band", load, plan(2, bands=((9, "nothing"),)), MIXES)
    attempt("an arm is dropped", driver.apply, dropped)
    answer["state"] = str(driver.plan_state())
    driver.drop_plan()
    attempt("dropped without a plan", driver.apply, dropped)
    answer["no state"] = str(driver.plan_state())
    driver.revert(driver.before())
    for name in ("turn", "drop_plan", "lost_records"):
        attempt(f"{name} without rules", getattr(driver, name))
    attempt("load_plan without rules", load, plan(2), MIXES)
    attempt("renew without rules", driver.renew, 1)
    attempt("records without rules", lambda: list(driver.records()))
    return answer


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def lapse(driver: EbpfDriver, server: Server, _: int) -> dict[str, Any]:
    """A process that renews the lease is killed; the windows of connections, by the time since its last renewal."""
    put(driver, plan(1, not_after=now_ns() + int(LEASE_S * 1e9)), {"A": Mix(("p1",), (PARTS,))})
    renewing = os.fork()
    if not renewing:
        while True:
            driver.renew(now_ns() + int(LEASE_S * 1e9))
            time.sleep(0.1)
    time.sleep(1.5 * LEASE_S)
    before = one_of(server, "127.1.0.5")[0]
    os.kill(renewing, signal.SIGKILL)
    os.waitpid(renewing, 0)
    state = driver.plan_state()
    assert state
    # a connection that spans the end of the lease may be either
    early, late = set[int](), set[int]()
    while (begun := now_ns()) < state.not_after + int(0.5e9):
        found = one_of(server, "127.1.0.5")[0]
        if begun > state.not_after:
            late.add(found)
        elif now_ns() <= state.not_after:
            early.add(found)
    driver.renew(FOREVER)
    renewed = one_of(server, "127.1.0.5")[0]
    driver.drop_plan()
    return {"before": before, "early": sorted(early), "late": sorted(late), "renewed": renewed,
            "no plan": one_of(server, "127.1.0.5")[0]}  # fmt: skip


def torn(driver: EbpfDriver, server: Server, turns: int) -> dict[str, Any]:
    """Plans turn without a pause while another process looks; then, to see that it would see, one changes in place."""
    here = pins.folder(driver.place)
    with BpfMaps(here) as tables:
        numbers = {name: number for number, name in tables.names().items()}
    answer = {}
    for how in ("turned", "in place"):
        put(driver, Plan(Key(8, 8), 8, FOREVER), mixes_of(8))
        receiving, sending = os.pipe()
        looking = os.fork()
        if not looking:
            os.write(sending, json.dumps(looked(here, numbers)).encode())
            os._exit(0)
        # until it has loaded its program
        time.sleep(1.0)
        began, epoch = time.monotonic(), 8
        while time.monotonic() - began < LOOK_S:
            epoch += 1
            wanted = Plan(Key(epoch, epoch), epoch, FOREVER)
            if how == "turned":
                put(driver, wanted, mixes_of(epoch))
                continue
            with Halves(here) as halves:
                halves._put_half(
                    halves.turn_now().half, plan_bytes(wanted, numbers), mixes_bytes(mixes_of(epoch), numbers)
                )
        os.waitpid(looking, 0)
        answer[how] = json.loads(os.read(receiving, 1000)) | {"turns": epoch - 8}
        driver.drop_plan()
    return answer


def looked(here: Path, numbers: Mapping[str, int]) -> dict[str, int]:
    """Looks at the plan by torn.bpf.c, and how many of them met half of one."""
    with Object(objects.compiled("torn", Path(__file__).parent), here) as program:
        program.constants(struct.pack("=2I", numbers["A"], numbers["p0"]))
        program.load()
        began = time.monotonic()
        while time.monotonic() - began < LOOK_S + 1.5:
            program.run("torn", 20)
        with closing(program.map(".bss")) as tally:
            looks, found = struct.unpack_from("=2Q", tally.get(bytes(4)) or bytes(16))
    return {"looks": looks, "torn": found}


def mixes_of(epoch: int) -> dict[str, Mix]:
    return dict.fromkeys("ABC", Mix((f"p{epoch % 8}",), (PARTS,)))


SCENARIOS = (many, ends, untyped, bands, servers, moved, listens, full, refused, lapse, torn)

if __name__ == "__main__":
    play = next(one for one in SCENARIOS if one.__name__ == sys.argv[1])
    with ruled() as (driver, server):
        answer = play(driver, server, int("".join(sys.argv[2:]) or 0))
    print(json.dumps(answer | {"nothing left": nothing_left()}))
