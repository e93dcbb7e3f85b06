# SPDX-License-Identifier: MIT
"""Claim: a packet of a scheme of user space costs the host at most four times a packet of the kernel's TCP.

    python -m benchmarks.packet_loop [cost] [many] [same]      as root; all parts when none is named, a few minutes

cost   One flow over 20 Mbit/s and 50 ms in the lab's guest, in virtual time: processor time of the host a packet, the
       boot and two seconds of the same flow taken away. Python alone sends and receives by a call a packet
       (`plain_datagrams.py`); the library takes acknowledgements from a ring (`lab/testbed/datagrams.c`); with the
       echo the client's kernel is the receiver (`echo.bpf.c`).
many   Ten flows of a scheme: seconds of the guest for one of the host.
same   Twenty boots with one seed, each with a flow of copa over a path that loses by chance: how many logs of
       acknowledgements are the same.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from configtron.lab.testbed import loads, player
from configtron.lab.uml.user_mode_linux import GuestJob, pick
from tests.support import ROOT

SHORT_S, LONG_S = 2.0, 8.0
MANY_S, SAME_S, BOOTS = 10.0, 5.0, 20
KINDS = ("kernel", "plain", "library", "echo")
WORDS = {"kernel": "TCP, cubic", "plain": "Python alone", "library": "the library", "echo": "with the kernel's echo"}
# Ten flows of each, all at once.
MANY = ("cubic", "copa")
# What a packet may cost beside one of the kernel's TCP, which is acknowledged by every second packet only.
MOST_RATIO = 4.0


class Cost(NamedTuple):
    """Of one boot: of the host's processor and clock; packets that left; a digest of the log, if it has one."""

    cpu_s: float
    wall_s: float
    packets: int
    digest: str


def boot(kind: str, seconds: float, flows: int = 1) -> Cost:
    """One guest, one trial."""
    backend, _ = pick("uml-virtual")
    programs = (str(loads.program()), str(player.program()))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        words = (sys.executable, "-m", "benchmarks.packet_loop_inside", *programs, kind, str(seconds), str(flows))
        cpu = max(os.sched_getaffinity(0))
        job = GuestJob(words, Path(folder), seed=1, cpu=cpu, environment=(("PYTHONPATH", str(ROOT)),))
        used_s, began_s = _used_s(), time.monotonic()
        running = backend.boot(job)
        if running.wait():
            raise SystemExit(running.console.read_text() + running.last_words())
        packets, digest = json.loads(Path(folder, "found.json").read_text())
        return Cost(_used_s() - used_s, time.monotonic() - began_s, packets, digest)


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def packet_us(kind: str) -> float:
    """Processor time a packet."""
    short, long = boot(kind, SHORT_S), boot(kind, LONG_S)
    return 1e6 * (long.cpu_s - short.cpu_s) / (long.packets - short.packets)


def cost() -> bool:
    """Print what a packet costs; return whether the claim holds."""
    found = {kind: packet_us(kind) for kind in KINDS}
    print(f"{'':24} {'us a packet':>12} {'of Python alone':>16} {'of TCP':>8}")
    for kind, us in found.items():
        print(f"{WORDS[kind]:24} {us:12.1f} {us / found['plain']:16.2f} {us / found['kernel']:8.2f}", flush=True)
    return found["echo"] <= MOST_RATIO * found["kernel"] and found["echo"] <= found["library"]


def many() -> bool:
    """Print how fast time goes with ten flows."""
    for scheme in MANY:
        one = boot(scheme, MANY_S, 10)
        rates = f"{MANY_S / one.wall_s:.2f} s of the guest a second, {MANY_S / one.cpu_s:.2f} a second of processor"
        print(f"10 flows of {scheme}: {rates}, {one.packets} packets", flush=True)
    return True


def same() -> bool:
    """Print how many boots have the commonest log; return whether all have."""
    logs = Counter(boot("log", SAME_S).digest for _ in range(BOOTS))
    (digest, most), *_ = logs.most_common(1)
    print(f"the same log of acknowledgements in {most} of {BOOTS} boots ({digest[:16]})")
    return most == BOOTS


PARTS: dict[str, Callable[[], bool]] = {"cost": cost, "many": many, "same": same}


def main(words: Sequence[str]) -> int:
    """Measure, print, judge."""
    return 0 if all([PARTS[word]() for word in words or PARTS]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
