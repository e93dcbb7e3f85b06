# SPDX-License-Identifier: MIT
"""Recorded runs in a folder: tables of several runs can be printed again without playing the runs again."""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.guest_play import play
from benchmarks.live_kernel.draw_checks import RecordedRun, parse_run
from benchmarks.live_kernel.scenario import KernelScenario, pages
from configtron.lab.testbed import loads, servers
from configtron.model.errors import BadInput
from tests.support import guest_module

# Real time after which a run is ended.
LIMIT_S = 3 * 3600


def play_in_guest(
    folder: Path, scenario: KernelScenario, module: str = "benchmarks.live_kernel.inside"
) -> dict[str, Any]:
    """Play a scenario in a guest kernel; return what it recorded."""
    if scenario.driver == "kmod":
        guest_module.build(folder)
    servers.certify(list(pages().values()), folder / "tls")
    words = (loads.program(), scenario.text())
    return play(folder, module, words, columns=120, limit_s=LIMIT_S, memory_mb=1536 if scenario.browsers else 1024)


def play_timed(scenario: KernelScenario) -> dict[str, Any]:
    """Play a scenario in a guest kernel and a temporary folder; print progress and seconds to stderr."""
    began, used = time.monotonic(), os.times()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, redirect_stdout(sys.stderr):
        found = play_in_guest(Path(folder), scenario)
    now = os.times()
    cpu_s = now.children_user + now.children_system - used.children_user - used.children_system
    print(f"{scenario.driver}: {time.monotonic() - began:.0f} s, {cpu_s:.0f} s of a processor, for"
          f" {scenario.epochs * scenario.epoch_s} s of the guest", file=sys.stderr)  # fmt: skip
    return found


def load_or_play(folder: Path, name: str, scenario: KernelScenario) -> RecordedRun:
    """Return the run of that name from the folder; play it first if the folder lacks it. Errors: `BadInput` if the
    recorded run is of another scenario."""
    path = folder / f"{name}.json.gz"
    if not path.exists():
        found = play_timed(scenario)
        folder.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".new").write_bytes(gzip.compress(json.dumps([scenario.text(), found]).encode(), mtime=0))
        path.with_suffix(".new").replace(path)
    text, found = json.loads(gzip.decompress(path.read_bytes()))
    if text != scenario.text():
        raise BadInput(f"{path} is a run of another scenario; name another folder")
    return parse_run(scenario, found)


def digest(found: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything that a run recorded, in hexadecimal digits."""
    return sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
