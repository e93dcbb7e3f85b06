# SPDX-License-Identifier: MIT
"""What a command lacks is named in one line: an engine of an extra, a permission; and policies of one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.db.outcomes import Outcomes
from configtron.model.errors import DONE, PRIVILEGE, USAGE, BadInput, Missing
from configtron.service.learning import importable
from tests.support.learn_command import Typed, refused
from tests.support.worlds import FASTEST


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["gpyopt", "gpyopt-classic"])
def test_the_extra_is_named(filled: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str) -> None:
    monkeypatch.setitem(sys.modules, "GPyOpt", None)
    for words in (("learn", "run", "--policy", "configtron"),
                  ("replay", "sessions", "--tensor", "small.npz", "--policy", "bo_nc")):  # fmt: skip
        code, out, err = filled(*words, "--engine", engine)
        assert (code, out) == (Missing.code, "") and "pip install 'configtron[gpyopt]'" in err
    with Outcomes(tmp_path / "l.db") as store:
        assert not store.learners()


def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count suggestions of GPyOpt's model: (tried,) of each call."""
    pytest.importorskip("GPyOpt")
    from configtron.learner.engines import gpyopt

    calls: list[int] = []
    suggest = gpyopt.GpyGrid.suggest

    def counted(self: gpyopt.GpyGrid, tried: Any, ms: Any, pending: Any) -> Any:
        calls.append(len(tried))
        return suggest(self, tried, ms, pending)

    monkeypatch.setattr(gpyopt.GpyGrid, "suggest", counted)
    return calls


@pytest.mark.slow
def test_replay_searches_by_gpyopt(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(monkeypatch)
    given = ("--tensor", "small.npz", "--policy", "bo_nc", "--sessions", 600, "--classes", 1, "--update", 2)
    code, _, err = typed("replay", "sessions", *given, "--engine", "gpyopt")
    assert code == DONE and calls and min(calls) >= 4, err


@pytest.mark.slow
@pytest.mark.parametrize(("logger", "reached"), [("brute_nc", True), ("default", False)])
def test_learn_run_searches_by_gpyopt_where_the_log_tries_what_it_asks_for(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, logger: str, reached: bool
) -> None:
    given = ("--tensor", "small.npz", "--policy", logger, "--sessions", 4000, "--classes", 1, "--update", 2, "--log")
    assert typed("replay", "sessions", *given)[0] == DONE
    calls = asked(monkeypatch)
    code, _, err = typed("learn", "run", "--policy", "configtron", "--classes", "1", "--update-every", "20",
                         "--engine", "gpyopt")  # fmt: skip
    assert code == DONE and bool(calls) == reached and ("its engine was never asked" in err) != reached, err


@pytest.mark.slow
def test_a_policy_of_ones_own_is_replayed_learns_and_goes_on(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine_for_test.py").write_text(FASTEST)
    monkeypatch.chdir(tmp_path)
    given = ("--policy", "mine_for_test:Fastest", "--sessions", 600, "--log", "-f", "jsonl")
    code, out, err = typed("replay", "sessions", "--tensor", "small.npz", *given)
    assert code == DONE and "mine_for_test:Fastest" in out, err
    assert typed("learn", "run", "--policy", "mine_for_test:Fastest", "--name", "mine", "--outcomes", "300")[0] == DONE
    code, _, err = typed("learn", "run", "--policy", "mine")
    assert code == DONE, err
    code, out, _ = typed("learn", "status")
    assert code == DONE and "mine" in out
    code, _, err = typed("learn", "run", "--policy", "mine_for_test:Slowest")
    assert code == BadInput.code and "no Slowest in mine_for_test" in err


# Rights by which root reads what no permission allows.
WITHOUT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give up its rights")
def test_key_folder_without_permissions_is_exit_code_5(tmp_path: Path) -> None:
    """It was 4, `nothing succeeded`, without a remedy."""
    (tmp_path / "fleet").mkdir(mode=0o000)
    enroll = ("learn", "manager", "enroll", "web1", "--address", "tcp://127.0.0.1:5560")
    command = [*WITHOUT, sys.executable, "-m", "configtron", "--db", tmp_path / "m.db", *enroll]
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == PRIVILEGE, done.stderr
    assert done.stderr.count("\n") == 1 and "fleet/curve.key: Permission denied; run this as the owner" in done.stderr


def test_report_asks_for_its_extra_before_it_reads(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no loads it wrote a page, with loads it ended for want of scipy: the same command, two answers."""
    monkeypatch.setattr(importable, "find_spec", lambda name: None)
    code, _, err = typed("learn", "report", "-o", tmp_path / "r.html")
    assert code == USAGE and "no database here" in err
    typed("tune", "profile", "set", "fast", "initcwnd=20")
    code, _, err = typed("learn", "report", "-o", tmp_path / "r.html")
    assert code == PRIVILEGE and "pip install 'configtron[learn]'" in err and not (tmp_path / "r.html").exists()


def test_manager_without_profiles_is_not_started_again(typed: Typed) -> None:
    """Its unit started it each two seconds; `RestartPreventExitStatus` has this code."""
    refused(typed, "tune profile set NAME KNOB=VALUE", "learn", "manager", "run", "--policy", "thompson")
