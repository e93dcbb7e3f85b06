# SPDX-License-Identifier: MIT
"""A benchmark's module in a guest of the lab: boot, show its console as it grows, return what it wrote down."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from configtron.lab.uml.user_mode_linux import GuestJob, pick
from tests.support import ROOT

# How often to look for what the guest has printed.
LOOK_S = 0.2


def play(
    folder: Path, module: str, words: Sequence[str], *, columns: int, limit_s: int, memory_mb: int = 512
) -> dict[str, Any]:
    """Run `python -m MODULE WORDS` in a guest and return its FOLDER/found.json; captures stay in the folder.

    columns: its terminal's width; limit_s: its most real time. Errors: `SystemExit` with its last words, `Missing`.
    """
    backend, _ = pick("uml-virtual")
    environment = (("PYTHONPATH", str(ROOT)), ("COLUMNS", str(columns)), ("OPENBLAS_NUM_THREADS", "1"))
    job = GuestJob((sys.executable, "-m", module, *words), folder, seed=1, cpu=max(os.sched_getaffinity(0)),
              memory_mb=memory_mb, environment=environment, limit_s=limit_s)  # fmt: skip
    running = backend.boot(job)
    shown = 0
    try:
        while running.poll() is None:
            time.sleep(LOOK_S)
            fresh = running.console.read_text(errors="replace")[shown:]
            shown += len(fresh)
            print(fresh, end="", flush=True)
    finally:
        running.kill()
    if running.wait():
        raise SystemExit(f"the guest failed:\n{running.last_words()}")
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found
