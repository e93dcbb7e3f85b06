# SPDX-License-Identifier: MIT
"""`learn run` that is cut: by a kill, by a knob that outcomes prove dead. It decides what it would have decided."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.db.outcomes import Outcomes
from configtron.learner import interim
from configtron.learner.logged import Logged
from configtron.learner.saved import recipe_of
from configtron.learner.state import decode
from configtron.model.errors import DONE, INTERRUPTED
from configtron.service.learning import dead_knobs, lessons
from tests.learner.test_initial_classes import chosen
from tests.learner.test_logged import logged as sessions
from tests.support import ROOT
from tests.support.children import child
from tests.support.learn_command import Typed, kept, rows, shown
from tests.support.waiting import until

HOW = ("learn", "run", "--classes", 4, "-f", "jsonl", "--policy")


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at 1500, 3000 and 6000 outcomes; made by too few to know anything."""
    monkeypatch.setattr(lessons, "OFFLINE", 400)
    monkeypatch.setattr(interim, "FIRST", 1500)


def logged(folder: Path, *logs: Logged) -> None:
    with Outcomes(folder / "l.db") as store:
        for number, log in enumerate(logs):
            store.begin_log("sim", f'{{"a":{number}}}', log)


@pytest.mark.slow
@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("policy", ["mab_nc", "thompson", "bo_nc", "reuse"])
def test_it_is_not_explored_any_more(typed: Typed, tmp_path: Path, policy: str) -> None:
    logged(tmp_path, chosen(0.0))
    code, out, err = typed(*HOW, policy, "--name", "whole")
    (row,) = rows(out)
    assert code == DONE and row["unexplored"] == ["pacing"] and row["learned"] == 8000
    assert err.count("pacing is not explored from here on: no difference beyond noise in ") == 1
    at = next(n for n in (1500, 3000, 6000) if f"in {n} outcomes" in err)
    for said in (err, typed("learn", "run", "--policy", "whole")[2]):
        assert "whole: goes without pacing where proven to do nothing" in said
    state, recipe, decided = kept(tmp_path, "whole")
    assert {dict(profile.settings)["pacing"] for profile in recipe_of(recipe).grid.profiles} == {"pfifo_fast"}
    message = shown(typed, "learn", "knobs", "--policy", "whole")
    assert [one["knob"] for one in message if one["kind"] == "unexplored"] == ["pacing"]
    paced = ['"fq"' in str(one[1]) for one in decided]  # type: ignore[index]
    assert not any(paced[at:]) and (any(paced[:at]) or policy == "reuse")
    # in parts, of which one ends in the middle and one at the look, it is the same
    assert typed(*HOW, policy, "--name", "parts", "--outcomes", at - 700)[0] == DONE
    for part in (700, 300):
        assert typed("learn", "run", "--policy", "parts", "--outcomes", part)[0] == DONE
    code, out, err = typed("learn", "run", "--policy", "parts", "-f", "jsonl")
    assert code == DONE and "not explored" not in err and rows(out)[0]["unexplored"] == ["pacing"]
    assert kept(tmp_path, "parts") == (state, recipe, decided)


