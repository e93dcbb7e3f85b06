"""The systemd units: they call commands that there are, with options that there are, and leave keepers alive."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import click
import pytest

from configtron.cli.root import root
from tests.test_layers import ROOT

UNITS = sorted((ROOT / "docs" / "systemd").iterdir())
SERVICES = [path for path in UNITS if path.suffix == ".service"]


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return parser


def refused(words: list[str]) -> list[str]:
    """Words of a command line that this program does not know."""
    command: click.Command = root
    wrong = []
    for word in words:
        if word.startswith("-"):
            known = {name for param in command.params for name in param.opts}
            wrong += [] if word in known else [word]
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            command = found or command
    return wrong + ([] if not isinstance(command, click.Group) else [f"no command in {words}"])


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_services_call_what_there_is(path: Path) -> None:
    service = unit(path)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == "configtron" and refused(words) == []
    # Where the commands of the documentation find it.
    assert service["StateDirectory"] == "configtron" and "/var/lib/configtron/configtron.db" in words
    assert service["KillMode"] == "process", "the end of the service would end the keepers"


def test_what_is_not_there_is_seen() -> None:
    assert refused(["--quiet", "tune", "recover"]) == []
    assert refused(["--quite", "tune", "recover"]) == ["--quite"]
    assert refused(["tune", "recover", "--forever"]) == ["--forever"]
    assert refused(["tune"]) and refused(["tune", "mend"])


def test_the_timer_has_its_service() -> None:
    timers = [path for path in UNITS if path.suffix == ".timer"]
    assert timers
    for path in timers:
        assert path.with_suffix(".service") in SERVICES
        assert unit(path)["Install"]["WantedBy"] == "timers.target"
