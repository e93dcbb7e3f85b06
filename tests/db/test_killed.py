# SPDX-License-Identifier: MIT
"""`kill -9` loses nothing that was recorded, and leaves no batch by half, whatever is written."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configtron.db.measuring import Measuring
from configtron.db.outcomes import Outcomes
from configtron.db.store import Store
from tests.support import ROOT

HEAD = "import sys; from itertools import count; from pathlib import Path; path = Path(sys.argv[1])\n"
TAIL = "\nfor n in count():\n    write(n)\n    print(n, flush=True)\n"


def batches(path: Path) -> int:
    with Store(path) as store:
        kept = store.done(1)
    assert len(kept) % 7 == 0, "a batch was kept by half"
    numbers = {int(trace.split(".")[1]) for trace in kept}
    assert numbers == set(range(len(kept) // 7))
    return len(numbers)


def shards(path: Path) -> int:
    with Measuring(path) as store:
        kept = {int(shard.condition) for shard in store.shards(1)}
        assert len(list(store.cells(1))) == 4 * len(kept) and kept == set(range(len(kept)))
    return len(kept)


def outcomes(path: Path) -> int:
    with Outcomes(path) as store:
        count = store.count()
        assert count % 500 == 0 and sum(len(part) for part in store.batches()) == count
    return count // 500


# (what writes the n-th batch, how many are there and are whole)
WRITERS: dict[str, tuple[str, Callable[[Path], int]]] = {
    "readings": ("""
from configtron.db.store import Store
from tests.db.test_store import ICW, result
store = Store(path); run = store.begin_run("{}")
write = lambda n: store.record(run, [result(f"na/a/icw.{n}.{k}", ICW) for k in range(7)])""", batches),
    "shards": ("""
from configtron.db.measuring import Measuring
from tests.db.test_measuring import record
store = Measuring(path); number = store.begin("smoke", "{}")
write = lambda n: record(store, number, str(n))""", shards),
    "outcomes": ("""
from configtron.db.outcomes import Outcomes
from tests.learner.test_logged import logged
store, reported = Outcomes(path), logged(500); log = store.begin_log("sim", "{}")
write = lambda n: store.add(log, reported)""", outcomes),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", WRITERS)
@pytest.mark.parametrize("seed", range(3))
def test_kill_9_loses_nothing_that_was_recorded(tmp_path: Path, what: str, seed: int) -> None:
    path, (code, kept) = tmp_path / "killed.db", WRITERS[what]
    words = [sys.executable, "-c", HEAD + code + TAIL, str(path)]
    writer = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(random.Random(seed).randint(2, 40))]
    os.kill(writer.pid, signal.SIGKILL)
    lines += writer.stdout.readlines()
    writer.wait()
    confirmed = sum(line.endswith("\n") for line in lines)
    assert kept(path) >= confirmed > 0
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
