# SPDX-License-Identifier: MIT
"""Runs that are kept in a folder, so that tables of several runs can be made, and made again, without playing them."""

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
from benchmarks.live_kernel.judged import KeptRun, kept
from benchmarks.live_kernel.scenario import KernelScenario, pages
from configtron.lab.testbed import loads, servers
from configtron.model.errors import BadInput
from rigs import guest_module

# Of real time.
LIMIT_S = 3 * 3600


def played(folder: Path, scenario: KernelScenario, module: str = "benchmarks.live_kernel.inside") -> dict[str, Any]:
    """Run a scenario in a guest, return what it kept."""
    if scenario.driver == "kmod":
        guest_module.build(folder)
    servers.certify(list(pages().values()), folder / "tls")
    words = (loads.program(), scenario.text())
    return play(folder, module, words, columns=120, limit_s=LIMIT_S, memory_mb=1536 if scenario.browsers else 1024)


def found_of(scenario: KernelScenario) -> dict[str, Any]:
    """Run a scenario in a guest and a folder of its own; progress and seconds go to stderr."""
    began, used = time.monotonic(), os.times()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, redirect_stdout(sys.stderr):
        found = played(Path(folder), scenario)
    now = os.times()
    cpu_s = now.children_user + now.children_system - used.children_user - used.children_system
    print(f"{scenario.driver}: {time.monotonic() - began:.0f} s, {cpu_s:.0f} s of a processor, for"
          f" {scenario.epochs * scenario.epoch_s} s of the guest", file=sys.stderr)  # fmt: skip
    return found


def kept_run(folder: Path, name: str, scenario: KernelScenario) -> KeptRun:
    """Return a run of that name, played unless the folder has it. Errors: `BadInput` where it has one of another
    scenario."""
    path = folder / f"{name}.json.gz"
    if not path.exists():
        found = found_of(scenario)
        folder.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".new").write_bytes(gzip.compress(json.dumps([scenario.text(), found]).encode(), mtime=0))
        path.with_suffix(".new").replace(path)
    text, found = json.loads(gzip.decompress(path.read_bytes()))
    if text != scenario.text():
        raise BadInput(f"{path} is a run of another scenario; name another folder")
    return kept(scenario, found)


def digest(found: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all that a run kept, in hexadecimal digits."""
    return sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
