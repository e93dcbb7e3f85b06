# SPDX-License-Identifier: MIT
"""`configtron tune unit`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from configtron.cli.settings import settings
from configtron.model.errors import DONE, BadInput

PROGRAM = "configtron"


@click.command(short_help="Print systemd units for the watch and for crash recovery.")
@click.argument("name", required=False)
@click.option("-o", "--output-folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Write the units as files to this folder: /etc/systemd/system.")  # fmt: skip
def unit(name: str | None, output_folder: Path | None) -> int:
    """Print the systemd units that watch a tuned stack and recover it after a crash, or the one called NAME.

    They name this program by its absolute path, as it is installed here, and the database of `--db`, else
    /var/lib/configtron/configtron.db: give the commands the same one. The services may do what the drivers need and
    no more. Nothing is enabled or started.
    """
    from configtron.linux.trust import others
    from configtron.tune.units import TIMER, WATCH, units

    database = click.get_current_context().find_root().params.get("db")
    found = units(program(), *([str(Path(database).absolute())] if database else []))
    if name is not None and name not in found:
        raise BadInput(f"no unit is called {name!r}; there is: {', '.join(found)}")
    # The service runs as root.
    if why := others(Path(program()[0]), user=0):
        click.echo(f"{why}: whoever writes there becomes root by the service; install configtron elsewhere", err=True)
    chosen = {each: text for each, text in found.items() if name in (None, each)}
    if output_folder is None:
        click.echo("\n".join(f"# {each}\n{text}" if name is None else text for each, text in chosen.items()), nl=False)
        return DONE
    try:
        output_folder.mkdir(parents=True, exist_ok=True)
        for each, text in chosen.items():
            (output_folder / each).write_text(text)
    except OSError as error:
        raise BadInput(f"{output_folder}: {error.strerror}; name another folder, or run as root") from error
    if settings().loudness >= 0:
        click.echo(f"written: {', '.join(chosen)}; next: systemctl daemon-reload && systemctl enable --now {WATCH} "
                   f"{TIMER}", err=True)  # fmt: skip
    return DONE


def program() -> list[str]:
    """Return this configtron's command: the script beside this Python, else the one on the path, else the module."""
    beside = Path(sys.executable).parent / PROGRAM
    if beside.is_file():
        return [str(beside)]
    # -P: import nothing from the working directory of the service.
    return [found] if (found := shutil.which(PROGRAM)) else [sys.executable, "-P", "-m", PROGRAM]
