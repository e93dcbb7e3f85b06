# SPDX-License-Identifier: MIT
"""An address of a cluster that is empty, as of an unset variable, does not mean this host."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.model.errors import USAGE

COMMANDS = ("probe run --dry-run 192.0.2.1", "replay study lessons --smoke", "learn measure")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_address_is_refused(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", str(tmp_path / "x.db"), *command.split(), "--cluster", ""]) == USAGE
    message = capsys.readouterr()
    assert message.out == "" and message.err == "configtron: --cluster is empty; name something, or leave it out\n"
    assert [*tmp_path.iterdir()] == []


def test_without_the_option_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--db", str(tmp_path / "x.db"), "learn", "measure"])
    assert "nothing to measure" in capsys.readouterr().err
