# SPDX-License-Identifier: MIT
"""A host with manager and agent that loses its power in the middle of an epoch, and starts again; JSON.

power_cut.py before MODULE   in a guest: a map is in force, rows wait in the spool; then it waits to be killed
power_cut.py after MODULE    in another guest, over the same files
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.faults.drawn_clients import FORM, LEASE_S, drawn, served
from tests.support.faults.real_fleet import RealFleet
from tests.support.tune import kmod_net
from tests.support.waiting import until

STATE = Path("/run/output/state")
# Rows that the manager has before the cut, and rows that wait then: some batches of them.
SENT, ROWS = 3_000, 20_000


def stored(fleet: RealFleet) -> list[tuple[str, str, int]]:
    """Return the names of the rows that the manager has."""
    return [(row.agent, row.boot, row.sequence) for row in fleet.rows()]


def described(fleet: RealFleet, windows: Callable[[], list[int]]) -> dict[str, Any]:
    """Return the epoch, the clients' windows, and those of its draw."""
    epoch = int(time.time()) // fleet.epoch_s
    return {"epoch": epoch, "windows": windows(), "drawn": drawn(fleet, epoch)}


def before(windows: Callable[[], list[int]]) -> None:
    """Print a line, and wait for the cut: no process of the guest runs meanwhile."""
    fleet = RealFleet(STATE, ["--driver", "kmod"], FORM)
    with fleet.manager(), fleet.agent():
        until(lambda: fleet.held() == "1.1", fleet.logs)
    fleet.spool("sent", SENT)
    with fleet.manager(), fleet.agent():
        until(lambda: len(stored(fleet)) == SENT, fleet.logs)
    fleet.spool("cut", ROWS)
    with fleet.agent():
        until(lambda: len(fleet.lines("kept by its former start")) == 2, fleet.logs)
        print(json.dumps(described(fleet, windows) | {"boot": boot()}), flush=True)
        while True:
            pass


def boot() -> str:
    """Return the name of the kernel's start."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def after(windows: Callable[[], list[int]]) -> dict[str, Any]:
    """Start the agent, then the manager."""
    fleet = RealFleet(STATE, ["--driver", "kmod"], FORM, enrolled=True)
    found: dict[str, Any] = {"boot": boot(), "booted": windows(), "log": len(fleet.log()), "had": len(stored(fleet))}
    with fleet.agent():
        until(lambda: "kept by its former start" in fleet.log()[found["log"] :], fleet.logs)
        found["kept"] = described(fleet, windows)
        with fleet.manager():
            found["stored_s"] = until(lambda: len(stored(fleet)) >= SENT + ROWS, fleet.logs)
            until(lambda: fleet.held().startswith("3."), fleet.logs)
            time.sleep(LEASE_S)
            found["anew"] = described(fleet, windows)
    names = stored(fleet)
    found |= {"stored": len(names), "different": len(set(names)), "end": windows(), "log": fleet.log()[found["log"] :]}
    return found


if __name__ == "__main__":
    with served(sys.argv[2]) as windows:
        if sys.argv[1] == "before":
            before(windows)
        found = after(windows)
    print(json.dumps(found | kmod_net.ended()))
