# SPDX-License-Identifier: MIT
"""Kill a command of `tune` at one of its system calls, and wait until the host is as it was before.

One run of the command is traced to list its system calls, from the moment it takes the lock. Run again, strace kills
it (SIGKILL) at the entry of one of them: no code of configtron knows.

    python -m tests.support.kill_points DRIVER    let one lease end, kill one apply; for a guest that has the module
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from configtron.service.lease.processes import alive, end
from tests.support.tune_sandbox import TuneSandbox, differs, tune_sandbox

# Short, so that a run is short; long enough for a Python to start on a busy machine.
LEASE_S = 2.0
# On the lab's kernel a traced apply takes four seconds beside other work.
GUEST_LEASE_S = 6.0
LONG_S = 120.0
# A lease watchdog looks four times a second, and then reverts.
SLACK_S = 2.0
LOOK_S = 0.02
# The last calls of a rollback wait for its watchdog, now more of them, now fewer: a few points are beyond a run's end.
MOST_OUTLIVED = 0.25
# The call that takes the lock: what came before it touched nothing.
LOCK = re.compile(r"^flock\(")
CALL = re.compile(r"^(\w+)\(")
# Killing these would show nothing: they only pass time or memory on.
IDLE = frozenset({"brk", "mmap", "munmap", "mprotect", "madvise", "rt_sigaction", "rt_sigprocmask", "clock_nanosleep"})


class Point(NamedTuple):
    """A system call and which one of its name, from 1."""

    call: str
    number: int

    def and_earlier(self) -> Sequence[Point]:
        """Where to kill; and where instead, in a run that is over before it comes there."""
        return (self,) if self.number == 1 else (self, Point(self.call, self.number // 2))


def points(here: TuneSandbox, words: Sequence[str], count: int) -> list[Point]:
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
    return [found[int((n + 0.5) * step)] for n in range(min(count, len(found)))]


def kill_at(here: TuneSandbox, point: Point, words: Sequence[str]) -> bool:
    """Run a command that dies at that point; whether it did: with a call less than in the run before, it lives."""
    inject = f"inject={point.call}:signal=KILL:when={point.number}"
    command = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={point.call}", "-e", inject, *here.command(*words)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)


def restored(here: TuneSandbox, baseline: str, within_s: float) -> float | None:
    """Wait for the baseline, with every act over and no watchdog left; after how long, or None."""
    began = time.monotonic()
    watchdogs: set[str] = set()
    while (passed := time.monotonic() - began) < within_s:
        acts = here.open_acts()
        watchdogs |= {watchdog for _, _, watchdog in acts}
        if not acts and not any(map(alive, watchdogs)) and here.state() == baseline:
            return passed
        time.sleep(LOOK_S)
    return None


def round_of(
    here: TuneSandbox, baseline: str, point: Point, words: Sequence[str], within_s: float, *, both: bool
) -> tuple[bool, float | None]:
    """One kill and what came of it: whether it fell, and how long until the baseline stood.

    A rollback that died before its first step has not begun: all is in force as before, and the next one does it.
    """
    applied = here.state()
    fell = kill_at(here, point, words)
    if words[0] == "rollback" and [status for _, status, _ in here.open_acts()] == ["leased"]:
        assert here.state() == applied, differs(applied, here.state())
        here.run(*words)
    elif both:
        for _, _, watchdog in here.open_acts():
            end(watchdog, signal.SIGKILL)
        began = time.monotonic()
        while here.open_acts() and time.monotonic() - began < within_s:
            here.run("recover")
    return fell, restored(here, baseline, within_s)


def campaign(driver: str, verb: str, count: int, slack_s: float = SLACK_S) -> bool:
    """Kill one command at its points; prints the line, False if the baseline ever failed to come back."""
    lease_s = GUEST_LEASE_S if driver == "kmod" else LEASE_S
    within_s = lease_s + slack_s
    with tune_sandbox(driver) as here:
        baseline = here.state()
        # A rollback is to find something, and a run that is only looked at to end: their leases do not end meanwhile.
        lasting = ("apply", *here.where, "--lease", f"{LONG_S:g}")
        apply = (*lasting[:-1], f"{lease_s:g}") if verb == "apply" else lasting
        words = apply if verb == "apply" else ("rollback", *here.where)
        if verb == "rollback":
            here.run(*apply)
        chosen = points(here, lasting if verb == "apply" else words, count)
        here.run("rollback", *here.where)
        assert here.state() == baseline, differs(baseline, here.state())
        times, missed, lived = [], [], 0
        for n, asked in enumerate(chosen):
            for point in asked.and_earlier():
                if verb == "rollback":
                    here.run(*apply)
                    assert here.state() != baseline, "apply does nothing"
                fell, after = round_of(here, baseline, point, words, within_s, both=n % 2 == 1)
                if fell or after is None:
                    break
            lived += not fell
            times.append(after or 0.0)
            if after is None:
                missed.append(point)
                print(point, here.open_acts(), differs(baseline, here.state()), flush=True)
                here.run("rollback", *here.where)
        print(
            f"{driver:7} {verb:9} {len(chosen):4} points ({lived} outlived), {len(chosen) - len(missed)} restored;"
            f" slowest {max(times):.2f} s of {within_s:g}; not restored: {missed or 'none'}",
            flush=True,
        )
        return not missed and lived <= len(chosen) * MOST_OUTLIVED


def put_back(driver: str, patience_s: float) -> bool:
    """Return whether the host is restored after the end of a lease, and after the kill of an apply."""
    with tune_sandbox(driver) as here:
        baseline = here.state()
        here.run("apply", *here.where, "--lease", f"{LONG_S:g}")
        applied = here.state() != baseline
        here.run("apply", *here.where, "--lease", f"{LEASE_S:g}")
        ended = restored(here, baseline, patience_s) is not None
    return applied and ended and campaign(driver, "apply", 1, patience_s)


if __name__ == "__main__":
    # s of the guest's clock: far more than a lease and its revert take there.
    sys.exit(not put_back(sys.argv[1], 60.0))
