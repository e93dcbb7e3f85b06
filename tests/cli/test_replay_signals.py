# SPDX-License-Identifier: MIT
"""`configtron replay sessions` and signals: it ends soon wherever it is, and can go on from what was kept."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from configtron.db.replays import Replays
from configtron.linux import signals
from configtron.model.errors import DONE, INTERRUPTED
from configtron.studies.registry import sessions_run
from configtron.studies.sim import simulation
from tests.support import ROOT
from tests.support.learn_command import Typed, replayed
from tests.support.waiting import until


@pytest.mark.slow
def test_a_signal_stops_it_where_it_can_go_on(typed: Typed, tmp_path: Path) -> None:
    many = ("--tensor", "small.npz", "--sessions", "400000", "--policy", "default", "--classes", "5")
    command = [sys.executable, "-m", "configtron", "--db", str(tmp_path / "s.db"), "replay", "sessions", *many,
               "--update", "0.2", "-f", "jsonl"]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                             env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip

    def begun() -> bool:
        try:
            with Replays(tmp_path / "s.db", read_only=True) as book:
                return bool(book.replay())
        except Exception:  # it is being made
            return child.poll() is not None

    until(begun)
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate()
    assert child.returncode in (INTERRUPTED, DONE, -signal.SIGTERM) and "Traceback" not in err
    if child.returncode == INTERRUPTED:
        assert out == "" and "--resume 1" in err


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "words", [("sessions", "--policy", "default"), ("study", "knobs", "--seeds", "2")], ids=["policy", "study"]
)
def test_a_signal_is_not_waited_for(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], kind: signal.Signals
) -> None:
    """What never comes to a place where it stands whole is left where it is, and begun anew from what was kept."""
    tries: list[int] = []

    def endless(*given: object, **_: object) -> list[object]:
        tries.append(1)
        if len(tries) == 2:
            return []
        signal.raise_signal(kind)
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(signals, "GRACE_S", 0.01)
    monkeypatch.setattr(simulation if "--policy" in words else sessions_run, "part", endless)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)]
    code, out, err = typed("replay", *words, "--tensor", "small.npz")
    assert code == INTERRUPTED and out == "" and "interrupted; go on with" in err and "--resume 1" in err
    with Replays(tmp_path / "l.db") as book:
        assert book.replay().status == "interrupted" and book.found(1) == {}
    if "--policy" in words:
        assert typed("replay", "sessions", "--resume")[0] == DONE and len(tries) == 2
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.slow
def test_a_slow_policy_is_looked_at_more_often(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps halve while they take too long, and results do not show it."""
    whole, steps = replayed(typed, "--policy", "mab_nc"), []
    run = simulation.Replay.run

    def noted(replay: simulation.Replay, upto: int) -> None:
        steps.append(upto - replay.at_)
        run(replay, upto)

    # Each reading of the clock is a second after the last: every step takes longer than `look_s`.
    slow = simulation.ReplayPace(step=400, clock=itertools.count(0.0).__next__)
    monkeypatch.setattr(simulation, "part", partial(simulation.part, pace=slow))
    monkeypatch.setattr(simulation.Replay, "run", noted)
    assert replayed(typed, "--policy", "mab_nc") == whole
    assert steps[:4] == [400, 200, 100, 50] and steps[-1] == 1
