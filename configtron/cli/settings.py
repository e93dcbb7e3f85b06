# SPDX-License-Identifier: MIT
"""What holds for every command: where the database is, how loud to be, whether to use colour."""

from __future__ import annotations

import re
import shlex
import sys
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


# A command of ours within a text for people.
COMMAND = re.compile(r"\bconfigtron (?=(?:doctor|probe|fingerprint|tune|learn|replay)\b)")

# A pip that installs this package, without a path.
PIP = re.compile(r"(?<![\w/])pip(?= install '?configtron\b)")


def hint(text: str) -> str:
    """Return a text for people as this process would be called: `--db` in its commands, where the database is not the
    default one, and the pip of this environment. `outermost.py` does it for errors; others call it.
    """
    own = Path(sys.prefix, "bin", "pip")
    if sys.prefix != sys.base_prefix and own.is_file():
        text = PIP.sub(lambda _: shlex.quote(str(own)), text)
    given = click.get_current_context(silent=True)
    found = given.find_root().obj if given is not None else None
    if not isinstance(found, Settings) or found.db == default_db():
        return text
    named = shlex.join(["configtron", "--db", str(found.db)])
    return COMMAND.sub(lambda _: f"{named} ", text)
