# SPDX-License-Identifier: MIT
"""Inside a guest: the driver kmod, its rules, its plans and open connections; prints JSON.

    python3 -m tests.support.tune.kmod_driver configtron.ko rules|moves|retuned|plans

rules     from nothing to a hundred thousand prefixes and back
moves     connections that were open before it had rules are moved
retuned   open connections of a prefix get another profile, and their own one back
plans     the module draws: arms and records against the Python draw, lease, turns, faults
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from configtron.db.tuning import Tuning
from configtron.lab.internet.links import ip, sysctl
from configtron.linux.netns import inside
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.draw import Key, Mix, Plan, draw, unit_of
from configtron.model.nouns import Profile, Value
from configtron.model.protocols import Mover
from configtron.model.tuning import Changes, Place, Rules
from configtron.service.lease.context import context_of
from configtron.service.lease.retuning import OpenRetuner
from configtron.tune.drivers.kmod import abi
from configtron.tune.drivers.kmod.kmod_driver import DEFAULT_CONTROL, OFF, SWITCH, KmodDriver
from configtron.tune.drivers.witness import newest_sockets, witness
from configtron.tune.rules import difference
from tests.support.refusals import refused
from tests.support.tune.killed_retuning import of
from tests.support.tune.kmod_net import (
    PORT4,
    PORT6,
    SERVER,
    aborted,
    connected,
    control,
    default,
    delayed,
    device,
    listener,
    load,
    program,
    unload,
    window,
)


def named(name: str, **settings: Value) -> Profile:
    return Profile(name, tuple(settings.items()))


MANY = 100_000
# An address of each prefix of `WANTED` but those of IPv6 without ::1, and one of the default.
OWN_CLIENTS = 5
WANTED = Rules(
    {
        "wide": named("wide", tcp_congestion_control="bbr", initcwnd=40, min_rto=0.02),
        "narrow": named("narrow", pacing="fq", initcwnd=4),
        "as it is": named("as it is"),
    },
    {
        "10.1.0.0/16": "wide", "10.1.2.0/24": "narrow", "fd00::/16": "wide", "::/0": "as it is",
        "::102:304/128": "narrow", "192.0.2.7/32": "as it is",
    },
    "narrow",
)  # fmt: skip
ALL = difference(Rules(), WANTED)


def here(netns: str = "s") -> str:
    with inside(netns):
        return DEFAULT_CONTROL.read_text().strip()


def rules() -> dict[str, Any]:
    driver, elsewhere = KmodDriver(Place("s")), KmodDriver(Place("c"))
    assert unload() == 0
    found: dict[str, Any] = {"absent": [driver.missing(), driver.read() == Rules(), driver.mark()]}
    driver.revert(driver.before())
    load(sys.argv[1])
    found["able"] = [driver.missing(), len(driver.settable()), KmodDriver(Place("nowhere")).missing()]
    default("reno")
    before, mark = driver.before(), driver.mark()
    found["before"] = before
    found["as asked"] = driver.apply(ALL) == driver.read() == WANTED
    found["marked"] = mark != driver.mark() == driver.mark()
    found["default"] = [here(), here("c"), elsewhere.read() == Rules()]
    at = listener(PORT4)
    found["windows"] = {source: first_window(at, source) for source in ("10.1.0.9", "10.1.2.9", "10.7.0.9")}
    found["by route"] = [len(driver.ask(WANTED).differences)]
    found["lacking"] = [lacking(driver, at, "10.1.0.9")]
    ip("s", ["route add 10.1.2.0/24 via 192.0.2.2 congctl reno initcwnd 5"])
    found["by route"] += [[one.scope, one.applied, one.found] for one in driver.ask(WANTED).differences]
    found["lacking"] += [lacking(driver, at, "10.1.2.9")]
    ip("s", ["route del 10.1.2.0/24"])
    SWITCH.write_text("0")
    found["switched off"] = [first_window(at, "10.1.0.9"), driver.missing() == OFF, driver.read() == Rules()]
    found["lacking"] += [lacking(driver, at, "10.1.0.9")]
    SWITCH.write_text("1")
    found["refusals"] = refusals(driver) | {"unchanged": str(driver.read() == WANTED)}
    found["many"] = many(driver)
    driver.apply(Changes(prefixes={"10.1.0.0/16": "narrow"}, dropped_prefixes=frozenset({"fd00::/16"})))
    found["frozen"] = [driver.mark()]
    default("cubic")  # an external change
    found["overruled"] = driver.read() == Rules()
    found["frozen"] += [driver.mark()]
    found["again"] = driver.apply(difference(driver.read(), WANTED)) == driver.read() == WANTED
    driver.revert(before)
    driver.revert(before)
    at.close()
    with device() as opened:
        found["nothing left"] = [here(), driver.read() == Rules(), opened.status()["prefixes"], opened.profiles()]
    return found | {"listened": listened(), "next steps": next_steps(driver, before)}


def refusals(driver: KmodDriver) -> dict[str, str]:
    """Changes that must change nothing."""
    changes = {
        "control": Changes({"c": named("c", tcp_congestion_control="nosuch")}),
        "name": Changes(prefixes={"10.9.0.0/16": "unknown"}),
        "used": Changes(dropped_profiles=frozenset({"wide"})),
        "default": Changes(dropped_profiles=frozenset({"narrow"})),
        "range": Changes({"c": named("c", initcwnd=2000)}),
    }
    return {name: refused(lambda wrong=wrong: driver.apply(wrong)) for name, wrong in changes.items()}  # type: ignore[misc]


def next_steps(driver: KmodDriver, before: str) -> dict[str, Any]:
    """Refusals of the kernel beyond a setting, and what they say is to be done; each is mended as it says."""
    # which congestion controls other namespaces than the first may have as their default
    allow = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").write_text
    found: dict[str, Any] = {}
    abi.ABI += 1  # type: ignore[misc]
    found["other version"] = driver.missing()
    abi.ABI -= 1  # type: ignore[misc]
    allow("reno cubic")
    found["not allowed"] = refused(lambda: driver.apply(ALL))
    allow("reno cubic configtron")
    driver.apply(ALL)
    allow("cubic")
    found["old default"] = [refused(lambda: driver.revert(before)), here(), driver.read() == Rules()]
    allow("reno cubic configtron")
    driver.revert(before)
    found["restored"] = here()
    too_many = {f"p{number}": named(f"p{number}", initcwnd=20) for number in range(1025)}
    found["room"] = refused(lambda: driver.apply(Changes(too_many)))
    driver.revert(before)
    allow("reno cubic configtron dctcp")
    default("dctcp")
    found["cannot be wrapped"] = refused(lambda: driver.apply(ALL))
    default("reno")
    return found


def first_window(at: socket.socket, source: str) -> int:
    """The first window that the module gives a connection of a client."""
    _client, served = connected(at, source, at.getsockname()[1])
    with device() as opened:
        return int(opened.of_socket(served.fileno())[1][1])


def lacking(driver: KmodDriver, at: socket.socket, source: str) -> list[list[str]]:
    """What a new connection of a client shows that the rules do not say."""
    newest = newest_sockets()
    _client, _served = connected(at, source, at.getsockname()[1])
    answers = [*witness(driver, WANTED, newest)]
    assert len(answers) == 2 and answers[1].asked == OWN_CLIENTS, answers
    found = [(each, one) for each in answers for one in each.differences]
    return [[one.knob, one.applied, one.found.partition(":")[0]] for each, one in found]


def many(driver: KmodDriver) -> dict[str, Any]:
    prefixes = {f"{16 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24": "narrow" for i in range(MANY)}
    opened = driver.apply(Changes(prefixes=prefixes))
    mark = driver.mark()
    some = dict.fromkeys(list(prefixes)[:100], "wide")
    moved = driver.apply(Changes(prefixes=some))
    return {
        "read back": dict(opened.prefixes) == prefixes,
        "moved": dict(moved.prefixes) == some,
        "read": dict(driver.read().prefixes) == {**WANTED.prefixes, **prefixes, **some},
        "marked": mark != driver.mark() == driver.mark(),
    }


def listened() -> dict[str, Any]:
    """Rules for port 80 alone: first windows at 80 and 81 by each family, and what a driver for all ports does then."""
    only, whole = KmodDriver(Place("s", listen=str(PORT4))), KmodDriver(Place("s"))
    before = only.before()
    only.apply(Changes({"wide": named("wide", initcwnd=40)}, {"10.1.0.0/16": "wide"}, default="wide"))
    found: dict[str, Any] = {"windows": [first_window(listener(port), "10.1.0.9") for port in (PORT4, PORT6)]}
    found["read"] = [len(only.read().prefixes), len(whole.read().prefixes), len(whole.listened()), only.listened()]
    found["found"] = whole.listened()[0].place.listen
    found["refused"] = refused(lambda: whole.apply(Changes({"c": named("c", initcwnd=5)}, {"10.2.0.0/16": "c"})))
    whole.revert(before)
    found["still"] = len(only.read().prefixes)
    only.revert(before)
    found["left"] = [len(only.read().prefixes), whole.listened(), here()]
    found["addresses"] = KmodDriver(Place("s", listen="192.0.2.1:80")).missing()
    return found


# Who it is -> the client and the port it comes to.
CLIENTS = {
    "by prefix": ("10.1.0.9", PORT4), "by longer prefix": ("10.1.2.9", PORT4), "without a profile": ("10.9.0.9", PORT4),
    "IPv6": ("fd00::9", PORT6), "mapped": ("10.1.0.10", PORT6), "held back": ("10.2.0.9", PORT4),
    "of another process": ("10.1.0.11", PORT4), "ended": ("10.1.0.12", PORT4),
}  # fmt: skip
MOVED = Changes(
    {
        "web": named("web", tcp_congestion_control="bbr", initcwnd=40, min_rto=0.05),
        "small": named("small", tcp_congestion_control="vegas"),
        "as it is": named("as it is"),
    },
    {"10.1.0.0/16": "web", "10.1.2.0/24": "small", "fd00::/16": "small", "10.2.0.0/16": "as it is",
     "192.0.2.2/32": "small"},
)  # fmt: skip


def moves() -> dict[str, Any]:
    driver = KmodDriver(Place("s"))
    # IPv6 looks whether another host has its link's addresses
    time.sleep(3)
    before = driver.before()
    found: dict[str, Any] = {"mover": isinstance(driver, Mover), "nothing in force": driver.move()}
    at = {port: listener(port) for port in (PORT4, PORT6)}
    ends = {name: connected(at[port], client, port) for name, (client, port) in CLIENTS.items()}
    child, stop = passed_on(ends["of another process"][1])
    for one in ends["ended"]:
        one.close()
    # the server's side as a client; and a connection that it has not taken yet: no process holds it
    with inside("c"):
        far = socket.create_server(("192.0.2.2", 7001))
    with inside("s"):
        active, untaken = socket.create_connection(("192.0.2.2", 7001)), socket.create_server((SERVER, 7002))
    with inside("c"):
        _held = far.accept()[0], socket.create_connection((SERVER, 7002)), untaken
    time.sleep(1)
    driver.apply(MOVED)
    found["untouched"] = controls()
    found["moved"], found["after"] = driver.move(), controls()
    found["our own"] = control(active)
    with device() as opened:
        (web,) = (number for number, name in opened.profiles().items() if name == "web")
        held, settings = opened.of_socket(ends["by prefix"][1].fileno())
        found["held"] = [held == web, int(settings[1]) < 40, opened.stats(web)["opened"]]
        found["again"] = [driver.move(), opened.stats(web)["opened"]]
        driver.apply(Changes({"web": named("web")}))
        found["newer version"] = [driver.move(), control(ends["by prefix"][1]), opened.stats(web)["opened"]]
    driver.revert(before)
    os.close(stop)
    os.waitpid(child, 0)
    return found


def passed_on(one: socket.socket) -> tuple[int, int]:
    """Give a connection to a process that does nothing else; (that process, what ends it)."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        for number in map(int, os.listdir("/proc/self/fd")):
            if number not in (one.fileno(), ours):
                with suppress(OSError):  # the listing's own
                    os.close(number)
        os.read(ours, 1)
        os._exit(0)
    os.close(ours)
    one.close()
    return child, theirs


