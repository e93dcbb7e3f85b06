"""Claim: whatever moment `tune apply` or `tune rollback` is killed at, the host is as it was within the lease.

    python -m benchmarks.tune_kills [COUNT] [DRIVER...]      as root

In a network namespace of its own. One run of the command is traced to list its system calls, from the moment it takes
the lock; then it is run again for each of COUNT of them, spread evenly, and strace kills it (SIGKILL) at the entry of
that very call: no code of configtron knows. Every other time its keeper is killed too, as soon as it can be named, and
the next command (`tune recover`, as the timer runs it) has to mend what is left. Baseline is what `ip` and the sysctl
files say (for ebpf: what is pinned and attached), read before anything was applied.

A line a driver and command: points, how often the baseline came back in time, the slowest (s after the death, or after
the mending command began), what was left behind.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from configtron.cli.tune.processes import alive, end, named

COUNT = 60
DRIVERS = ("sysctl", "route", "ebpf")
# Short, so that a run is short; long enough for a Python to start on a busy machine.
LEASE_S = 2.0
LONG_S = 120.0
# A keeper looks four times a second, and then reverts.
SLACK_S = 2.0
LOOK_S = 0.02
# The last calls of a rollback wait for its keeper, now more of them, now fewer: a few points are beyond a run's end.
MOST_OUTLIVED = 0.25
INSIDE = "inside"
# With the number of the process: what has this name and no such process was left behind.
NAME = "ct-kills-"
# The call that takes the lock: what came before it touched nothing.
LOCK = re.compile(r"^flock\(")
CALL = re.compile(r"^(\w+)\(")
# Killing these would show nothing: they only pass time or memory on.
IDLE = frozenset({"brk", "mmap", "munmap", "mprotect", "madvise", "rt_sigaction", "rt_sigprocmask", "clock_nanosleep"})
SYSCTLS = "/proc/sys/net/ipv4/tcp_{congestion_control,slow_start_after_idle,autocorking,notsent_lowat,rto_min_us}"


class Point(NamedTuple):
    """A system call and which one of its name, from 1."""

    call: str
    number: int


class Ground:
    """A namespace, a control group and a database to play in."""

    def __init__(self, folder: Path, name: str, driver: str) -> None:
        self.folder, self.name, self.driver = folder, name, driver
        self.database = folder / "tune.db"
        where = ["--cgroup", f"/{name}"] if driver == "ebpf" else ["--netns", name]
        self.where = ["--driver", driver, *where]

    def command(self, *words: str) -> list[str]:
        """A command line of `tune`."""
        return [sys.executable, "-m", "configtron", "--db", str(self.database), "-q", "tune", *words]

    def want(self) -> None:
        """Make the database, with something for each driver to do."""
        if self.driver == "sysctl":
            self.run("profile", "set", "web", "tcp_congestion_control=reno", "tcp_slow_start_after_idle=0",
                     "tcp_autocorking=0")  # fmt: skip
            self.run("prefix", "set", "default", "web")
        else:
            self.run("profile", "set", "web", "tcp_congestion_control=reno", "initcwnd=20")
            self.run("profile", "set", "small", "initcwnd=4")
            self.run("prefix", "set", "10.1.0.0/16", "10.2.0.0/16", "2001:db8::/32", "web")
            self.run("prefix", "set", "10.1.2.0/24", "small")

    def run(self, *words: str) -> None:
        """Run a command that must succeed."""
        subprocess.run(self.command(*words), check=True, stdout=subprocess.DEVNULL)

    def state(self) -> str:
        """All that a driver could have changed, as the system's own tools say it."""
        if self.driver == "ebpf":
            shown = ["bpftool", "cgroup", "show", str(_groups() / self.name)]
            return _said(shown) + "\n".join(sorted(map(str, Path("/sys/fs/bpf").rglob("*"))))
        lines = [_said(["ip", version, "-n", self.name, *what]) for version in ("-4", "-6")
                 for what in (("route", "show", "table", "all"), ("rule",))]  # fmt: skip
        values = _said(["ip", "netns", "exec", self.name, "bash", "-c", f"tail -n +1 {SYSCTLS} 2>/dev/null"])
        return "\n".join((*lines, values))

    def open_acts(self) -> list[tuple[int, str, str]]:
        """Acts that are not over, with their keepers. One that never came to write, nor to a keeper, is."""
        if not self.database.exists():
            return []
        asked = (
            "SELECT id, status, keeper FROM act WHERE status NOT IN ('undone', 'replaced')"
            " AND NOT (status = 'begun' AND keeper = '')"
        )
        connection = sqlite3.connect(self.database, timeout=10)
        try:
            return list(connection.execute(asked))
        finally:
            connection.close()


