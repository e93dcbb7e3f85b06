# SPDX-License-Identifier: MIT
"""The systemd units that watch a tuned stack and recover it after a crash (`configtron/tune/units.py`)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from configtron.linux.trust import others
from configtron.model.errors import BadInput
from configtron.tune.fleet_units import fleet_units
from configtron.tune.units import units

PROGRAM = "configtron"
# First folders that a unit hides (PrivateTmp), and those that agent, manager and `learn serve` do not see either
# (ProtectHome).
HIDDEN, HOMES = ("tmp",), ("root", "home")
ELSEWHERE = "install configtron elsewhere (docs/fleet.md: the package, or /opt/configtron)"


def chosen_units(name: str | None, database: Path | None, *, fleet: bool = False) -> dict[str, str]:
    """Return all units, or the one of that name, by file name. Errors: `BadInput`.

    They run this program as it is installed here, on that database.

    fleet  those of an agent and of a manager instead, which have databases of their own
    """
    named = [str(database.absolute())] if database else []
    found = fleet_units(program()) if fleet else units(program(), *named)
    if name is not None and name not in found:
        raise BadInput(f"no unit is called {name!r}; there is: {', '.join(found)}")
    return {each: text for each, text in found.items() if name in (None, each)}


def place_warning(place: str, *, homes: bool = False) -> str:
    """Return why services should not run a program from its place; "" if they may. homes: they see home folders."""
    why = others(Path(place), user=0)
    found = [f"{why}: a user who writes there becomes root by the service"] if why else []
    if Path(place).parts[1] in (HIDDEN if homes else HIDDEN + HOMES):
        found.append(f"{place}: the service does not see this folder and cannot start")
    return "; ".join([*found, ELSEWHERE]) if found else ""


def write_units(folder: Path, files: Mapping[str, str]) -> None:
    """Write units to a folder, which is made if absent. Errors: `BadInput`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror}; name another folder, or run as root") from error


def program() -> list[str]:
    """Return this configtron's command: the script beside this Python, else the one on the path, else the module."""
    beside = Path(sys.executable).parent / PROGRAM
    if beside.is_file():
        return [str(beside)]
    # -P: import nothing from the working directory of the service.
    return [found] if (found := shutil.which(PROGRAM)) else [sys.executable, "-P", "-m", PROGRAM]
