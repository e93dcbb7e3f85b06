# SPDX-License-Identifier: MIT
"""Inside a guest: /dev/configtron, and connections under it, whatever befalls them; prints JSON.

    python3 -m tests.support.tune.kmod_device configtron.ko calls|lives|flush
    python3 -m tests.support.tune.kmod_device configtron.ko schemes replacing.ko

calls     what the calls take, refuse and report
lives     connections with something done to them, namespaces, churn, the end of the module
flush     in real time: a flush of many prefixes, killed on its way, and others at the tables
schemes   congestion controls that are not what they seem, whose default a namespace has, slow modprobe
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from configtron.linux.netns import inside
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.congestion_controls import REGISTERED
from configtron.tune.drivers.kmod import abi
from configtron.tune.drivers.kmod.abi import FLAGS, KEY_OF
from configtron.tune.drivers.kmod.device import Device
from configtron.tune.drivers.kmod.kmod_driver import CONTROL, DEFAULT_CONTROL, KmodDriver
from configtron.tune.drivers.kmod.module_units import KNOB_OF, packed, reaches
from tests.support.kmod.schemes import references
from tests.support.refusals import refused
from tests.support.tune import kmod_net

# A value unlike the default of everything that this kernel's module sets, all in one profile.
EVERYTHING: dict[str, int | str] = {
    "tcp_congestion_control": "vegas", "initcwnd": 33, "tcp_slow_start_after_idle": 0, "pacing": 1,
    "max_pacing_rate": 1_234_567, "min_rto": 30_000, "data_rto": 700_000, "delack_max": 50_000, "notsent_lowat": 16384,
    "window_clamp": 30_000, "cwnd_clamp": 77, "priority": 5, "mark": 99, "busy_poll": 50, "quickack": 1, "nagle": 0,
    "resume_cwnd": 200, "resume_rtt": 123_456,
}  # fmt: skip
# What getsockopt(2) reports besides: level, name.
OPTIONS = {
    "notsent_lowat": (6, 25), "window_clamp": (6, 10), "priority": (1, 12), "mark": (1, 36), "busy_poll": (1, 46),
    "nagle": (6, 1),
}  # fmt: skip
CC = KEY_OF["tcp_congestion_control"]
INITCWND = KEY_OF["initcwnd"]
CHURN, LOADS, PREFIXES = 1500, 100, 300_000
# Connections of a congestion control that replaces itself.
EACH = 5
# How long modprobe takes; a call that waits for it takes as long.
MODPROBE, SLOW_S = Path("/proc/sys/kernel/modprobe"), 5
# SYN and SYN-ACK are repeated after 1 s and after 3 s; all between the first SYN and the last of these are lost.
LEFT_S, LOST_S = 0.02, 2.5


def calls() -> dict[str, Any]:
    with kmod_net.device() as opened:
        kmod_net.switch_on(opened)
        at = kmod_net.listener(kmod_net.PORT4)
        found = {"records": records(opened, at), "refusals": refusals(opened)}
        return found | {"unprivileged": unprivileged(opened), "cells": cells(opened, at)}


def cells(opened: Device, at: socket.socket) -> dict[str, Any]:
    """Each parameter as the profile states it, as the socket has it, and as an untouched socket has it."""
    settable = [one.name for one in opened.parameters() if one.settable]
    made = kmod_net.profile(opened, ("10.1.0.0/16",), **{knob: EVERYTHING[knob] for knob in settable})
    (_client, served), (_other, untouched) = (kmod_net.connected(at, f"10.{net}.0.1", kmod_net.PORT4) for net in (1, 2))
    has = {"profile's": opened.settings(made), "socket": opened.of_socket(served.fileno())[1],
           "untouched": opened.of_socket(untouched.fileno())[1]}  # fmt: skip
    return {
        **{whose: {KNOB_OF[key]: value for key, value in values.items()} for whose, values in has.items()},
        "profile": opened.of_socket(served.fileno())[0] == made and opened.of_socket(untouched.fileno())[0] == 0,
        "options": {knob: served.getsockopt(*option) for knob, option in OPTIONS.items()},
        "parameters": [[one.name, one.settable, one.words] for one in opened.parameters()],
        "reaches": {
            knob: [list(reach.values), reach.least, reach.most, reach.note]
            for knob, reach in reaches(opened.parameters()).items()
        },
    }


def refusals(opened: Device) -> dict[str, str]:
    """What is wrong -> the error's name."""
    made = opened.new_profile("refusals")

    def settings(**wanted: int | str) -> str:
        return kmod_net.failure(
            lambda: opened.set_settings(made, {KEY_OF[knob]: value for knob, value in wanted.items()})
        )

    def prefix(wanted: str, number: int = made) -> str:
        return kmod_net.failure(lambda: opened.set_prefixes(packed({wanted: number})))

    opened.set_settings(made, {INITCWND: 20})
    with inside("s"):
        unconnected, other = socket.socket(), socket.socket(socket.AF_UNIX)
    with unconnected, other:
        found = {
            "range": settings(initcwnd=0), "above": settings(initcwnd=1001),
            "impossible": settings(tcp_autocorking=0), "no such control": settings(tcp_congestion_control="nosuch"),
            "ourselves": settings(tcp_congestion_control=CONTROL), "half": settings(initcwnd=30, min_rto=1),
            "unknown key": kmod_net.failure(lambda: opened.set_settings(made, {99: 1})),
            "no such profile": kmod_net.failure(lambda: opened.set_settings(made + 1000, {INITCWND: 1})),
            "prefix of no profile": prefix("10.9.0.0/16", made + 1000), "stray bits": prefix("10.9.0.1/16"),
            "mapped": prefix("::ffff:0:0/96"), "too long": prefix("10.9.0.0/33"),
            "delete no profile": kmod_net.failure(lambda: opened.delete_profile(made + 1000)),
            "read before records": kmod_net.failure(lambda: os.read(opened.fileno(), 4096)),
            "no such call": kmod_net.failure(lambda: fcntl.ioctl(opened.fileno(), 0xC0FFEE, bytes(64))),
            "unconnected": kmod_net.failure(lambda: opened.assign(unconnected.fileno(), made)),
            "not TCP": kmod_net.failure(lambda: opened.assign(other.fileno(), made)),
            "no descriptor": kmod_net.failure(lambda: opened.assign(999, made)),
        }  # fmt: skip
    found["settings kept"] = json.dumps(opened.settings(made))
    opened.set_prefixes(packed({"10.9.0.0/16": made}))
    found["delete with prefixes"] = kmod_net.failure(lambda: opened.delete_profile(made))
    opened.flush(made)
    opened.set_options(FLAGS["ENABLED"], made, "cubic")
    found["delete the default"] = kmod_net.failure(lambda: opened.delete_profile(made))
    opened.set_options(FLAGS["ENABLED"], 0, "cubic")
    opened.delete_profile(made)
    return found