def controls() -> dict[str, str]:
    """Client -> the congestion control of its connection, as the kernel reports all of them (sock_diag)."""
    opened = os.popen("ip netns exec s ss -tinHO state established").read()
    found = {}
    for name, (client, _) in CLIENTS.items():
        lines = [line.split() for line in opened.splitlines() if f"{client}:" in line or f"{client}]:" in line]
        found[name] = next((word for line in lines for word in line if word in ("bbr", "vegas", "cubic")), "")
    return found


NEAR = named("near", tcp_congestion_control="vegas", notsent_lowat=5000, min_rto=0.05)
FAR = named("far", tcp_congestion_control="bbr", priority=3)
RETUNED = {"changes": "10.1.0.9", "changes too": "10.1.0.10", "another prefix": "10.2.0.9", "no prefix": "10.9.0.9"}
LOWAT, PRIORITY = (6, 25), (1, 12)


def retuned() -> dict[str, Any]:
    place = Place("s")
    driver = KmodDriver(place)
    time.sleep(3)
    before = driver.before()
    driver.apply(Changes({"near": NEAR, "far": FAR}, {"10.1.0.0/16": "near", "10.2.0.0/16": "near"}))
    at = listener(PORT4)
    ends = {name: connected(at, client, PORT4) for name, client in RETUNED.items()}

    def seen() -> dict[str, Any]:
        return {name: [control(served), driver.assigned(served.fileno()), served.getsockopt(*LOWAT),
                       served.getsockopt(*PRIORITY)] for name, (_, served) in ends.items()}  # fmt: skip

    with tempfile.TemporaryDirectory() as folder, Tuning(Path(folder) / "tune.db") as journal:
        retuner = OpenRetuner(context_of(journal), driver, place)
        found: dict[str, Any] = {"begun": seen()}
        found["text"], found["changed"] = retuner.retune(of("10.1.0.0/16", FAR), [NEAR, FAR]).text, seen()
        found["back"], found["after"] = retuner.put_back().put_back, seen()
    driver.revert(before)
    return found


