"""Another configtron at work on this host, until its standard input ends; what it says then is JSON.

neighbour.py     run it apart (benchmarks/apart.py)
"""

from __future__ import annotations

import json
import sys

from configtron.tune.drivers.bpf import controls, pins
from configtron.tune.drivers.ebpf import EbpfDriver
from configtron.tune.rules import after
from configtron.tuning import Rules
from tests.tune.left import nothing_left
from tests.tune.mishaps import CHANGES, PLACE


def main() -> None:
    group = pins.mounts("cgroup2")[0] / PLACE.cgroup
    group.mkdir()
    driver = EbpfDriver(PLACE)
    before = driver.before()
    try:
        driver.apply(CHANGES)
        print("held", flush=True)
        sys.stdin.read()
        found = {"in force": driver.read() == after(Rules(), CHANGES)}
        # what the others have put in force and withdrawn meanwhile was not theirs alone
        found["its controls too"] = "ct_cubic_keep" in controls.registered()
        driver.revert(before)
        found["nothing left"] = nothing_left()
        print(json.dumps(found))
    finally:
        driver.revert(before)
        group.rmdir()


if __name__ == "__main__":
    main()
