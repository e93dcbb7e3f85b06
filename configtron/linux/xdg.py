# SPDX-License-Identifier: MIT
"""Where data and settings of a user are, by the XDG base directory specification (version 0.8)."""

from __future__ import annotations

import os
from pathlib import Path


def default_db() -> Path:
    """Return the database that is used where none is named."""
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "configtron" / "configtron.db"


def default_config() -> Path:
    """Return the settings file that is read where none is named."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "configtron" / "config.toml"
