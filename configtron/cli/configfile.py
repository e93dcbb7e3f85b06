# SPDX-License-Identifier: MIT
"""The configuration file: TOML tables named after commands, keys named after options.

db = "/var/lib/configtron/configtron.db"
[probe.run]
rate = 50
opt-out-file = "/etc/configtron/opt-out"
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from configtron.cli.configvalue import checked
from configtron.cli.options import options_of
from configtron.linux.xdg import default_config
from configtron.model.errors import BadInput

# Where a context keeps which file it was.
CONFIG_FILE = "configtron.config_file"


def load(path: Path | None, command: click.Command, ctx: click.Context) -> dict[str, Any]:
    """Defaults for Click, by command and parameter; the default file may be absent, a named one may not."""
    if path is None:
        path = default_config()
        if not path.is_file():
            return {}
    # Without a file no parser is loaded.
    import tomllib

    ctx.meta[CONFIG_FILE] = path
    try:
        with path.open("rb") as file:
            return _checked(tomllib.load(file), command, ctx, str(path))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not TOML: {error}") from error


def _checked(table: dict[str, Any], command: click.Command, ctx: click.Context, file: str, names: tuple[str, ...] = ()
             ) -> dict[str, Any]:  # fmt: skip
    where = f"{file}: [{'.'.join(names)}]" if names else f"{file}:"
    # Eager options (--config, --version) are over before the file is read.
    known = {name: option for name, option in options_of(command).items() if not option.is_eager}
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in known:
            # Click keeps defaults by parameter.
            found[str(known[name].name)] = checked(value, known[name], ctx, f"{where} {key}")
        elif isinstance(value, dict):
            inner = command.get_command(ctx, key) if isinstance(command, click.Group) else None
            if inner is None:
                raise BadInput(f"{where} [{key}] is no command here; `configtron --help` lists them")
            found[key] = _checked(value, inner, ctx, file, (*names, key))
        elif isinstance(command, click.Group) and command.get_command(ctx, key):
            table_name = ".".join((*names, key))
            raise BadInput(f"{where} {key} is a command; its options stand in a table of their own, [{table_name}]")
        else:
            raise BadInput(f"{where} {key} is no option here; known are {', '.join(sorted(known))}")
    return found