def unprivileged(opened: Device) -> dict[str, str]:
    """Every call on a file that root has opened, by a process without CAP_NET_ADMIN; opening it besides."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        found = {call: kmod_net.failure(lambda call=call: opened._call(call)) for call in abi.CALLS}  # type: ignore[misc]
        found["read"] = kmod_net.failure(lambda: os.read(opened.fileno(), 4096))
        found["open"] = kmod_net.failure(Device)
        os.write(write_end, json.dumps(found).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return dict(json.loads(os.read(read_end, 65536)))


def records(opened: Device, at: socket.socket) -> dict[str, Any]:
    """What is reported of five connections to a reader that keeps four."""
    made = kmod_net.profile(opened, ("10.5.0.0/16", "fd05::/16"), tcp_congestion_control="bbr")
    with kmod_net.device() as reader, select.epoll() as waiting:
        # asked for before there is anything to read: programs may open, wait, and begin records in any order
        waiting.register(reader.fileno(), select.EPOLLIN)
        reader.begin_records(4)
        again = kmod_net.failure(lambda: reader.begin_records(4))
        for last in range(1, 6):
            client, served = kmod_net.connected(at, f"10.5.0.{last}", kmod_net.PORT4)
            served.sendall(b"x" * 5000)
            client.recv(5000, socket.MSG_WAITALL)
            client.close()
            served.close()
        woken = waiting.poll(1)
        time.sleep(1)
        first = reader.records()
        client, served = kmod_net.connected(at, "10.5.0.6", kmod_net.PORT4)
        opened.assign(served.fileno(), 0)
        second = reader.records()
    return {
        "again": again,
        "woken": bool(woken),
        "remotes": [socket.inet_ntoa(bytes(one["remote"])[:4]) for one in first],  # type: ignore[arg-type]
        "first": {k: v if isinstance(v, int) else v.hex() for k, v in first[0].items()},
        "profile": made,
        "lost": [one["lost"] for one in first + second],
        "left": [one["flags"] & FLAGS["RECORD_LEFT"] for one in second],
        "status": opened.status()["records_lost"],
    }


def lives() -> dict[str, Any]:
    with kmod_net.device() as opened:
        kmod_net.switch_on(opened)
        at = kmod_net.listener(kmod_net.PORT4)
        found: dict[str, Any] = {"lives": one_after_another(opened, at), "generation": generation(opened)}
        found["namespaces"] = namespaces(opened)
        churn(opened, at)
        found["busy"] = kmod_net.unload()
        at.close()
        kmod_net.default("cubic")
        time.sleep(120)
        stats = [opened.stats(one) for one in opened.profiles()]
        found["balance"] = [[one["opened"], one["closed"]] for one in stats]
        # one for each of the namespaces (the first, s, c), one for each profile
        found["versions"] = opened.status()["versions"] - 3 - len(opened.profiles())
    for _ in range(LOADS):
        assert kmod_net.drained() == 0
        kmod_net.load(sys.argv[1])
    return found


def one_after_another(opened: Device, at: socket.socket) -> dict[str, Any]:
    """One connection after another, each with something done to it on its way."""
    a = kmod_net.profile(opened, ("10.3.0.0/16",), tcp_congestion_control="bbr", initcwnd=40)
    b = kmod_net.profile(opened, ("10.4.0.0/16",), tcp_congestion_control="vegas", initcwnd=4)
    _client, served = kmod_net.connected(at, "10.3.0.1", kmod_net.PORT4)

    def assigned(one: socket.socket = served) -> int:
        return opened.of_socket(one.fileno())[0]

    def choose(one: socket.socket, name: str) -> None:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())

    found: dict[str, Any] = {"by prefix": [kmod_net.control(served), kmod_net.window(served)]}
    opened.set_settings(a, {CC: "reno"})
    _, later = kmod_net.connected(at, "10.3.0.2", kmod_net.PORT4)
    found["older version lives"] = [kmod_net.control(served), kmod_net.control(later)]
    opened.assign(served.fileno(), b)
    found["assigned"] = [kmod_net.control(served), assigned() == b]
    opened.assign(served.fileno(), 0)
    found["given back"] = [kmod_net.control(served), assigned()]
    choose(served, "reno")
    found["application chose"] = [kmod_net.control(served), assigned()]
    choose(served, CONTROL)
    found["application chose us"] = [kmod_net.control(served), assigned() == a]
    found["listener"] = kmod_net.failure(lambda: opened.assign(at.fileno(), a))
    with inside("s"), socket.socket() as chosen:
        choose(chosen, "reno")
        chosen.bind(("", 7000))
        chosen.listen()
        _, bypassed = kmod_net.connected(chosen, "10.4.0.3", 7000)
        found["listener of its own"] = [kmod_net.control(bypassed), assigned(bypassed)]
    enabled = Path("/sys/module/configtron/parameters/enabled")
    opened.set_options(0, 0, "cubic")
    _, off = kmod_net.connected(at, "10.4.0.4", kmod_net.PORT4)
    enabled.write_text("0")
    opened.set_options(FLAGS["ENABLED"], 0, "reno")
    _, dark = kmod_net.connected(at, "10.4.0.5", kmod_net.PORT4)
    enabled.write_text("1")
    opened.set_options(FLAGS["ENABLED"], b, "reno")
    _, on = kmod_net.connected(at, "10.99.0.1", kmod_net.PORT4)
    found["switches"] = [kmod_net.control(one) for one in (off, dark, on)]
    opened.set_options(FLAGS["ENABLED"], 0, "cubic")
    found["actives"] = [_active(opened, 0, b), _active(opened, FLAGS["ACTIVE_OPENS"], b)]
    found["reconnected"] = _reconnected(opened, at)
    opened.set_options(FLAGS["ENABLED"], 0, "cubic")
    return found


def _active(opened: Device, flag: int, b: int) -> list[object]:
    """The server's side as a client: of a listener in the other namespace."""
    opened.set_options(FLAGS["ENABLED"] | flag, 0, "cubic")
    opened.set_prefixes(packed({"192.0.2.2/32": b}))
    with inside("c"), socket.create_server(("192.0.2.2", 7001)) as far:
        with inside("s"):
            one = socket.socket()
        one.connect(("192.0.2.2", 7001))
        with one, far.accept()[0]:
            return [kmod_net.control(one), opened.of_socket(one.fileno())[0] == b]


