# SPDX-License-Identifier: MIT
"""What holds for every command: where the database is, how loud to be, whether to use colour."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import click


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options. `loudness` counts -v up and -q down from 0."""

    db: Path
    loudness: int = 0
    color: bool = True


def settings() -> Settings:
    """Return the settings of the command that is running."""
    found = click.get_current_context().find_root().obj
    assert isinstance(found, Settings)
    return found


# A command of ours within a text for people.
COMMAND = re.compile(r"\bconfigtron (?=(?:probe|fingerprint|tune|learn|replay)\b)")


def hint(text: str) -> str:
    """Return a text for people with `--db` in its commands, where the database in use is not the default one. Errors
    get it in `outermost.py`; all other lines that name a command call it."""
    given = click.get_current_context(silent=True)
    found = given.find_root().obj if given is not None else None
    if not isinstance(found, Settings) or found.db == default_db():
        return text
    named = shlex.join(["configtron", "--db", str(found.db)])
    return COMMAND.sub(lambda _: f"{named} ", text)


def default_db() -> Path:
    """Return where data is by the XDG base directory specification."""
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "configtron" / "configtron.db"


def default_config() -> Path:
    """Return where settings are by the XDG base directory specification."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "configtron" / "config.toml"
