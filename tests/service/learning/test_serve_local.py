# SPDX-License-Identifier: MIT
"""`learn serve --local` with the driver ebpf on this kernel: nginx, beacons, draws, rows; killed, it leaves Default."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from configtron.model.tuning import Place
from configtron.tune.drivers.ebpf import EbpfDriver
from rigs import ROOT
from rigs.isolation import apart
from tests.support.real_servers import absent

SECONDS = 100


@pytest.mark.root
@pytest.mark.slow
def test_the_loop_tunes_this_kernel_and_a_kill_leaves_default() -> None:
    if reason := EbpfDriver(Place()).missing() or absent("nginx"):
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="served-") as folder:
        Path(folder).chmod(0o755)
        command = apart([sys.executable, "-m", "tests.support.served_locally", folder, "ebpf", str(SECONDS)])
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=400, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    # Rows teach, arms are drawn, a fifth of the clients is held back, and every propensity is of its own map.
    assert seen["teach"] > 300 and seen["without rtt"] < seen["rows"] / 10, seen
    assert set(seen["why"]) <= {"turn", "reused-connection", "undrawn"}, seen["why"]
    assert len(seen["drawn"]) > 3 and seen["held"] > 0
    assert "propensity-differs" not in seen["log"] and "map-unknown" not in seen["log"]
    # Some clients' connections have another window or congestion control than before, and none after the lease.
    (untouched,) = seen["before"]
    assert set(seen["during"]) - {untouched}
    control, window = untouched.split("/")
    settings = [one.split("/") for one in seen["after"]]
    assert not [one for one in settings if one[0] != control or int(one[1]) < int(window)], seen["after"]
