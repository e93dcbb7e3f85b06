# SPDX-License-Identifier: MIT
"""`learn measure` as people type it, with pretended guests; a real one is in tests/lab/testbed/test_shard.py."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from configtron.cli.learn.measure import SERVERS, STUDIES
from configtron.cli.outermost import run
from configtron.lab.testbed import measure as module
from configtron.lab.testbed import orphans, servers, studies
from configtron.model.errors import CONDITION, DONE, INTERRUPTED, NOTHING, PARTIAL, REFUSED
from configtron.model.tensor import read
from tests.support import ROOT
from tests.support.lab import pretended_guest as pretend
from tests.support.learn_command import rows
from tests.support.waiting import until

Spoken = pytest.CaptureFixture[str]
SMALL = ["--smoke", "--condition", "hotcloud:1/50/0", "--condition", "hotcloud:5/150/5", "--looks", "6,12,24"]


@pytest.fixture(autouse=True)
def pretended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setattr(module, "guests", lambda *_: pretend.guests())


def measured(db: Path, *words: str) -> int:
    return run(["--db", str(db), "learn", "measure", *words])


def test_names_are_those_that_the_lab_knows() -> None:
    assert set(STUDIES) == set(studies.STUDIES) and set(SERVERS) == set(servers.PROGRAMS)


@pytest.mark.slow
def test_a_measurement_is_lines_table_and_tensor(tmp_path: Path, capsys: Spoken) -> None:
    db, file = tmp_path / "x.db", tmp_path / "t.npz"
    assert measured(db, *SMALL, "-f", "jsonl", "--tensor", str(file)) == DONE
    message = capsys.readouterr()
    cells = rows(message.out)
    assert len(cells) == 2 * 16 * 3
    quiet = [row for row in cells if row["condition"] == "hotcloud:1/50/0"]
    assert all(row["flag"] == "" and row["loads"] == 6 for row in quiet)
    assert {row["loads"] for row in cells} <= {6, 12, 24} and any(row["flag"] == "wide-interval" for row in cells)
    assert "medians known" in message.err and str(file) in message.err
    tensor = read(io.BytesIO(file.read_bytes()))
    assert tensor.names == ("hotcloud:1/50/0", "hotcloud:5/150/5") and tensor.source == "lab"
    assert list(tensor.bandwidth_kbps) == [1000, 5000] and list(tensor.rtt_ms) == [50, 150]
    assert list(tensor.loss) == [0, 0.05] and tensor.missing() == 0
    assert tensor.repeats_ms is not None and tensor.repeats_ms.shape == (2, 16, 3, 24)
    for row in cells:
        at = (tensor.names.index(row["condition"]), row["configuration"], tensor.sites.index(row["site"]))
        assert tensor.median_ms[at] == np.float32(row["median_ms"])
        assert dict(tensor.grid.profiles[at[1]].settings) == row["settings"]
    assert dict(tensor.provenance)["study"] == "smoke" and "pretended" in dict(tensor.provenance)["software"]


@pytest.mark.slow
def test_what_was_measured_is_a_world_for_policies(tmp_path: Path, capsys: Spoken) -> None:
    """From page loads to sessions: the tensor's file goes into `replay sessions` and `learn knobs` as it is."""
    db, file = tmp_path / "x.db", str(tmp_path / "t.npz")
    assert measured(db, *SMALL, "--tensor", file) == DONE
    few = ["--policy", "mab_nc", "--policy", "thompson", "--sessions", "300", "--classes", "2", "--warm", file]
    for words in (["sessions", *few], ["study", "gains", "knobs", "--seeds", "2", "--sessions", "300"]):
        capsys.readouterr()
        assert run(["--db", str(db), "replay", *words, "--tensor", file, "-f", "jsonl"]) == DONE
        played = {row.get("policy", row.get("study")) for row in rows(capsys.readouterr().out)}
        assert played in ({"mab_nc", "thompson"}, {"gains", "knobs"})
    assert run(["--db", str(db), "learn", "knobs", "--tensor", file, "-f", "jsonl"]) == DONE
    assert {row["kind"] for row in rows(capsys.readouterr().out)} >= {"knob", "importance"}


@pytest.mark.slow
def test_the_same_seed_makes_the_same_tensor(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "c")]
    for n, (file, seed) in enumerate(zip(files, ("1", "1", "2"), strict=True)):
        words = ["--seed", seed, "--jobs", str(n + 1), "--tensor", str(file)]
        assert measured(tmp_path / f"{n}.db", *SMALL, *words) == DONE
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()


def test_one_load_a_cell_knows_no_median(tmp_path: Path, capsys: Spoken) -> None:
    assert measured(tmp_path / "x.db", "--smoke", "--condition", "hotcloud:1/50/0", "--fail-on-unknown") == CONDITION
    message = capsys.readouterr()
    assert "0 of 48 medians known (48 few-loads)" in message.err and "48 few-loads" in message.out


