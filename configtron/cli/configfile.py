"""The configuration file: TOML tables named after commands, keys named after options.

db = "/var/lib/configtron/configtron.db"
[probe.run]
rate = 50
opt-out-file = "/etc/configtron/opt-out"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click

from configtron.cli.lazy import options_of
from configtron.cli.settings import default_config
from configtron.errors import BadInput


def load(path: Path | None, command: click.Command, ctx: click.Context) -> dict[str, Any]:
    """Defaults for Click, by command and parameter; the default file may be absent, a named one may not."""
    if path is None:
        path = default_config()
        if not path.is_file():
            return {}
    try:
        with path.open("rb") as file:
            return _checked(tomllib.load(file), command, ctx, str(path))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not TOML: {error}") from error


def _checked(table: dict[str, Any], command: click.Command, ctx: click.Context, where: str) -> dict[str, Any]:
    known = options_of(command)
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if isinstance(value, dict):
            inner = command.get_command(ctx, key) if isinstance(command, click.Group) else None
            if inner is None:
                raise BadInput(f"{where}: [{key}] is no command here; `configtron --help` lists them")
            found[key] = _checked(value, inner, ctx, f"{where}: [{key}]")
        elif name in known:
            # Click keeps defaults by parameter.
            found[str(known[name].name)] = value
        else:
            raise BadInput(f"{where}: {key} is no option here; known are {', '.join(sorted(known))}")
    return found
