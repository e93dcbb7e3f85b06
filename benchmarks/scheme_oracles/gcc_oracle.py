# SPDX-License-Identifier: MIT
"""GCC's slope detector beside pion's: the same groups of packets, the signal after each."""

from __future__ import annotations

import os
import subprocess

from benchmarks.scheme_oracles.fetched import PATIENCE_S, Unavailable, pion
from tests.support.oracle_inputs import SEEDS, groups


def answers() -> list[str]:
    """Return pion's signals, by seed of the input, a letter a group: O overuse, U underuse, N normal."""
    folder, found = pion(), []
    for seed in SEEDS:
        given, made = folder / "groups.txt", folder / "signals.txt"
        given.write_text("".join(f"{variation} {since}\n" for variation, since in groups(seed)))
        command = ["go", "test", "-count=1", "-run", "^TestSignals$", "./pkg/gcc"]
        environment = {**os.environ, "GROUPS": str(given), "SIGNALS": str(made)}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if done.returncode:
            raise Unavailable(f"go test: {(done.stdout + done.stderr).strip()[-400:]}")
        found.append(made.read_text())
    return found
