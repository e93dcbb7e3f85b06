# SPDX-License-Identifier: MIT
"""Pins that go without their driver, printed as JSON: unmounted, removed by hand, made where they would not stay.

pins_gone.py FOLDER     run it apart (tests/support/isolation.py); the folder takes a database
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from configtron.linux.libbpf import call
from configtron.model.tuning import Place, Rules
from configtron.service.lease.kernel_rules import marked_state
from configtron.tune.drivers.bpf import controls, pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.rules import after
from tests.support.tune.left import PLACE, nothing_left, placed
from tests.support.tune.mishaps import CHANGES

OURS = "ct_cubic_keep"


def results(driver: EbpfDriver, before: str, folder: Path) -> dict[str, object]:
    found = dict[str, object]()
    driver.apply(CHANGES)
    with pins.opened(pins.folders(PLACE)[0] / pins.LINK) as descriptor:
        call("bpf_link_detach", descriptor)
    found["detached: pins are ours still"] = driver.read() == Rules() and marked_state(driver).startswith("1 folders")
    driver.revert(before)
    found["detached and reverted"] = nothing_left() and marked_state(driver) == ""
    driver.apply(CHANGES)
    subprocess.run(["umount", str(pins.BPFFS)], check=True)
    found["unmounted: nothing in force"] = driver.read() == Rules() and driver.mark() == "nothing"
    found["its control is left"] = OURS in controls.registered()
    driver.revert(before)
    found["and reverted"] = nothing_left() and pins.BPFFS not in pins.mounts("bpf")
    driver.apply(CHANGES)
    shutil.rmtree(pins.ROOT)
    found["removed by hand: nothing in force"] = driver.read() == Rules() and OURS in controls.registered()
    driver.apply(CHANGES)
    found["adopted by the next apply"] = driver.read() == after(Rules(), CHANGES) and OURS in driver.mark()
    shutil.rmtree(pins.ROOT)
    driver.revert(before)
    found["reverted after a hand"] = nothing_left()
    return found | others_at_once(driver, before) | would_not_stay(folder)


def others_at_once(driver: EbpfDriver, before: str) -> dict[str, object]:
    """Another configtron takes its last program back, or puts the same control in force, while this one applies."""
    found, attach = dict[str, object](), EbpfDriver._attach

    def withdrawn(self: EbpfDriver, here: Path) -> None:
        controls.withdraw(OURS)
        attach(self, here)

    with patch.object(EbpfDriver, "_attach", withdrawn):
        driver.apply(CHANGES)
    found["withdrawn before the program was there"] = OURS in controls.registered()
    with patch.object(controls, "registered", return_value=set[str]()):
        controls.register(OURS)
    found["registered by two"] = OURS in controls.registered()
    driver.revert(before)
    return found


def would_not_stay(folder: Path) -> dict[str, object]:
    """In the mount namespace that `ip netns exec` makes for one command."""
    # `ip netns` must not write names that the host would see
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["ip", "netns", "add", "other"], check=True)
    tune = [sys.executable, "-m", "configtron", "--db", str(folder / "db"), "tune", "--driver", "ebpf"]
    there = EbpfDriver(Place(netns="other", cgroup=PLACE.cgroup))

    def run(*words: str, inside: bool = False) -> subprocess.CompletedProcess[str]:
        command = ["ip", "netns", "exec", "other", *tune] if inside else tune
        return subprocess.run([*command, *words], capture_output=True, text=True)

    run("profile", "set", "slow", "initcwnd=4")
    run("prefix", "set", "10.0.0.0/8", "slow")
    refused = run("apply", "--keep", inside=True)
    found: dict[str, object] = {"apply in ip netns exec": [refused.returncode, refused.stderr]}
    where = ("--netns", "other", "--cgroup", PLACE.cgroup)
    kept = run("apply", *where, "--keep").returncode == 0 and there.read().prefixes == {"10.0.0.0/8": "slow"}
    found["kept outside it"] = kept
    inside = run("rollback", inside=True)
    found["rollback in ip netns exec says so"] = inside.returncode != 0 and "run it outside" in inside.stderr
    found["and it stands"] = there.read().prefixes == {"10.0.0.0/8": "slow"}
    found["rolled back outside it"] = run("rollback", *where).returncode == 0 and nothing_left()
    return found


def main() -> None:
    with placed() as (driver, before):
        print(json.dumps(results(driver, before, Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
