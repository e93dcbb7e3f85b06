# SPDX-License-Identifier: MIT
"""The wall clock of a host with manager and agent is stepped in the middle of an epoch; JSON.

clock_steps.py MODULE        in a guest
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.faults.drawn_clients import FORM, LEASE_S, drawn, served
from tests.support.faults.power_cut import stored
from tests.support.faults.real_fleet import RealFleet
from tests.support.tune import kmod_net
from tests.support.waiting import until

EPOCH_S, ROWS = 600, 5_000
# s to each step.
STEPS = (3_600, -3_600, 86_400)
# s within which an epoch that a step begins is in force.
TURNED_S = 3.0


def stepped(fleet: RealFleet, windows: Callable[[], list[int]], by_s: int) -> dict[str, Any]:
    """Step the clock, and look at new connections for longer than a lease."""
    time.clock_settime(time.CLOCK_REALTIME, time.time() + by_s)
    time.sleep(TURNED_S)
    until_s, seen = time.monotonic() + 2 * LEASE_S, []
    while time.monotonic() < until_s:
        epoch = int(time.time()) // EPOCH_S
        seen.append((epoch, windows()))
        time.sleep(2.0)
    return {"by_s": by_s, "seen": seen, "drawn": drawn(fleet, seen[0][0]), "stored": len(stored(fleet))}


def main(windows: Callable[[], list[int]], folder: Path) -> dict[str, Any]:
    """Step the clock while rows wait, and again when they have arrived."""
    time.clock_settime(time.CLOCK_REALTIME, time.time() // EPOCH_S * EPOCH_S + EPOCH_S / 2)
    fleet = RealFleet(folder, ["--driver", "kmod"], {**FORM, "epoch_s": EPOCH_S})
    with fleet.manager() as manager:
        with fleet.agent():
            until(lambda: fleet.held() == "1.1", fleet.logs)
            found: dict[str, Any] = {"first": windows(), "drawn": drawn(fleet, int(time.time()) // EPOCH_S)}
        manager.send_signal(signal.SIGSTOP)
        fleet.spool("steps", ROWS)
        with fleet.agent():
            until(lambda: bool(fleet.lines("kept by its former start")), fleet.logs)
            # Both clocks are compared once the agent's loop has begun.
            time.sleep(TURNED_S)
            found["steps"] = [stepped(fleet, windows, STEPS[0])]
            manager.send_signal(signal.SIGCONT)
            found["stored_s"] = until(lambda: len(stored(fleet)) >= ROWS, fleet.logs)
            found["steps"] += [stepped(fleet, windows, by_s) for by_s in STEPS[1:]]
    names = stored(fleet)
    found |= {"stored": len(names), "different": len(set(names)), "end": windows()}
    found |= {"lines": fleet.lines("was stepped by"), "manager": fleet.lines("was stepped by", "manager")}
    return found | {"warnings": [line for line in fleet.log().splitlines() if "WARNING" in line]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="clock-") as name, served(sys.argv[1]) as windows:
        found = main(windows, Path(name))
    print(json.dumps(found | kmod_net.ended()))
