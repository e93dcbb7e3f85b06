# SPDX-License-Identifier: MIT
"""Runs as root inside a guest: loads the module, lets the stress programs at it, and reports the result of each step.

    python3 -m tests.support.kmod.inside FOLDER STEP[=WORD] ...

FOLDER holds the modules and the compiled programs. One JSON object a step goes to stdout; the first that fails ends it,
with exit code 1. What the kernel says meanwhile is in its log, behind the line that BEGIN names; gate.py reads it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kmod import knobs, schemes

BEGIN = "configtron: the nets are out"
DEFAULT_CC = Path("/proc/sys/net/ipv4/tcp_congestion_control")
KMEMLEAK = Path("/sys/kernel/debug/kmemleak")
# kmemleak reports a block only once it is this old; two scans, for a pointer may hide in a register during one.
LEAK_AGE_S = 6
SCANS = 2
# Ours by its frames: functions of the module begin with ct_, those of the planted one with planted_; a frame without a
# name is of an unloaded module, and only ours are unloaded. User-Mode Linux keeps no frames: there all count as ours.
OURS = re.compile(r"\b(ct_|planted_)\w+|\[(configtron|planted)|] 0x[0-9a-f]{8,}|backtrace[^\n]*:\s*\Z")
# Forgotten by the kernel itself: SLUB's copy of a cache's name, when an allocation fails while its folder is made
# in sysfs (sysfs_slab_add() of 6.12). The module's only cache is this one.
FORGIVEN = re.compile(r"comm \"failnth\".* ct_prefix\.", re.DOTALL)
# What the stress programs name; reno is in every kernel.
CONTROLS = ("cubic", "bbr", "vegas")
# Steps that load them themselves, or none.
BARE = ("schemes", "scheme", "plant", "knobs")
PLANTED_CONNECTIONS = 10
MISTAKES = ("rcu", "atomic-sleep", "lock-order", "use-after-free", "leak")

Report = dict[str, object]


def run(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


@contextmanager
def loaded(folder: Path) -> Iterator[None]:
    """Our module, for the length of a block; nothing may hold it some seconds later."""
    run("insmod", folder / "configtron.ko")
    yield
    DEFAULT_CC.write_text(schemes.PLAIN)
    if words := schemes.remove("configtron"):
        raise RuntimeError(f"rmmod: {words}")


def controls(folder: Path, wanted: bool) -> None:
    """What the stress programs name is there, or nothing is but what is built in."""
    DEFAULT_CC.write_text(schemes.PLAIN)
    for name in CONTROLS:
        if wanted:
            schemes.insert(folder / f"tcp_{name}.ko")
        elif schemes.references(f"tcp_{name}") is not None:
            run("rmmod", f"tcp_{name}")


def churn(folder: Path, connections: str) -> Report:
    with loaded(folder):
        DEFAULT_CC.write_text("configtron")
        report: Report = json.loads(run(folder / "churn", connections, "1"))
    return report


def loads(folder: Path, times: str) -> Report:
    return dict(json.loads(run(folder / "loads", times, folder / "configtron.ko", "1")))


def failures(folder: Path, _: str) -> Report:
    """Every allocation of loading and of every call fails once."""
    report: Report = json.loads(run(folder / "failnth", "insmod", folder / "configtron.ko"))
    with loaded(folder):
        report |= json.loads(run(folder / "failnth", "calls"))
    return report


def kunit(folder: Path, _: str) -> Report:
    """The module's own unit tests. Their verdicts are in the kernel's log, as KTAP."""
    modules = sorted(folder.glob("*_kunit.ko"))
    for module in modules:
        run("insmod", module)
    lines = run("dmesg").splitlines()
    verdicts = [match[1] for line in lines if (match := re.search(r"^(?:\[[^]]*\])?\s*((?:not )?ok) \d+", line))]
    for module in modules:
        run("rmmod", module.stem)
    if "not ok" in verdicts or not verdicts:
        raise RuntimeError(f"KUnit: {verdicts.count('not ok')} of {len(verdicts)} tests failed")
    return {"tests": len(verdicts)}


def plant(folder: Path, _: str) -> Report:
    """Each mistake once. The order matters: the kernel stops looking for lock mistakes after the first it finds."""
    for mistake in MISTAKES:
        run("insmod", folder / "planted.ko", f"mistake={mistake}")
        # the last stays, for kmemleak to have names
        if mistake != MISTAKES[-1]:
            run("rmmod", "planted")
    return {"planted": len(MISTAKES)}


def leaks(_: Path, __: str) -> Report:
    """Memory that nothing points to any more, as kmemleak reports; blocks that are not ours are counted only."""
    time.sleep(LEAK_AGE_S)
    for _scan in range(SCANS):
        KMEMLEAK.write_text("scan")
    blocks = KMEMLEAK.read_text().split("unreferenced object")[1:]
    ours = [block for block in blocks if OURS.search(block) and not FORGIVEN.search(block)]
    return {"others": len(blocks) - len(ours), "leaked": ["unreferenced object" + block for block in ours]}


def every_scheme(folder: Path, connections: str) -> Report:
    """Each congestion control by itself, with ECN and without; "200,lossy" is over a link that loses and marks."""
    many, _, link = connections.partition(",")
    return {"rows": schemes.every(folder, int(many), link == "lossy")}


STEPS: dict[str, Callable[[Path, str], Report]] = {
    "churn": churn, "loads": loads, "failures": failures, "kunit": kunit, "plant": plant, "leaks": leaks,
    "schemes": every_scheme, "knobs": lambda folder, _: {"knobs": knobs.every(folder)},
    # one of planted/replacing.c, with a few connections
    "scheme": lambda folder, name: {"rows": schemes.one(folder, name, PLANTED_CONNECTIONS)},
}  # fmt: skip


def main(folder: Path, steps: list[str]) -> int:
    subprocess.run(["mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug"], check=True)
    # client addresses of IPv6, as many as 127.0.0.0/8 has of IPv4
    subprocess.run(["ip", "-6", "route", "add", "local", "fd00::/16", "dev", "lo"], check=True)
    Path("/dev/kmsg").write_text(f"<4>{BEGIN}\n")
    for step in steps:
        name, _, word = step.partition("=")
        started = time.monotonic()
        report: Report = {"step": name}
        try:
            controls(folder, wanted=name not in BARE)
            report |= STEPS[name](folder, word)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            report["error"] = str(error)
        print(json.dumps({**report, "seconds": round(time.monotonic() - started, 1)}), flush=True)
        if "error" in report:
            return 1
    os.sync()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
