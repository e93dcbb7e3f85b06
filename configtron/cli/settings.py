# SPDX-License-Identifier: MIT
"""What holds for every command: where the database is, how loud to be, whether to use colour."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from configtron.linux.xdg import default_db


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


# The database of the units that this program writes: `tune.units`.
SERVICES_DB = Path("/var/lib/configtron/configtron.db")
# A command of ours within a text for people.
COMMAND = re.compile(r"\bconfigtron (?=(?:doctor|probe|fingerprint|tune|learn|replay)\b)")


def services_database(path: Path = SERVICES_DB) -> Path | None:
    """Return the database of this host's services if it can be read and the one in use is the user's own; else None."""
    return path if settings().db == default_db() and os.access(path, os.R_OK) else None


def hint(text: str) -> str:
    """Return a text for people with `--db` in its commands, where the database in use is not the default one. Errors
    get it in `outermost.py`; all other lines that name a command call it."""
    given = click.get_current_context(silent=True)
    found = given.find_root().obj if given is not None else None
    if not isinstance(found, Settings) or found.db == default_db():
        return text
    named = shlex.join(["configtron", "--db", str(found.db)])
    return COMMAND.sub(lambda _: f"{named} ", text)
