# SPDX-License-Identifier: MIT
"""Commands of `tune` as people type them, run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from configtron.cli.outermost import run
from configtron.cli.root import root
from configtron.model.errors import DONE
from configtron.service.lease import watchdog_process

Spoken = pytest.CaptureFixture[str]
TuneCommand = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken) -> TuneCommand:
    """Run a command of `tune`: its exit code, what it printed, its messages. No watchdogs: time does not pass here."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(watchdog_process, "start", lambda context, act: "")

    def tune_command(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["tune", *words])
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return code, found.out, found.err

    return tune_command


@pytest.fixture
def wanted(tune: TuneCommand) -> TuneCommand:
    """Two profiles, two prefixes, a default."""
    assert tune("profile", "set", "web", "initcwnd=20", "tcp_congestion_control=reno")[:2] == (DONE, "")
    assert tune("profile", "set", "small", "initcwnd=4")[0] == DONE
    assert tune("prefix", "set", "10.1.0.0/16", "2001:db8::/32", "web")[0] == DONE
    assert tune("prefix", "set", "default", "small")[0] == DONE
    return tune


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def refused(words: list[str]) -> list[str]:
    """Words of a command line that this program does not know."""
    command: click.Command = root
    wrong = []
    for word in words:
        if word.startswith("-"):
            known = {name for param in command.params for name in param.opts}
            wrong += [] if word in known else [word]
        elif isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word) or command
    return wrong + ([] if not isinstance(command, click.Group) else [f"no command in {words}"])
