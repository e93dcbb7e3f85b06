# SPDX-License-Identifier: MIT
"""What the command line says of rules that no transaction of its database put in force. JSON.

    status_of_plan.py plan DATABASE         `tune status` with a plan in force, with its lease passed, and without one
    status_of_plan.py unlisted DATABASE     the rows of a rollback of rules for some listeners

Run it apart (tests/support/isolation.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from configtron.model.draw import PARTS, Key, Mix, Plan
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from tests.support.tune.left import GROUP, PLACE, nothing_left, placed


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "configtron", "--db", sys.argv[2], "tune", "--cgroup", GROUP, *words]
    return subprocess.run(command, capture_output=True, text=True)


def tune(*words: str) -> list[dict[str, Any]]:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()] if "jsonl" in words else []


def about() -> list[str]:
    return [row["about"] for row in tune("status", "-f", "jsonl") if row["kind"] == "act"]


def plan(driver: EbpfDriver) -> dict[str, Any]:
    tune("profile", "set", "p", "initcwnd=20")
    tune("prefix", "set", "192.0.2.0/24", "p")
    tune("apply", "--driver", "ebpf", "--keep")
    answer: dict[str, Any] = {"none": about()}
    now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    driver.load_plan(Plan(Key(1, 2), 77, now_ns + 3600 * 10**9, PARTS // 20), {"p": Mix(("p",), (PARTS,))})
    driver.turn()
    answer["plan"] = about()
    refusals = (run("plan", "--driver", "ebpf", "--holdback", share) for share in ("0.1", "0"))
    answer["holdbacks"] = [f"{done.returncode} {done.stderr.strip()}" for done in refusals]
    driver.renew(now_ns)
    answer["lapsed"] = about()
    tune("rollback")
    return answer


def unlisted(_: EbpfDriver) -> dict[str, Any]:
    others = [EbpfDriver(replace(PLACE, listen=listen)) for listen in ("443", "22,192.0.2.1:80")]
    for driver in others:
        driver.apply(Changes(profiles={"p": Profile("p", (("initcwnd", 20),))}, default="p"))
    rows = [[row["driver"], row["was"], row["status"]] for row in tune("rollback", "-f", "jsonl")]
    answer = {"rows": rows, "nothing left": nothing_left()}
    for driver in others:
        driver.revert(driver.before())
    return answer


if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with placed() as (driver, _):
        answer = {"plan": plan, "unlisted": unlisted}[sys.argv[1]](driver)
        print(json.dumps({"nothing left": nothing_left(), **answer}))