def _reconnected(opened: Device, at: socket.socket) -> list[int]:
    """connect(AF_UNSPEC) ends a connection without closing its socket; a second close must not count twice."""
    made = kmod_net.profile(opened, ("10.6.0.0/16",), initcwnd=20)
    client, served = kmod_net.connected(at, "10.6.0.9", kmod_net.PORT4)
    nowhere = struct.pack("=H14x", socket.AF_UNSPEC)
    assert ctypes.CDLL(None).connect(served.fileno(), nowhere, len(nowhere)) == 0
    now = opened.stats(made)
    served.close()
    client.close()
    after = opened.stats(made)
    return [now["opened"], now["closed"], after["opened"], after["closed"]]


def namespaces(opened: Device) -> dict[str, Any]:
    """Tables of one namespace are not another's, and go with it."""
    subprocess.run(["ip", "netns", "add", "other"], check=True)
    with kmod_net.device("other") as other:
        mine = kmod_net.profile(other, ("10.0.0.0/8", "fd00::/8"), initcwnd=20)
        shared = opened.dump().keys() & other.dump().keys()
        found: dict[str, Any] = {"apart": [len(other.dump()), len(shared), other.profiles() == {mine: "p"}]}
        found["inherited"] = other.options()[2]
        with inside("s"), socket.socket() as stranger:
            found["stranger"] = kmod_net.failure(lambda: other.assign(stranger.fileno(), mine))
    subprocess.run(["ip", "netns", "del", "other"], check=True)
    return found


