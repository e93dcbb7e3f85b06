# SPDX-License-Identifier: MIT
"""An engine of an extra that is not installed: the command names the extra, and nothing is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from configtron.db.outcomes import Outcomes
from configtron.errors import Missing
from tests.cli.learn.typed import Typed, filled, typed

__all__ = ["filled", "typed"]


@pytest.mark.parametrize("engine", ["gpyopt", "gpyopt-classic"])
def test_learn_run_names_the_extra(filled: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str) -> None:
    monkeypatch.setitem(sys.modules, "GPyOpt", None)
    code, out, err = filled("learn", "run", "--policy", "configtron", "--engine", engine)
    assert (code, out) == (Missing.code, "") and "pip install 'configtron[gpyopt]'" in err
    with Outcomes(tmp_path / "l.db") as store:
        assert not store.learners()
