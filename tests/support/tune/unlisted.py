# SPDX-License-Identifier: MIT
"""Rules for some listeners, put in force without a journal, and a rollback by the command line.

unlisted.py         run it apart (tests/support/isolation.py); prints the rows of the rollback
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from tempfile import TemporaryDirectory

from configtron.model.nouns import Profile
from configtron.model.tuning import Changes
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from tests.support.tune.left import PLACE, nothing_left, placed


def main() -> None:
    changes = Changes(profiles={"p": Profile("p", (("initcwnd", 20),))}, default="p")
    with placed(), TemporaryDirectory() as folder:
        others = [EbpfDriver(replace(PLACE, listen=listen)) for listen in ("443", "22,192.0.2.1:80")]
        try:
            for driver in others:
                driver.apply(changes)
            line = [sys.executable, "-m", "configtron", "--db", f"{folder}/db", "tune", "rollback", "-f", "jsonl"]
            done = subprocess.run([*line, "--cgroup", PLACE.cgroup], check=True, capture_output=True, text=True)
            rows = [json.loads(row) for row in done.stdout.splitlines()]
            answer = {"rows": [[row["driver"], row["was"], row["status"]] for row in rows]}
            print(json.dumps(answer | {"nothing left": nothing_left()}))
        finally:
            for driver in others:
                driver.revert(driver.before())


if __name__ == "__main__":
    main()
