# SPDX-License-Identifier: MIT
"""In a user namespace, whose root has every capability over its own things only: what doctor offers can be done."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from configtron.model.errors import DONE, PRIVILEGE
from configtron.service.fleet import enrolment
from configtron.tune.drivers.bpf import rights
from tests.support import ROOT
from tests.support.tune.aside import usable
from tests.support.tune_command import TuneCommand
from tests.support.waiting import PATIENCE_S

APART = ("unshare", "--user", "--map-root-user", "--net")


def nothing_was_begun(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as journal:
        return bool(journal.execute("SELECT count(*) FROM act").fetchone() == (0,))


@pytest.fixture
def typed(tmp_path: Path) -> TuneCommand:
    """Commands of `tune` as the root of a user namespace types them: exit code, output, messages."""
    if subprocess.run([*APART, "true"], capture_output=True).returncode:
        pytest.skip("this host makes no user namespaces")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run_tune(*words: str) -> tuple[int, str, str]:
        command = [*APART, sys.executable, "-m", "configtron", "--db", str(tmp_path / "db"), "tune", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S)
        return done.returncode, done.stdout, done.stderr

    return run_tune


def test_doctor_offers_no_knob_that_apply_could_not_set(typed: TuneCommand) -> None:
    _, out, _ = typed("doctor", "-f", "jsonl")
    (ebpf,) = [row for row in map(json.loads, out.splitlines()) if row["kind"] == "driver" and row["driver"] == "ebpf"]
    assert os.geteuid() or "user namespace" in ebpf["missing"]
    assert ebpf["knobs"] == 0 and ebpf["missing"]


@pytest.mark.slow
def test_apply_refuses_before_anything_is_written(typed: TuneCommand, tmp_path: Path) -> None:
    assert typed("profile", "set", "p", "initcwnd=20")[0] == DONE
    assert typed("prefix", "set", "192.0.2.0/24", "p")[0] == DONE
    code, _, message = typed("apply", "--driver", "ebpf", "--keep")
    assert (code, message.count("\n")) == (PRIVILEGE, 1) and message.startswith("configtron: driver ebpf: ")
    assert nothing_was_begun(tmp_path / "db")


@pytest.mark.slow
def test_an_agent_that_may_not_become_its_user_ends_by_one_line(typed: TuneCommand, tmp_path: Path) -> None:
    line = enrolment.enroll(tmp_path / "m.db", tmp_path / "keys", "web1", "tcp://127.0.0.1:5560")
    enrolment.join(tmp_path / "agent", line, "root")
    code, _, message = typed("--driver", "memory", "agent", "--folder", str(tmp_path / "agent"), "--user", "root")
    assert (code, message.count("\n")) == (PRIVILEGE, 1) and "become user 'root': Operation not permitted" in message


@pytest.mark.root
def test_a_load_that_only_trying_shows_is_found_out_before_anything_is_written(
    tune: TuneCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A filter of system calls that lets bpf(2) ask and not load; a plan loads nothing, so it does not know."""
    usable()
    assert rights.lacking() == rights.tried() == "", "the host's root is not refused"
    monkeypatch.setattr(rights, "tried", lambda: "the filter is in the way")
    lacks = {row["driver"]: row["missing"] for row in map(json.loads, tune("doctor", "-f", "jsonl")[1].splitlines())
             if row["kind"] == "driver"}  # fmt: skip
    assert lacks["ebpf"] == "the filter is in the way"
    tune("profile", "set", "p", "initcwnd=20")
    tune("prefix", "set", "192.0.2.0/24", "p")
    where = ("--driver", "ebpf", "--cgroup", "/")
    assert tune("plan", *where)[0] == DONE
    code, _, message = tune("apply", *where, "--keep")
    assert (code, message) == (PRIVILEGE, "configtron: the driver ebpf: the filter is in the way\n")
    assert nothing_was_begun(next(tmp_path.rglob("configtron.db")))