def _differs(before: str, after: str) -> list[str]:
    """Lines that came or went."""
    was, found = before.splitlines(), after.splitlines()
    return [f"- {line}" for line in was if line not in found] + [f"+ {line}" for line in found if line not in was]


def _groups() -> Path:
    """The root of control groups version 2."""
    from configtron.tune.drivers.bpf.pins import mounts

    return mounts("cgroup2")[0]


def _said(words: Sequence[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True).stdout


@contextmanager
def ground(driver: str) -> Iterator[Ground]:
    """Raise one, and take it away."""
    _sweep()
    name = f"{NAME}{os.getpid()}"
    group = _groups() / name
    with tempfile.TemporaryDirectory(prefix="tune-kills-") as folder:
        here = Ground(Path(folder), name, driver)
        try:
            subprocess.run(["ip", "netns", "add", name], check=True)
            for words in ("link set lo up", "link add d0 type veth peer name d1",
                          "link set d0 addrgenmode none", "link set d1 addrgenmode none up",
                          "addr add 192.0.2.1/24 dev d0", "link set d0 up",
                          "route add default via 192.0.2.254", "-6 addr add 2001:db8:1::1/64 dev d0 nodad",
                          "-6 route add default via 2001:db8:1::fe"):  # fmt: skip
                subprocess.run(["ip", "-n", name, *words.split()], check=True)
            if driver == "ebpf":
                group.mkdir()
            here.want()
            yield here
        finally:
            for _, _, keeper in here.open_acts():
                end(keeper, signal.SIGKILL)
            subprocess.run(here.command("rollback", *here.where), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "del", name])
            if driver == "ebpf":
                group.rmdir()


def _sweep() -> None:
    """Take away what one that was killed left behind."""
    for left in (*Path("/run/netns").glob(f"{NAME}*"), *_groups().glob(f"{NAME}*")):
        if not named(int(left.name.removeprefix(NAME))):
            if left.is_dir():
                left.rmdir()
            else:
                subprocess.run(["ip", "netns", "del", left.name], check=False, stderr=subprocess.DEVNULL)


def points(here: Ground, words: Sequence[str], count: int) -> list[Point]:
    """The calls of one run, from the lock on, thinned to about so many."""
    log = here.folder / "calls"
    subprocess.run(["strace", "-qq", "-o", str(log), *here.command(*words)], check=True, stdout=subprocess.DEVNULL)
    seen: Counter[str] = Counter()
    found: list[Point] = []
    locked = False
    for line in log.read_text(errors="replace").splitlines():
        called = CALL.match(line)
        if called is None:
            continue
        seen[called[1]] += 1
        locked = locked or bool(LOCK.match(line))
        if locked and called[1] not in IDLE:
            found.append(Point(called[1], seen[called[1]]))
    step = max(len(found) / count, 1)
    return [found[int(n * step)] for n in range(min(count, len(found)))]


def kill_at(here: Ground, point: Point, words: Sequence[str]) -> bool:
    """Run a command that dies at that point; whether it did: with a call less than in the run before, it lives."""
    inject = f"inject={point.call}:signal=KILL:when={point.number}"
    command = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={point.call}", "-e", inject, *here.command(*words)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)