# The first window that each profile gives is its mark. 10 is the kernel's own.
WINDOWS = {"a": 11, "b": 12, "c": 13, "near": 14, "far": 15, "alone": 16, "other": 17}
PLAIN = 10
KEY = Key(0x0706050403020100, 0x0F0E0D0C0B0A0908)
MIXES = {"near": Mix(("a", "b", "c"), (30_000, 35_000, 536)), "far": Mix(("b", "c"), (1, 65_535))}
PREFIXES = {"10.1.0.0/16": "near", "10.2.0.0/16": "far", "10.3.0.0/16": "alone", "fd00:1::/32": "near"}
HOLDBACK = 13_107
DRAWN = 300
LEASE_S = 5.0


def plans() -> dict[str, Any]:
    driver = KmodDriver(Place("s"))
    before = driver.before()
    found: dict[str, Any] = {"not in force": refused(lambda: driver.load_plan(plan(1), MIXES))}
    profiles = {name: named(name, initcwnd=width) for name, width in WINDOWS.items()}
    driver.apply(Changes(profiles=profiles, prefixes=PREFIXES))
    ends = {port: listener(port) for port in (PORT4, PORT6)}
    at = ends[PORT4]
    found["epochs"] = {number: epoch_of(driver, number, ends) for number in (7, 8)}
    found |= {"lease": lease(driver, at), "bands": bands(driver, at), "closing": closing(driver, at)}
    found["refusals"] = plan_refusals(driver)
    # once the plan is dropped: those of the profiles that prefixes point to
    found["dropped"] = [window_of(at, source) for source in ("10.1.0.9", "10.2.0.9", "10.3.0.9", "10.77.0.9")]
    found["lost"] = driver.lost_records()
    put(driver, plan(80))
    driver.load_plan(plan(81), MIXES)
    driver.revert(before)
    with device() as reported:
        found["nothing left"] = [reported.plan_status()["flags"], reported.plan_mixes(), reported.profiles()]
    driver.stop_records()
    return found