@pytest.mark.slow
@pytest.mark.usefixtures("early")
def test_a_kill_before_it_is_kept_changes_nothing(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged(tmp_path, chosen(0.0))
    assert typed(*HOW, "mab_nc", "--name", "whole")[0] == DONE
    with monkeypatch.context() as patch:
        patch.setattr(dead_knobs, "taught", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert typed(*HOW, "mab_nc", "--name", "killed")[0] != DONE
    with Outcomes(tmp_path / "l.db") as store:
        found = store.learner("killed")
        assert found is not None and found.outcomes in (0, 1500, 3000)
    assert typed("learn", "run", "--policy", "killed")[0] == DONE
    assert kept(tmp_path, "killed") == kept(tmp_path, "whole")
    # without the knob it was taught everything, earlier outcomes too
    assert decode(kept(tmp_path, "whole")[0])["own"]["tally_"].count.sum() == 8000


@pytest.mark.slow
@pytest.mark.usefixtures("early")
def test_where_nothing_is_proven_nothing_is_changed(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged(tmp_path, chosen(0.04))
    code, out, err = typed(*HOW, "thompson", "--name", "looked")
    assert code == DONE and rows(out)[0]["unexplored"] == [] and "not explored" not in err
    monkeypatch.setattr(interim, "share", lambda _: 0.0)
    assert typed(*HOW, "thompson", "--name", "blind")[0] == DONE
    assert kept(tmp_path, "looked") == kept(tmp_path, "blind")


@pytest.mark.slow
@pytest.mark.usefixtures("early")
def test_clients_that_are_watched_are_watched_on(typed: Typed, tmp_path: Path) -> None:
    logged(tmp_path, chosen(0.0))
    code, out, _ = typed(*HOW, "mab_nc", "--name", "whole", "--watch")
    assert code == DONE and rows(out)[0]["unexplored"] == ["pacing"]
    assert typed(*HOW, "mab_nc", "--name", "parts", "--watch", "--outcomes", 3100)[0] == DONE
    assert typed("learn", "run", "--policy", "parts")[0] == DONE
    assert kept(tmp_path, "whole") == kept(tmp_path, "parts")


@pytest.mark.slow
@pytest.mark.usefixtures("early")
def test_a_policy_does_not_forget_outcomes_that_are_gone(typed: Typed, tmp_path: Path) -> None:
    """A replay that is logged again after a kill takes its first log away: what was learned from it stays learned."""
    log = chosen(0.0)
    logged(tmp_path, log[:1000], log[1000:])
    assert typed(*HOW, "mab_nc", "--name", "left", "--outcomes", 1400)[0] == DONE
    with Outcomes(tmp_path / "l.db") as store:
        assert store.drop_logs('{"a":0}') == 1
    code, out, err = typed("learn", "run", "--policy", "left", "-f", "jsonl")
    assert code == DONE and rows(out)[0]["unexplored"] == [] and rows(out)[0]["learned"] == 8000
    assert "1000 of 1500 outcomes are gone: dead knobs are not searched for" in err
    assert decode(kept(tmp_path, "left")[0])["own"]["tally_"].count.sum() == 8000


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ended_by_a_signal_and_taken_up_again(typed: Typed, tmp_path: Path, number: signal.Signals) -> None:
    """It keeps each decision once. SIGTERM ends it with a line and a code."""
    path = tmp_path / "l.db"
    with Outcomes(path) as store:
        log = store.begin_log("sim", "{}")
        for seed in range(1, 5):
            store.add(log, sessions(20_000, seed))
    how = ("learn", "run", "--policy", "configtron", "--classes", "6", "--update-every", "2000", "--seed", "9")
    command = [sys.executable, "-m", "configtron", "--db", str(path), *how, "--name", "ended"]
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "text": True}
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as run, Outcomes(path) as store:
        until(lambda: bool((found := store.learner("ended")) and found.position) or run.poll() is not None)
        assert run.poll() is None, "it came to its end before the test looked"
        run.send_signal(number)
        out, err = run.communicate()
        found = store.learner("ended")
        assert found is not None and 0 < found.position < 80_000 and out == ""
        assert len(list(store.decisions("ended"))) == found.position
    if number == signal.SIGTERM:
        assert run.returncode == INTERRUPTED and found.outcomes % 10_000 == 0
        assert f"ended: {found.outcomes} outcomes are learned and saved; go on with: configtron --db" in err
        return
    assert typed("learn", "run", "--policy", "ended")[0] == DONE
    assert typed(*how, "--name", "whole")[0] == DONE
    state, _, decisions = kept(tmp_path, "ended")
    assert (state, decisions) == kept(tmp_path, "whole")[::2] and len(decisions) == 80_000
