# SPDX-License-Identifier: MIT
"""What test_testbed.py asks of a guest: links and stacks tried one after another, what was seen as one line of JSON."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from configtron.lab.internet import links
from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.families import named
from configtron.lab.testbed.network import CLIENT, SERVERS, Testbed, raise_testbed
from configtron.lab.testbed.stack import ServerStack
from configtron.lab.testbed.wires import WITNESS_ADDRESS, WITNESSED_ADDRESS
from configtron.linux.netns import inside
from configtron.linux.qdisc import Qdisc
from configtron.model.nouns import Profile, Value
from configtron.tune.drivers import load
from tests.support.guest_module import MODULE
from tests.support.refusals import refused

NAMES = ("hotcloud:5/150/0", "pantheon:6", "access:satellite", "pantheon:8")
# The kernel's lossy link and the same as the player has it.
LOSSY = LinkDirection(5000, 10, loss=0.3)
PLAYED_UP = LinkDirection(5000, 10, kind="bursts")
OWN_PORT = 7001
# Two points of the grid that differ in all knobs.
TWO: tuple[dict[str, Value], ...] = tuple(
    {"tcp_congestion_control": scheme, "initcwnd": window, "tcp_slow_start_after_idle": switch,
     "tcp_autocorking": switch, "tcp_low_latency": switch, "pacing": pacing}
    for scheme, window, switch, pacing in (("vegas", 30, 1, "pfifo_fast"), ("bbr", 1, 0, "fq"))
)  # fmt: skip


def ping(testbed: Testbed, *words: str) -> str:
    """Of the client."""
    command = ["ip", "netns", "exec", CLIENT, "ping", *words, testbed.addresses["a.test"]]
    return subprocess.run(command, capture_output=True, text=True).stdout


def trips(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"time=([\d.]+)", text)]


def answered(testbed: Testbed) -> list[int]:
    """Which of a hundred pings came back."""
    return [int(found) for found in re.findall(r"icmp_seq=(\d+)", ping(testbed, "-c", "100", "-i", "0.05", "-W", "1"))]


def conditions(testbed: Testbed) -> dict[str, Any]:
    found: dict[str, Any] = {"trips": {}}
    for name in NAMES:
        testbed.change(named(name), seed=1)
        found["trips"][name] = trips(ping(testbed, "-c", "3"))
    kernel = Condition("kernel", LOSSY, LinkDirection(delay_ms=10))
    played = Condition("played", LOSSY, PLAYED_UP)
    for condition in (kernel, played, kernel):
        found.setdefault(condition.name, [])
        for seed in (1, 1, 2):
            testbed.change(condition, seed=seed)
            found[condition.name].append(answered(testbed))
    testbed.change(played, seed=1)
    ping(testbed, "-c", "4", "-i", "0.05")
    found["seen"] = testbed.seen
    found["counts"] = {name: counts.arrived for name, counts in testbed.counts().items()}
    return found


def once(testbed: Testbed) -> list[float]:
    return trips(ping(testbed, "-c", "1"))


def rest(testbed: Testbed) -> list[float]:
    """Round trips on a fast link, by the kernel and by the player, each after a slow one was left full of packets."""
    fast = LinkDirection(100_000, 25, kind="bursts")
    found = []
    for slow, after in (("hotcloud:0.3/50/0", named("hotcloud:20/50/0")), ("pantheon:1", Condition("f", fast, fast))):
        testbed.change(named(slow), seed=1)
        ping(testbed, "-c", "60", "-l", "60", "-s", "1400", "-w", "1", "-q")
        testbed.change(after, seed=1)
        found += once(testbed)
    return found


def steps(testbed: Testbed) -> list[list[float]]:
    """Round trips just before and just after a change, by the kernel and by the player; the first begins the count."""
    found = []
    for name in ("access:4g;2:access:3g", "access:4g;2:pantheon:14"):
        testbed.change(named(name), seed=1)
        with testbed.changing():
            time.sleep(0.7)
            found.append(trips(ping(testbed, "-c", "4", "-i", "0.9")))
    return found


def phases(testbed: Testbed) -> list[list[float]]:
    """Round trips on links whose moments are far apart, each time after another wait."""
    found: list[list[float]] = []
    for name in ("pantheon:13", "pantheon:1", "trace:walk@7+10"):
        found.append([])
        for seed, wait_s in ((1, 0.0), (1, 0.37), (2, 0.0)):
            testbed.change(named(name), seed=seed)
            time.sleep(wait_s)
            found[-1] += once(testbed)
    return found


def planted(testbed: Testbed) -> str:
    """Return the error when another loss was written than was asked."""
    true = testbed._qdiscs.put

    def put(wanted: dict[str, tuple[Qdisc, ...]]) -> None:
        true({
            device: tuple(q._replace(knobs={**q.knobs, "loss": 1}) if q.kind == "netem" else q for q in qdiscs)
            for device, qdiscs in wanted.items()
        })  # fmt: skip

    testbed._qdiscs.put = put  # type: ignore[method-assign,assignment]
    try:
        return refused(lambda: testbed.change(named("hotcloud:5/150/1"), seed=1, cell="cell 7"))
    finally:
        testbed._qdiscs.put = true  # type: ignore[method-assign]


def routes() -> str:
    """What a revert must leave as it was."""
    shown = [["ip", "-n", SERVERS, "route", "show", "table", "all"], ["ip", "-n", SERVERS, "rule"]]
    return "".join(subprocess.run(words, capture_output=True, text=True).stdout for words in shown)


def stacks(testbed: Testbed) -> dict[str, Any]:
    before, stack = routes(), ServerStack(testbed, load)
    found: dict[str, Any] = {"asked": [], "found": []}

    def rejected(profile: Profile, **where: Any) -> str:
        return refused(lambda: stack.apply(profile, cell="cell 9", **where))

    for number, scheme in enumerate(("vegas", "bbr", "reno", "cubic")):
        settings: dict[str, Value] = {
            "tcp_congestion_control": scheme, "initcwnd": (1, 30, 4, 16)[number], "tcp_autocorking": number % 2,
            "tcp_slow_start_after_idle": number // 2, "tcp_low_latency": number % 2,
            "pacing": ("fq", "pfifo_fast")[number % 2],
        }  # fmt: skip
        found["asked"].append(settings)
        found["found"].append(stack.apply(Profile("c", (*settings.items(), ("http_version", "h2")))))
    cubic = Profile("cubic", (("tcp_congestion_control", "cubic"), ("initcwnd", 4)))
    with inside(SERVERS):
        own = socket.socket()
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        own.bind((WITNESSED_ADDRESS, OWN_PORT))
        own.listen()
    found["own listener"] = stack.apply(cubic, port=OWN_PORT)
    rule = f"pref 100 to {WITNESS_ADDRESS} lookup main"
    links.ip(SERVERS, [f"rule add {rule}"])
    found["led elsewhere"] = rejected(cubic)
    links.ip(SERVERS, [f"rule del {rule}"])
    found["no listener"] = rejected(cubic, port=OWN_PORT + 1)
    for knob, value in (("initcwnd", 0), ("tcp_congestion_control", "best"), ("pacing", "red"), ("h2_push", 1)):
        found[knob] = rejected(Profile("c", ((knob, value),)))
    found["again"] = stack.apply(cubic)
    stack.revert()
    return found | {"reverted": routes() == before}


def drivers(testbed: Testbed) -> dict[str, Any]:
    """The same two configurations by each driver that sets a stack by prefix."""
    subprocess.run(["insmod", str(MODULE)], check=True)
    found: dict[str, Any] = {}
    for name in ("route", "ebpf", "kmod"):
        stack = ServerStack(testbed, load, name)
        found[name] = [stack.apply(Profile("c", tuple(settings.items()))) for settings in TWO]
        stack.revert()
    return found


def main(player: str, *only: str) -> None:
    """All, or with "drivers" only those, on one line."""
    testbed = raise_testbed(named(NAMES[0]), ["a.test", "b.test"], player=Path(player))
    if only:
        print(json.dumps(drivers(testbed), sort_keys=True))
        return
    found = {part.__name__: part(testbed) for part in (conditions, steps, rest, phases, planted, stacks)}
    testbed.close()
    without = Testbed(testbed.addresses, None)
    found["no player"] = refused(lambda: without.change(named("pantheon:1"), seed=1))
    print(json.dumps(found, sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