def generation(opened: Device) -> dict[str, Any]:
    """A watcher sees a change by any process, without reading the tables."""
    with kmod_net.device() as watcher:
        watcher.status()
        poll = select.poll()
        poll.register(watcher.fileno(), select.POLLPRI)
        quiet = poll.poll(0)
        made = opened.new_profile("seen")
        seen = poll.poll(0)
        watcher.status()
        calm = poll.poll(0)
        opened.delete_profile(made)
    return {"seen": [len(quiet), len(seen), len(calm)]}


def churn(opened: Device, at: socket.socket) -> None:
    """Connections while profiles, prefixes and sockets change under them."""
    chance = random.Random(7)
    made = [kmod_net.profile(opened, (f"10.{20 + i}.0.0/16",), initcwnd=10 + i) for i in range(8)]
    kept: list[socket.socket] = []
    for _ in range(CHURN):
        client, served = kmod_net.connected(
            at, f"10.{chance.randrange(20, 40)}.0.{chance.randrange(1, 250)}", kmod_net.PORT4
        )
        kept += (client, served)
        with suppress(OSError):
            _disturb(opened, served, made, chance)
        if len(kept) > 200:
            for one in kept:
                one.close()
            kept.clear()
    for one in kept:
        one.close()
    opened.flush()


def _disturb(opened: Device, served: socket.socket, made: list[int], chance: random.Random) -> None:
    which, some = chance.randrange(8), chance.choice(made)
    if which == 0:
        opened.assign(served.fileno(), chance.choice([0, some]))
    elif which == 1:
        served.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, chance.choice([b"reno", b"bbr", CONTROL.encode()]))
    elif which == 2:
        opened.set_settings(some, {INITCWND: chance.randrange(1, 40), CC: "bbr"})
    elif which == 3:
        opened.set_prefixes(packed({f"10.{chance.randrange(20, 40)}.0.0/{chance.choice((16, 24))}": some}))
    elif which == 4:
        opened.delete_prefixes(packed({f"10.{chance.randrange(20, 40)}.0.0/16": 0}))
    elif which == 5:
        opened.new_profile("more")
        opened.delete_profile(max(opened.profiles()))
    else:
        served.send(bytes(chance.randrange(1, 100_000)), socket.MSG_DONTWAIT)


def flush() -> dict[str, Any]:
    with Device() as kmod:
        made = kmod.new_profile("p")
        return {"prefixes": PREFIXES, "killed": killed(kmod, made), "meanwhile": meanwhile(kmod, made)}


def filled(kmod: Device, made: int) -> None:
    kmod.set_prefixes(packed({f"{16 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24": made for i in range(PREFIXES)}))


def begun(kmod: Device) -> None:
    """Wait until a flush has removed something."""
    while kmod.status()["prefixes"] == PREFIXES:
        time.sleep(0.001)


def killed(kmod: Device, made: int) -> list[int]:
    """Left by a flush that was killed: by status, by dump, by the profile; then removed by the next, and left."""
    filled(kmod, made)
    ready, says = os.pipe()
    child = os.fork()
    if not child:
        os.write(says, b"x")
        kmod.flush()
        os._exit(0)
    os.read(ready, 1)
    begun(kmod)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    left = [kmod.status()["prefixes"], len(kmod.dump()), kmod.stats(made)["prefixes"]]
    return [*left, kmod.flush(), kmod.status()["prefixes"]]


