# SPDX-License-Identifier: MIT
"""Programs of this folder run apart from the host (tests/support/isolation.py), and BPF programs compiled for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.model.tuning import Place
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from tests.support import ROOT
from tests.support.isolation import apart
from tests.support.waiting import GUEST_S

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def usable() -> None:
    if reason := EbpfDriver(Place()).missing():
        pytest.skip(reason)


def aside(script: str, *arguments: str, folder: Path = HERE) -> Any:
    """A program of a folder in namespaces of its own; its JSON."""
    usable()
    command = apart([sys.executable, str(folder / script), *arguments])
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=GUEST_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def compiled(source: Path, folder: Path) -> Path:
    built = folder / f"{source.name}.o"
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", include, "-c", str(source), "-o", str(built)], check=True)
    return built