def restored(here: Ground, baseline: str, within_s: float) -> float | None:
    """Wait for the baseline, with every act over and no keeper left; after how long, or None."""
    began = time.monotonic()
    keepers: set[str] = set()
    while (passed := time.monotonic() - began) < within_s:
        acts = here.open_acts()
        keepers |= {keeper for _, _, keeper in acts}
        if not acts and not any(map(alive, keepers)) and here.state() == baseline:
            return passed
        time.sleep(LOOK_S)
    return None


def round_of(
    here: Ground, baseline: str, point: Point, words: Sequence[str], within_s: float, *, both: bool
) -> tuple[bool, float | None]:
    """One kill and what came of it: whether it fell, and how long until the baseline stood.

    A rollback that died before its first step has not begun: all is in force as before, and the next one does it.
    """
    applied = here.state()
    fell = kill_at(here, point, words)
    if words[0] == "rollback" and [status for _, status, _ in here.open_acts()] == ["leased"]:
        assert here.state() == applied, _differs(applied, here.state())
        here.run(*words)
    elif both:
        for _, _, keeper in here.open_acts():
            end(keeper, signal.SIGKILL)
        began = time.monotonic()
        while here.open_acts() and time.monotonic() - began < within_s:
            here.run("recover")
    return fell, restored(here, baseline, within_s)


def campaign(driver: str, verb: str, count: int, within_s: float = LEASE_S + SLACK_S) -> bool:
    """Kill one command at its points; prints the line, False if the baseline ever failed to come back."""
    with ground(driver) as here:
        baseline = here.state()
        # A rollback is to find something: its lease does not end meanwhile.
        apply = ("apply", *here.where, "--lease", f"{LEASE_S if verb == 'apply' else LONG_S:g}")
        words = apply if verb == "apply" else ("rollback", *here.where)
        if verb == "rollback":
            here.run(*apply)
        chosen = points(here, words, count)
        here.run("rollback", *here.where)
        assert here.state() == baseline, _differs(baseline, here.state())
        times, missed, lived = [], [], 0
        for n, point in enumerate(chosen):
            if verb == "rollback":
                here.run(*apply)
                assert here.state() != baseline, "apply does nothing"
            fell, after = round_of(here, baseline, point, words, within_s, both=n % 2 == 1)
            lived += not fell
            times.append(after or 0.0)
            if after is None:
                missed.append(point)
                print(point, here.open_acts(), _differs(baseline, here.state()), flush=True)
                here.run("rollback", *here.where)
        print(
            f"{driver:7} {verb:9} {len(chosen):4} points ({lived} outlived), {len(chosen) - len(missed)} restored;"
            f" slowest {max(times):.2f} s of {within_s:g}; not restored: {missed or 'none'}",
            flush=True,
        )
        return not missed and lived <= len(chosen) * MOST_OUTLIVED


def main(arguments: list[str]) -> int:
    """A line a driver and command; 1 if a baseline did not come back."""
    if arguments[:1] != [INSIDE]:
        # Mounts of our own: another configtron on this host must not find our pins, nor we its.
        again = [sys.executable, "-m", "benchmarks.tune_kills", INSIDE, *arguments]
        return subprocess.run(["unshare", "--mount", "--propagation", "private", *again]).returncode
    arguments = arguments[1:]
    count = int(arguments[0]) if arguments else COUNT
    wanted = arguments[1:] or [name for name in DRIVERS if _here(name)]
    return 0 if all([campaign(driver, verb, count) for driver in wanted for verb in ("apply", "rollback")]) else 1


def _here(driver: str) -> bool:
    from configtron.tune.drivers import DRIVERS as KNOWN
    from configtron.tune.drivers import load
    from configtron.tuning import Place

    return driver in KNOWN and not load(driver, Place()).missing()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
