# SPDX-License-Identifier: MIT
"""The coverage-guided fuzzer for a short while, with a fixed seed; `make fuzz` lets it run for longer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import fuzzer

RUNS = 500
CHILD = (
    "import json, sys; from pathlib import Path; from tests.support.fuzzer import fuzz;"
    "print(json.dumps(fuzz(seed=1, runs=int(sys.argv[1]), folder=Path(sys.argv[2]))))"
)
# Reading from a child whose memory is limited; a capture that costs more is a fault.
STREAM = (
    "import sys; from tests.support.fuzzer import limit; import numpy, configtron.cli.outermost as o;"
    "import configtron.fingerprint.passive.connection_report, configtron.report.connections, zstandard;"
    "limit(512 << 20);"
    "sys.exit(o.run(['fingerprint', 'pcap', '--stream', '-f', 'csv', '-o', '/dev/null', sys.argv[1]]))"
)
SINGLE = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def child(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=SINGLE, timeout=500)


@pytest.mark.slow
def test_it_finds_new_ground_and_no_fault(tmp_path: Path) -> None:
    done = child(CHILD, str(RUNS), str(tmp_path))
    assert done.returncode == 0, done.stderr
    runs, features, kept, failures = json.loads(done.stdout)
    assert failures == [] and runs == RUNS
    # What was kept is more than where it began: it was guided by what it reached.
    assert kept > 2 * sum(map(len, fuzzer.seeds().values())) and features > 2000


def test_it_sees_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> set[fuzzer.Feature]:
        if b"\xff\xff\xff\xff" in data:
            raise ValueError("a fault")
        return set()

    monkeypatch.setattr(fuzzer, "limit", lambda _: None)
    monkeypatch.setitem(fuzzer.TARGETS, "capture", broken)
    monkeypatch.setitem(fuzzer.TARGETS, "trace", broken)
    found = fuzzer.fuzz(seed=1, runs=300, folder=tmp_path)
    assert found.failures and len(found.failures) <= len(fuzzer.TARGETS), "one a fault and kind of input"
    for what, path in found.failures:
        assert "a fault" in what and b"\xff\xff\xff\xff" in Path(path).read_bytes()


def test_the_same_seed_makes_the_same_inputs() -> None:
    import random

    one, other = ([fuzzer.changed(b"abc" * 50, b"xyz" * 50, random.Random(5)) for _ in range(20)] for _ in range(2))
    assert one == other and len(set(one)) == 1


def test_any_bytes_make_a_trace() -> None:
    assert fuzzer.trace_of(b"").packets == () and len(fuzzer.trace_of(b"\1\2\3\4" + bytes(24)).packets) == 2