@pytest.mark.slow
def test_refusals_and_losses_are_reported(tmp_path: Path, capsys: Spoken) -> None:
    """Vegas is refused by the pretended stack; the guest of 500 ms ends badly."""
    both = ["--condition", "hotcloud:1/50/0", "--condition", "hotcloud:1/500/0", "--site", "search", "--looks", "6"]
    assert measured(tmp_path / "x.db", "--study", "hotcloud", *both, "-f", "csv") == PARTIAL
    message = capsys.readouterr()
    assert "the guest is lost" in message.err and "--resume 1" in message.err
    assert message.out.count("stack-not-as-asked") == 24 and len(message.out.splitlines()) == 1 + 97
    assert measured(tmp_path / "x.db", *SMALL[:1], "--condition", "hotcloud:1/500/0") == NOTHING


def forgotten(db: Path) -> None:
    """The shard of the second condition is not recorded."""
    database = sqlite3.connect(db)
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("DELETE FROM shard WHERE condition LIKE '%/5'").connection.commit()


@pytest.mark.slow
def test_resuming_does_only_what_is_not_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed shard is done again; one that lies there whole but was not recorded is taken as it lies."""
    db = tmp_path / "x.db"
    assert measured(db, *SMALL, "--tensor", str(tmp_path / "before")) == DONE
    forgotten(db)

    def none(*_: object) -> None:
        raise AssertionError("nothing is left to do")

    monkeypatch.setattr(module, "perform", lambda *_: iter(()))
    monkeypatch.setattr(module, "_boot", none)
    assert measured(db, "--resume", "-1", "--tensor", str(tmp_path / "after")) == DONE
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


@pytest.mark.slow
def test_a_resumed_measurement_says_that_its_software_changed(
    tmp_path: Path, capsys: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "x.db"
    assert measured(db, *SMALL) == DONE
    assert "different softwares" not in capsys.readouterr().err
    forgotten(db)
    shutil.rmtree(next((tmp_path / "x.db.measurements" / "1").glob("*-5")))
    newer = replace(pretend.guests(), software=(("configtron", "newer"),))
    monkeypatch.setattr(module, "guests", lambda *_: newer)
    assert measured(db, "--resume", "-1") == DONE
    assert "its shards ran on 2 different softwares" in capsys.readouterr().err


OWNER = """
import sys
from configtron.cli.outermost import run
from configtron.lab.testbed import measure
from tests.support.lab import pretended_guest as pretend
pause = float(sys.argv[1])
measure.guests = lambda *_: pretend.guests(pause)
raise SystemExit(run(sys.argv[2:]))
"""
CONDITIONS = [f"hotcloud:{mbit}/{rtt}/0" for mbit in (1, 5) for rtt in (50, 150, 250)]


def owner(db: Path, pause_s: float, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", OWNER, str(pause_s), "--db", str(db), "learn", "measure", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def until_shards(db: Path, least: int) -> set[str]:
    """The conditions that are recorded, once there are so many."""

    def recorded() -> list[tuple[str]]:
        try:
            return sqlite3.connect(f"file:{db}?mode=ro", uri=True).execute("SELECT condition FROM shard").fetchall()
        except sqlite3.OperationalError:
            return []

    until(lambda: len(recorded()) >= least)
    return {name for (name,) in recorded()}


@pytest.mark.slow
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_killed_it_loses_no_whole_shard(tmp_path: Path, kill: signal.Signals) -> None:
    """Killed, none is done again: the guest goes on; asked to stop, the one under way. The tensor is the same."""
    db, words = tmp_path / "x.db", [w for name in CONDITIONS for w in ("--condition", name)]
    running = owner(db, 0.02, "--smoke", "--jobs", "1", *words)
    kept = until_shards(db, 2)
    os.kill(running.pid, kill)
    assert running.wait() == (-kill if kill == signal.SIGKILL else INTERRUPTED)
    began = len(list((tmp_path / "x.db.measurements" / "1").glob("[0-9]*")))
    assert began <= len(until_shards(db, 2)) + 1
    assert measured(db, "--resume", "1", "--tensor", str(tmp_path / "resumed")) == DONE
    assert kept < until_shards(db, len(CONDITIONS))
    boots = [orphans.boots(folder) for folder in (tmp_path / "x.db.measurements" / "1").glob("[0-9]*")]
    assert sum(boots) <= len(CONDITIONS) + (kill != signal.SIGKILL) and min(boots) == 1
    assert measured(tmp_path / "y.db", "--smoke", *words, "--tensor", str(tmp_path / "peace")) == DONE
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "peace").read_bytes()


@pytest.mark.slow
def test_a_measurement_is_one_process_s(tmp_path: Path, capsys: Spoken) -> None:
    db = tmp_path / "x.db"
    running = owner(db, 0.1, "--smoke", "--jobs", "1", "--condition", "access:dsl", "--condition", "access:4g")
    until_shards(db, 1)
    assert measured(db, "--resume", "1") == REFUSED
    assert "measurement 1 is being run by another process" in capsys.readouterr().err
    running.kill()
    running.wait()