def meanwhile(kmod: Device, made: int) -> dict[str, Any]:
    """Calls that change the tables while a flush is under way, and what becomes of a prefix set then."""
    filled(kmod, made)
    removed: list[int] = []
    with Device() as other:
        flushes = threading.Thread(target=lambda: removed.append(other.flush()))
        flushes.start()
        begun(kmod)
        kmod.set_prefixes(packed({"10.0.0.0/24": made}))
        calls = 0
        while kmod.status()["prefixes"] > 1:  # as the kernel has it: a thread may end long after its call
            kmod.delete_profile(kmod.new_profile("quick"))
            calls += 1
        flushes.join()
    stays = "stays" if kmod.status()["prefixes"] == 1 else "is gone"
    kmod.flush()
    return {"calls": calls, "set meanwhile": stays, "removed": removed[0]}


def schemes(replacing: str) -> dict[str, Any]:
    # The module was loaded, and these hosts were made, with cubic as the host's default.
    assert kmod_net.unload() == 0
    DEFAULT_CONTROL.write_text("bbr")
    kmod_net.load(sys.argv[1])
    kmod_net.load(replacing)
    with Device() as first:
        found: dict[str, Any] = {"by load": first.options()[2]}
    DEFAULT_CONTROL.write_text("cubic")
    with kmod_net.device() as opened:
        found["needs ecn"] = needs_ecn(opened)
        kmod_net.switch_on(opened)
        at = kmod_net.listener(kmod_net.PORT4)
        found |= {name: replaced(opened, at, name) for name in ("rep_init", "rep_release")}
        found |= {"synack": repeated_synack(opened, at), "modprobe": slow_modprobe(opened)}
        at.close()
    kmod_net.default("cubic")
    found["namespaces"] = made_meanwhile()
    assert kmod_net.drained() == 0, "the namespace is still there"
    subprocess.run(["ip", "netns", "del", "made"], check=True)
    time.sleep(60)
    held = references("replacing")
    rmmod = subprocess.run(["rmmod", "replacing"], capture_output=True)
    kmod_net.load(sys.argv[1])
    return found | {"held by no process": [held, rmmod.returncode]}


def default_of(netns: str) -> str:
    with inside(netns):
        return DEFAULT_CONTROL.read_text().strip()


def needs_ecn(opened: Device) -> dict[str, Any]:
    """dctcp, to a profile, as what is left alone, by the driver, and as the host's default."""
    made = opened.new_profile("p")
    found: dict[str, Any] = {
        "profile": kmod_net.failure(lambda: opened.set_settings(made, {CC: "dctcp"})),
        "plain": kmod_net.failure(lambda: opened.set_options(FLAGS["ENABLED"], 0, "dctcp")),
        "settings": opened.settings(made),
    }
    opened.delete_profile(made)
    dctcp = Profile("p", (("tcp_congestion_control", "dctcp"),))
    found["driver"] = refused(lambda: KmodDriver(Place("s")).apply(Changes({"p": dctcp})))
    # a namespace other than the first may choose among these only
    Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").write_text(REGISTERED.read_text())
    kmod_net.default("dctcp")
    before = opened.status()["prefixes"], opened.profiles()
    default = refused(lambda: KmodDriver(Place("s")).apply(Changes({"p": Profile("p", ())})))
    found |= {"default": default, "default stays": default_of("s")}
    found["nothing written"] = before == (opened.status()["prefixes"], opened.profiles())
    kmod_net.default("cubic")
    return found


def replaced(opened: Device, at: socket.socket, name: str) -> dict[str, Any]:
    """Connections of a congestion control that replaces its operations: what runs, what is counted, what is held."""
    made = kmod_net.profile(opened, ("10.3.0.0/16",), tcp_congestion_control=name, initcwnd=33)

    def counted() -> list[int]:
        return [opened.stats(made)[which] for which in ("opened", "closed", "replaced")]

    with kmod_net.device() as reader:
        reader.begin_records()
        held = references("replacing"), references("configtron")
        ends = [kmod_net.connected(at, f"10.3.0.{i + 1}", kmod_net.PORT4) for i in range(EACH)]
        first = ends[0][1]
        found: dict[str, Any] = {
            "runs": kmod_net.control(first), "window": kmod_net.window(first),
            "profile": opened.of_socket(first.fileno())[0] == made, "open": counted(),
            "witness": list(KmodDriver(Place("s")).refusals().get("tcp_congestion_control", ())),
        }  # fmt: skip
        for client, served in ends:
            served.sendall(b"x" * 5000)
            client.close()
            served.close()
        time.sleep(30)
        said = {(bytes(one["cc"]).decode(), one["flags"] & FLAGS["RECORD_LEFT"]) for one in reader.records()}  # type: ignore[operator, arg-type]
        found |= {"records": sorted(said), "closed": counted()}
        found["balanced"] = held == (references("replacing"), references("configtron"))
    opened.flush()
    opened.delete_profile(made)
    return found


