# SPDX-License-Identifier: MIT
"""A program of this folder in a guest of the lab; its JSON. The guest sees the host's files, shipped objects too."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.user_mode_linux import Backend, GuestJob
from configtron.tune.drivers.bpf import objects
from tests.support import ROOT
from tests.support.waiting import GUEST_S


def in_guest(backend: Backend, folder: Path, script: str, *arguments: str, of: str = "tune") -> Any:
    """Skips the test where there is no such guest. `of`: the folder of `tests/support` that the program is in."""
    if reason := backend.available() or objects.missing():
        pytest.skip(reason)
    program = ROOT / "tests" / "support" / of / script
    job = GuestJob(
        (sys.executable, str(program), *arguments),
        folder / "output",
        seed=1,
        cpu=min(os.sched_getaffinity(0)),
        environment=(("PYTHONPATH", str(ROOT)),),
        limit_s=GUEST_S,
    )
    running = backend.boot(job)
    assert running.wait(GUEST_S) == 0, running.console.read_text()[-3000:]
    return json.loads(running.console.read_text())
