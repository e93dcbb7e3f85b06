# SPDX-License-Identifier: MIT
"""Two releases of configtron on one host: what the one leaves in the kernel, and the other finds there; JSON.

mixed_versions.py ebpf OTHER            the other release's agent and watchdog are killed; run it apart
mixed_versions.py kmod OTHER MODULE     the other release does not speak the module's version; in a guest

OTHER is a folder with a copy of the package.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from configtron.tune.drivers.bpf import pins
from tests.support.faults.foreign_changes import LEASE_S, Stack, ebpf, kmod
from tests.support.faults.real_fleet import RealFleet, prefixes
from tests.support.tune import kmod_net
from tests.support.waiting import PATIENCE_S, until


@contextmanager
def release(folder: str) -> Iterator[None]:
    """Start processes of that copy of the package within the block."""
    before = os.environ["PYTHONPATH"]
    os.environ["PYTHONPATH"] = folder
    try:
        with chdir(folder):
            yield
    finally:
        os.environ["PYTHONPATH"] = before


def left_pinned(fleet: RealFleet, stack: Stack, other: str) -> dict[str, Any]:
    """Kill the other release's agent and watchdog within its lease, and start this one's agent."""
    with release(other):
        running = fleet.agent()
        agent = running.__enter__()
    try:
        until(lambda: fleet.held() == "1.1", fleet.logs)
        found: dict[str, Any] = {"before": stack.window(), "pins": [path.name for path in pins.ROOT.iterdir()]}
        watchdog = fleet.watchdog()
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        os.kill(watchdog, signal.SIGKILL)
    finally:
        running.__exit__(None, None, None)
    at = len(fleet.log())
    with fleet.agent():
        found["back_s"] = until(lambda: "kept by its former start" in fleet.log()[at:], fleet.logs)
        found |= {"after": stack.window(), "now": [path.name for path in pins.ROOT.iterdir()]}
        # Longer than the other one's lease: nothing of it ends what is in force now.
        time.sleep(1.5 * LEASE_S)
        found["later"] = stack.window()
    return found | {"log": fleet.log()[at:]}


def refused(fleet: RealFleet, stack: Stack, other: str) -> dict[str, Any]:
    """Kill this release's agent, and start the other's, which does not speak the module's version."""
    with fleet.agent() as agent:
        until(lambda: fleet.held() == "1.1", fleet.logs)
        found: dict[str, Any] = {"before": stack.window()}
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    at = len(fleet.log())
    with release(other), fleet.agent() as agent:
        found["code"] = agent.wait(PATIENCE_S)
    found["log"] = fleet.log()[at:]
    found["default_s"] = until(lambda: stack.window() != found["before"], fleet.logs)
    found["after"] = stack.window()
    with fleet.agent():
        until(lambda: stack.window() == found["before"], fleet.logs)
    return found


def main(stack: Stack, folder: Path, other: str) -> dict[str, Any]:
    """Return what was found with one of the drivers."""
    form = {"prefixes": {**prefixes(50), stack.client: "near"}, "ports": stack.ports, "lease_s": LEASE_S}
    fleet = RealFleet(folder, stack.tune, form)
    with fleet.manager():
        found = (left_pinned if "ebpf" in stack.tune else refused)(fleet, stack, other)
    until(lambda: "leased" not in fleet.statuses(), fleet.logs)
    return found | {"end": stack.window(), "left": stack.left()}


if __name__ == "__main__":
    made = ebpf("removed") if sys.argv[1] == "ebpf" else kmod(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="mixed-") as name, made as stack:
        found = main(stack, Path(name), sys.argv[2])
    if sys.argv[1] == "kmod":
        found |= kmod_net.ended()
    print(json.dumps(found))
