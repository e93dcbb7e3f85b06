# SPDX-License-Identifier: MIT
"""Engines of an extra, absent and present, and policies of one's own: the command names what it lacks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.db.outcomes import Outcomes
from configtron.model.errors import DONE, BadInput, Missing
from tests.support.learn_command import Typed, filled, typed
from tests.support.worlds import FASTEST

__all__ = ["filled", "typed"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["gpyopt", "gpyopt-classic"])
def test_learn_run_names_the_extra(filled: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str) -> None:
    monkeypatch.setitem(sys.modules, "GPyOpt", None)
    code, out, err = filled("learn", "run", "--policy", "configtron", "--engine", engine)
    assert (code, out) == (Missing.code, "") and "pip install 'configtron[gpyopt]'" in err
    with Outcomes(tmp_path / "l.db") as store:
        assert not store.learners()


@pytest.mark.parametrize("engine", ["gpyopt", "gpyopt-classic"])
def test_replay_names_the_extra(typed: Typed, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.setitem(sys.modules, "GPyOpt", None)
    code, out, err = typed("replay", "sessions", "--tensor", "small.npz", "--policy", "bo_nc", "--engine", engine)
    assert (code, out) == (Missing.code, "") and "pip install 'configtron[gpyopt]'" in err


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
