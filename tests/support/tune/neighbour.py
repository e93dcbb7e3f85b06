# SPDX-License-Identifier: MIT
"""Another configtron at work on this host, until its standard input ends; what it says then is JSON.

neighbour.py     run it apart (tests/support/isolation.py)
"""

from __future__ import annotations

import json
import sys

from configtron.model.tuning import Rules
from configtron.tune.drivers.bpf import controls
from configtron.tune.rules import after
from tests.support.tune.left import nothing_left, placed
from tests.support.tune.mishaps import CHANGES


def main() -> None:
    with placed() as (driver, before):
        driver.apply(CHANGES)
        print("held", flush=True)
        sys.stdin.read()
        found = {"in force": driver.read() == after(Rules(), CHANGES)}
        # what the others have put in force and withdrawn meanwhile was not theirs alone
        found["its controls too"] = "ct_cubic_keep" in controls.registered()
        driver.revert(before)
        found["nothing left"] = nothing_left()
        print(json.dumps(found))


if __name__ == "__main__":
    main()
