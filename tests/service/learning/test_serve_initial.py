# SPDX-License-Identifier: MIT
"""`learn serve --local --policy initial` with real drivers on this kernel: connections teach it windows; killed, it
leaves the untouched stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from configtron.model.tuning import Place
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from tests.support import ROOT
from tests.support.isolation import apart
from tests.support.waiting import GUEST_S

# The first ends teach, the map of the second epoch may come before there are twenty; a busy machine takes longer.
SECONDS, DEFAULT = 240, "10"
# What the path takes, ms, and what a busy machine adds.
PATH_MS, LATE_MS = 60.0, 1000.0


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("driver", ["route", "ebpf"])
def test_connections_teach_windows_and_a_kill_leaves_none(driver: str) -> None:
    if driver == "ebpf" and (reason := EbpfDriver(Place()).missing()):
        pytest.skip(reason)
    seen = _served(driver)
    # All began untouched; then predicted windows were drawn for some, Null for others.
    assert set(seen["before"]) == {DEFAULT} and seen["running"] is None, seen["log"]
    larger = {window: count for window, count in seen["during"].items() if int(window) > int(DEFAULT)}
    assert larger and seen["during"].get(DEFAULT), seen
    assert seen["state during"], "rules or pins"
    # Ends are rows; those of Null and of before teach, and have what the driver says it has (docs/studies.md).
    assert seen["teach"] >= 20 and seen["strategies"].get("null") and seen["strategies"].get("pred-round"), seen
    assert seen["known"]["max_cwnd"] == seen["known"]["max_rtt_ms"] == seen["ends"]
    assert seen["known"]["packets_in"] == (seen["ends"] if driver == "route" else 0)
    assert PATH_MS <= seen["rtt_ms"] <= seen["max_rtt_ms"] < PATH_MS + LATE_MS, seen
    assert set(seen["killed"]) == {DEFAULT} and not seen["state killed"], seen
    # Another start goes on from the database; its end puts back what stood at once.
    assert [window for window in seen["again"] if int(window) > int(DEFAULT)], seen
    assert set(seen["ended"]) == {DEFAULT} and not seen["state ended"] and not seen["leased"], seen
    assert seen["seconds"]["larger"] < seen["seconds"]["default"], seen


def _served(driver: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="served-") as folder:
        Path(folder).chmod(0o755)
        command = apart([sys.executable, "-m", "tests.support.served_initially", folder, driver, str(SECONDS)])
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=GUEST_S, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found
