# SPDX-License-Identifier: MIT
"""A knob that outcomes prove dead while a policy learns: reported, left out from then on, and the same after a kill."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from configtron.db.outcomes import Outcomes
from configtron.learner import interim
from configtron.learner.logged import Logged
from configtron.learner.saved import recipe_of
from configtron.learner.state import decode
from configtron.model.errors import DONE
from configtron.service.learning import dead_knobs, lessons
from tests.learner.test_initial_classes import chosen
from tests.support.learn_command import Typed, rows, typed

__all__ = ["typed"]
HOW = ("learn", "run", "--classes", 4, "-f", "jsonl", "--policy")


@pytest.fixture(autouse=True)
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at 1500, 3000 and 6000 outcomes; made by too few to know anything."""
    monkeypatch.setattr(lessons, "OFFLINE", 400)
    monkeypatch.setattr(interim, "FIRST", 1500)


def logged(folder: Path, log: Logged) -> None:
    with Outcomes(folder / "l.db") as store:
        store.begin_log("sim", "{}", log)


def kept(folder: Path, name: str) -> tuple[str, str, Sequence[object]]:
    with Outcomes(folder / "l.db") as store:
        found = store.learner(name)
        assert found is not None
        return found.state, found.recipe, list(store.decisions(name))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mab_nc", "thompson", "bo_nc", "reuse"])
def test_it_is_not_explored_any_more(typed: Typed, tmp_path: Path, policy: str) -> None:
    logged(tmp_path, chosen(0.0))
    code, out, err = typed(*HOW, policy, "--name", "whole")
    (row,) = rows(out)
    assert code == DONE and row["unexplored"] == ["pacing"] and row["learned"] == 8000
    assert err.count("pacing is not explored from here on: no difference beyond noise in ") == 1
    at = next(n for n in (1500, 3000, 6000) if f"in {n} outcomes" in err)
    assert "whole: goes without pacing where proven to do nothing" in err
    again = typed("learn", "run", "--policy", "whole")[2]
    assert "whole: goes without pacing where proven to do nothing" in again
    state, recipe, decided = kept(tmp_path, "whole")
    assert {dict(profile.settings)["pacing"] for profile in recipe_of(recipe).grid.profiles} == {"pfifo_fast"}
    message = rows(typed("learn", "knobs", "--policy", "whole", "-f", "jsonl")[1])
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
def test_clients_that_are_watched_are_watched_on(typed: Typed, tmp_path: Path) -> None:
    logged(tmp_path, chosen(0.0))
    code, out, _ = typed(*HOW, "mab_nc", "--name", "whole", "--watch")
    assert code == DONE and rows(out)[0]["unexplored"] == ["pacing"]
    assert typed(*HOW, "mab_nc", "--name", "parts", "--watch", "--outcomes", 3100)[0] == DONE
    assert typed("learn", "run", "--policy", "parts")[0] == DONE
    assert kept(tmp_path, "whole") == kept(tmp_path, "parts")


@pytest.mark.slow
def test_a_policy_does_not_forget_outcomes_that_are_gone(typed: Typed, tmp_path: Path) -> None:
    """A replay that is logged again after a kill takes its first log away: what was learned from it stays learned."""
    log = chosen(0.0)
    with Outcomes(tmp_path / "l.db") as store:
        store.begin_log("sim", '{"a":1}', log[:1000])
        store.begin_log("sim", "{}", log[1000:])
    assert typed(*HOW, "mab_nc", "--name", "left", "--outcomes", 1400)[0] == DONE
    with Outcomes(tmp_path / "l.db") as store:
        assert store.drop_logs('{"a":1}') == 1
    code, out, err = typed("learn", "run", "--policy", "left", "-f", "jsonl")
    assert code == DONE and rows(out)[0]["unexplored"] == [] and rows(out)[0]["learned"] == 8000
    assert "1000 of 1500 outcomes are gone: dead knobs are not searched for" in err
    assert decode(kept(tmp_path, "left")[0])["own"]["tally_"].count.sum() == 8000
