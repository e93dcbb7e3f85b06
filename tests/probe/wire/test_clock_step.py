# SPDX-License-Identifier: MIT
"""A campaign whose wall clock is set while it runs: it ends, and its timers are the server's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.children import child
from tests.support.namespaces import throwaway
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.root

HERE = ROOT / "tests" / "support"
# Every address of 127/8 is the namespace's own; one server answers for them all.
BLOCK, HOSTS = "127.0.5.0/28", 16
SERVER = """
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "100000"); self.end_headers()
        self.wfile.write(b"x" * 100000)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer.handle_error = lambda *words: None
print("ready", flush=True)
http.server.ThreadingHTTPServer(("", 80), Page).serve_forever()
"""


@pytest.fixture(scope="module")
def netns() -> Iterator[str]:
    with throwaway("clock") as name:
        command = ["ip", "netns", "exec", name, sys.executable, "-c", SERVER]
        with child(command, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
            yield name


@pytest.fixture(scope="module")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("clock") / "clock_step.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(HERE / "clock_step.c")], check=True)
    return library


@pytest.mark.parametrize("by_s", [-3600, -1, 1, 3600])
def test_a_campaign_outlives_a_step_of_the_wall_clock(netns: str, preload: Path, tmp_path: Path, by_s: int) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text(f"{BLOCK}\n")
    done = subprocess.run(
        ["ip", "netns", "exec", netns, sys.executable, "-m", "configtron", "--db", str(tmp_path / "step.db"), "probe",
         BLOCK, "-w", str(allowed), "--profile", "quick", "--tests", "rto,icw", "--per-network-rate", "0",
         "-f", "jsonl"],
        env={**os.environ, "LD_PRELOAD": str(preload), "CLK_AT": "3", "CLK_BY": str(by_s)},
        capture_output=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == HOSTS
    rtos = [row["observations"]["synack_rto"]["value"] for row in rows]
    # Linux: 1 s, up to an eighth later (its timer wheel).
    assert all(0.99 < rto < 1.13 for rto in rtos), rtos