def made_meanwhile() -> dict[str, Any]:
    """A namespace made while we are the host's default, which was bbr: what it has then, and what is left of us."""
    driver = KmodDriver(Place(""))
    DEFAULT_CONTROL.write_text("bbr")
    before = driver.before()
    driver.apply(Changes({"v": Profile("v", (("initcwnd", 20),))}, prefixes={"10.9.0.0/16": "v"}))
    found: dict[str, Any] = {"host": default_of("")}
    held = references("configtron")
    subprocess.run(["ip", "netns", "add", "made"], check=True)
    found |= {"holds nothing": held == references("configtron"), "made": default_of("made")}
    with kmod_net.device("made") as other:
        found["plain"] = other.options()[2]
    subprocess.run(["ip", "-n", "made", "link", "set", "lo", "up"], check=True)
    with inside("made"):
        at, client = socket.create_server(("127.0.0.1", 0)), socket.socket()
    client.connect(at.getsockname())
    found["runs"] = [kmod_net.control(one) for one in (client, at.accept()[0])]
    driver.revert(before)
    return found | {"after": [default_of(""), default_of("made")]}


def slow_modprobe(opened: Device) -> dict[str, float]:
    """How long others wait while a name is looked for that only modprobe could bring."""
    made = opened.new_profile("slow")
    helper = Path("/run/modprobe")
    helper.write_text(f"#!/bin/sh\nsleep {SLOW_S}\nexit 1\n")
    helper.chmod(0o755)
    usual = MODPROBE.read_text()
    MODPROBE.write_text(str(helper))
    with kmod_net.device("s") as other, kmod_net.device("c") as elsewhere:
        asks = threading.Thread(target=lambda: kmod_net.failure(lambda: other.set_settings(made, {CC: "nosuch"})))
        began = time.monotonic()
        asks.start()
        time.sleep(1)
        opened.delete_profile(opened.new_profile("quick"))
        found = {"tables": round(time.monotonic() - began, 1)}
        elsewhere.set_options(FLAGS["ENABLED"], 0, "illinois")
        found["names"] = round(time.monotonic() - began, 1)
        asks.join()
        found["whole"] = round(time.monotonic() - began, 1)
        elsewhere.set_options(FLAGS["ENABLED"], 0, "cubic")
    MODPROBE.write_text(usual)
    opened.delete_profile(made)
    return found


def repeated_synack(opened: Device, at: socket.socket) -> dict[str, int]:
    """The first window where the SYN-ACK was repeated, and where not (RFC 5681 section 3.1: one segment)."""
    made = kmod_net.profile(opened, ("10.4.0.0/16",), tcp_congestion_control="cubic", initcwnd=40)
    usual = kmod_net.window(kmod_net.connected(at, "10.4.0.1", kmod_net.PORT4)[1])
    kmod_net.delayed(names="s", words=" loss 100%")
    # the first SYN has left; without a second one the server's own timer repeats its SYN-ACK
    lost = {"names": "c", "words": " loss 100%"}
    timers = [threading.Timer(LEFT_S, kmod_net.delayed, kwargs=lost), threading.Timer(LOST_S, kmod_net.delayed)]
    for timer in timers:
        timer.start()
    _client, served = kmod_net.connected(at, "10.4.0.2", kmod_net.PORT4)
    for timer in timers:
        timer.join()
    found = {
        "usual": usual,
        "repeated": kmod_net.window(served),
        "profile": int(opened.of_socket(served.fileno())[0] == made),
    }
    opened.flush()
    opened.delete_profile(made)
    return found


PLAYS: dict[str, Callable[..., dict[str, Any]]] = {"calls": calls, "lives": lives, "flush": flush, "schemes": schemes}

if __name__ == "__main__":
    kmod_net.program(lambda name, *words: PLAYS[name](*words))
