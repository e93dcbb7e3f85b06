# SPDX-License-Identifier: MIT
"""`tune status` with a plan in force, with its lease passed, and without one: what it states of the transaction.

status_of_plan.py DATABASE      run it apart (tests/support/isolation.py)
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from configtron.model.draw import PARTS, Key, Mix, Plan
from configtron.model.tuning import Place
from configtron.tune.drivers.bpf import pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from tests.support.tune.left import GROUP, nothing_left


def tune(*words: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "configtron", "--db", sys.argv[1], "tune", "--cgroup", GROUP, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()] if "jsonl" in words else []


def refusal(*words: str) -> str:
    """Return exit code and message."""
    command = [sys.executable, "-m", "configtron", "--db", sys.argv[1], "tune", "--cgroup", GROUP, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    return f"{done.returncode} {done.stderr.strip()}"


def about() -> list[str]:
    return [row["about"] for row in tune("status", "-f", "jsonl") if row["kind"] == "act"]


def main() -> None:
    group = pins.mounts("cgroup2")[0] / GROUP
    group.mkdir()
    try:
        tune("profile", "set", "p", "initcwnd=20")
        tune("prefix", "set", "192.0.2.0/24", "p")
        tune("apply", "--driver", "ebpf", "--keep")
        driver, answer = EbpfDriver(Place(cgroup=GROUP)), {"none": about()}
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        driver.load_plan(Plan(Key(1, 2), 77, now_ns + 3600 * 10**9, PARTS // 20), {"p": Mix(("p",), (PARTS,))})
        driver.turn()
        answer["plan"] = about()
        answer["holdbacks"] = [refusal("plan", "--driver", "ebpf", "--holdback", share) for share in ("0.1", "0")]
        driver.renew(now_ns)
        answer["lapsed"] = about()
        tune("rollback")
    finally:
        group.rmdir()
    print(json.dumps(answer | {"nothing left": nothing_left()}))


if __name__ == "__main__":
    main()
