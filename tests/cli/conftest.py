# SPDX-License-Identifier: MIT
"""Fixtures of the tests of commands: a terminal with a database and a small world, no settings of the user."""

from pathlib import Path

import pytest

from tests.support.learn_command import filled, typed

__all__ = ["filled", "typed"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No settings or data of the user who runs the tests."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path
