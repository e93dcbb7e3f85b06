# SPDX-License-Identifier: MIT
"""What is typed at a terminal, on a database of a test's own with a small world beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from configtron.cli.outermost import run
from configtron.db.outcomes import Outcomes
from configtron.model.errors import DONE, USAGE
from configtron.model.tensor import write
from tests.support.worlds import small_tensor

# Words -> (exit code, stdout, stderr).
Typed = Callable[..., tuple[int, str, str]]
# Four classes, whose tables a bandit keeps.
MAB = ("learn", "run", "--policy", "mab_nc", "--classes", 4)


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "small.npz").open("wb") as file:
        write(small_tensor(), file)

    def run_command(*words: object) -> tuple[int, str, str]:
        code = run(["--db", str(tmp_path / "l.db"), *map(str, words)])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return run_command


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def shown(typed: Typed, *words: object) -> list[dict[str, Any]]:
    """The rows of a command that succeeds."""
    code, out, err = typed(*words, "-f", "jsonl")
    assert code == DONE, err
    return rows(out)


def refused(typed: Typed, says: str, *words: object) -> None:
    """A command ends in one line that says this, and prints nothing."""
    code, out, err = typed(*words)
    assert (code, out, err.count("\n")) == (USAGE, "", 1) and says in err, (words, err)


def brought(typed: Typed, outcomes: Iterable[object]) -> None:
    """Import outcomes as a log."""
    Path("o.jsonl").write_text("".join(json.dumps(one) + "\n" for one in outcomes))
    assert typed("learn", "import", "o.jsonl")[0] == DONE


def wanted(typed: Typed) -> dict[str, str]:
    """The prefixes that `tune` wants, with their profiles."""
    return {row["prefix"]: row["profile"] for row in shown(typed, "tune", "prefix", "list")}


def kept(folder: Path, name: str) -> tuple[str, str, list[object]]:
    """State, recipe and decisions of a saved policy."""
    with Outcomes(folder / "l.db") as store:
        found = store.learner(name)
        assert found is not None
        return found.state, found.recipe, list(store.decisions(name))


def replayed(typed: Typed, *words: object, sessions: int = 1500) -> list[dict[str, Any]]:
    """A small replay; its rows."""
    few = ("--tensor", "small.npz", "--sessions", sessions, "--classes", 5, "--update", 10, "-f", "jsonl")
    code, out, _ = typed("replay", "sessions", *few, *words)
    assert code == 0
    return rows(out)


@pytest.fixture
def filled(typed: Typed) -> Typed:
    """With a log of 1500 outcomes, decided by mab_nc."""
    replayed(typed, "--policy", "mab_nc", "--log")
    return typed