def boottime() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def plan(epoch: int, lease_s: float = 3600, holdback: int = HOLDBACK, bands: tuple[tuple[int, str], ...] = ()) -> Plan:
    return Plan(KEY, epoch, boottime() + int(lease_s * 1e9), holdback, bands=bands)


def put(driver: KmodDriver, wanted: Plan) -> None:
    driver.load_plan(wanted, MIXES)
    driver.turn()


def expected(now: Plan, source: str, class_name: str) -> tuple[int | None, bool, str]:
    found = draw(now, MIXES[class_name], unit_of(source))
    return found.arm, found.held, "" if found.arm is None else MIXES[class_name].profiles[found.arm]


def window_of(at: socket.socket, source: str) -> int:
    client, served = connected(at, source, PORT4)
    found = window(served)
    aborted(client, served)
    return found


def sources(epoch: int) -> list[tuple[str, int]]:
    """(address, port): IPv4, IPv6, and IPv4 at a socket of IPv6, whose addresses are mapped."""
    found = [(f"10.1.{epoch}.{i % 250 + 1}", PORT6 if i % 3 else PORT4) for i in range(DRAWN)]
    return found + [(f"fd00:1:{i:x}::{epoch + 1}", PORT6) for i in range(DRAWN // 3)]


def epoch_of(driver: KmodDriver, number: int, ends: dict[int, socket.socket]) -> dict[str, Any]:
    """One epoch's connections: how many were as Python draws them, by window and by record."""
    now = plan(number)
    put(driver, now)
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    for source, port in sources(number):
        client, served = connected(ends[port], source, port)
        arm, held, profile = expected(now, source, "near")
        counts[profile or "held"] += 1
        if window(served) != (WINDOWS[profile] if profile else PLAIN):
            wrong.append(f"{source}: window {window(served)}, profile {profile}")
        aborted(served, client)
        for record in driver.records():
            opened = record if isinstance(record, OpenRecord) else record.opened
            facts = (opened.arm, opened.held, opened.profile, opened.epoch, opened.class_name)
            if facts != (arm, held, profile, number, "near"):
                wrong.append(f"{source}: record {facts}")
            counts["ends" if isinstance(record, CloseRecord) else "beginnings"] += 1
            if isinstance(record, CloseRecord):
                counts[str(record.ending)] += 1
            if source.rsplit(".", 1)[0] in str(record) and source in str(record):
                wrong.append(f"{source}: whole address in a record")
    return {"wrong": wrong[:5], "counts": dict(counts)}


def lease(driver: KmodDriver, at: socket.socket) -> dict[str, Any]:
    """Windows of one client of a class, second by second, after the last renewal."""
    now = plan(50, LEASE_S, holdback=0)
    put(driver, now)
    began, found = boottime(), []
    while (since := (boottime() - began) / 1e9) < 2 * LEASE_S:
        found.append((since + 0.1, window_of(at, "10.1.9.9")))
        time.sleep(0.4)
    driver.renew(boottime() + int(60e9))
    tuned = WINDOWS[expected(now, "10.1.9.9", "near")[2]]
    return {
        "last tuned": max(since for since, width in found if width == tuned),
        "first plain": min(since for since, width in found if width == PLAIN),
        "others": sorted({width for _, width in found} - {tuned, PLAIN}),
        "renewed": window_of(at, "10.1.9.9") == tuned,
    }


def bands(driver: KmodDriver, at: socket.socket) -> dict[str, Any]:
    """(round trip of the record in ms, band, class) of clients that no prefix holds."""
    put(driver, plan(60, holdback=0, bands=((20_000, "near"), (150_000, "far"))))
    found: dict[str, Any] = {}
    for ms in (10, 100, 300):
        delayed(ms / 2000)
        for way, (cookies, stamps) in {"plain": ("1", "1"), "cookie without timestamps": ("2", "0")}.items():
            sysctl("s", [("net/ipv4/tcp_syncookies", cookies), ("net/ipv4/tcp_timestamps", stamps)])
            list(driver.records())
            ends = connected(at, "10.77.0.1", PORT4)
            record = next(one for one in driver.records() if isinstance(one, OpenRecord))
            found[f"{ms} {way}"] = [round((record.rtt_us or 0) / 1000), record.band, record.class_name]
            aborted(*ends)
    sysctl("s", [("net/ipv4/tcp_syncookies", "1"), ("net/ipv4/tcp_timestamps", "1")])
    delayed()
    return found


def closing(driver: KmodDriver, at: socket.socket) -> dict[str, Any]:
    """The close record of a transfer that ends in FINs, and of one that the client resets."""
    found: dict[str, Any] = {}
    for way in ("fins", "server first", "reset", "reset, read", "abort"):
        list(driver.records())
        client, served = connected(at, "10.3.0.1", PORT4)
        served.sendall(b"x" * 200_000)
        client.recv(200_000, socket.MSG_WAITALL)
        if way.startswith("reset"):
            aborted(client)
            time.sleep(0.5)
            if way == "reset, read":
                # as servers do, and the error is off the socket
                with suppress(ConnectionResetError):
                    served.recv(1)
            served.close()
        elif way == "abort":
            aborted(served, client)
        else:
            for one in (served, client) if way == "server first" else (client, served):
                one.close()
                time.sleep(1)
        time.sleep(2)
        close = next(one for one in driver.records() if isinstance(one, CloseRecord))
        opened = close.opened
        found[way] = {
            "ending": close.ending, "segments": close.segments, "rtt_ms": (close.min_rtt_us or 0) // 1000,
            "profile": opened.profile, "class": opened.class_name, "arm": opened.arm, "app_limited": close.app_limited,
        }  # fmt: skip
    return found


def plan_refusals(driver: KmodDriver) -> dict[str, str]:
    """Plans that must change nothing."""
    put(driver, plan(70))
    plans = {
        "other mixes": (plan(70), {"near": MIXES["near"]}),
        "other holdback": (plan(70, holdback=HOLDBACK // 2), MIXES),
        "other bands": (plan(70, bands=((20_000, "near"),)), MIXES),
        "no such profile": (plan(71), {"unknown": MIXES["near"]}),
        "no such arm": (plan(71), {"near": Mix(("unknown",), (65_536,))}),
        "same again": (plan(70), MIXES),
    }
    found = {name: refused(lambda one=one: driver.load_plan(*one)) for name, one in plans.items() if "same" not in name}  # type: ignore[misc]
    found["nothing loaded"] = refused(driver.turn)
    found["profile in use"] = refused(lambda: driver.apply(Changes(dropped_profiles=frozenset({"a"}))))
    found["same again"] = refused(lambda: driver.load_plan(*plans["same again"]))
    driver.drop_plan()
    return found | {"renew without": refused(lambda: driver.renew(boottime()))}


PLAYS = {"rules": rules, "moves": moves, "retuned": retuned, "plans": plans}

if __name__ == "__main__":
    program(lambda name: PLAYS[name]())
