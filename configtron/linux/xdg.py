# SPDX-License-Identifier: MIT
"""Where data and settings of a user are, by the XDG base directory specification (version 0.8)."""

from __future__ import annotations

import os
from pathlib import Path

# The databases of the units that this program writes: `tune.units`, `tune.fleet_units`.
SERVICES_DB, MANAGERS_DB = Path("/var/lib/configtron/configtron.db"), Path("/var/lib/configtron-manager/configtron.db")
# An agent's file that names its manager: `tune.fleet_units`.
JOINED = Path("/var/lib/configtron-agent/manager.json")


def default_db() -> Path:
    """Return the database that is used where none is named."""
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "configtron" / "configtron.db"


def default_config() -> Path:
    """Return the settings file that is read where none is named."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "configtron" / "config.toml"


def services_database(used: Path, path: Path = SERVICES_DB) -> Path | None:
    """Return the database of this host's services if it can be read and the one in use is the user's own; else None."""
    return path if used == default_db() and os.access(path, os.R_OK) else None


def elsewhere(used: Path, words: str, path: Path = SERVICES_DB) -> str:
    """Return the command that asks the database of this host's services, to stand behind a sentence; "" for none."""
    found = services_database(used, path)
    return f"; of this host's service: configtron --db {found} {words}" if found else ""
