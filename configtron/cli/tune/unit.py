# SPDX-License-Identifier: MIT
"""`configtron tune unit`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.output import say


@click.command(short_help="Print systemd units for the watch and for crash recovery.")
@click.argument("name", required=False)
@click.option("-o", "--output-folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Write the units as files to this folder: /etc/systemd/system.")  # fmt: skip
@click.option("--fleet", is_flag=True, help="The units of a fleet's agent and manager instead (docs/fleet.md).")
def unit(name: str | None, output_folder: Path | None, fleet: bool) -> None:
    """Print the systemd units that watch a tuned stack and recover it after a crash, or the one called NAME.

    They name this program by its absolute path, and the database of `--db`, else /var/lib/configtron/configtron.db:
    give the commands the same one. Nothing is enabled or started.
    """
    from configtron.service.lease.systemd_units import chosen_units, place_warning, program, write_units
    from configtron.tune.units import TIMER, WATCH

    chosen = chosen_units(name, click.get_current_context().find_root().params.get("db"), fleet=fleet)
    if warning := place_warning(program()[0], homes=not fleet):
        click.echo(warning, err=True)
    if output_folder is None:
        click.echo("\n".join(f"# {each}\n{text}" if name is None else text for each, text in chosen.items()), nl=False)
        return
    write_units(output_folder, chosen)
    started = " ".join(chosen if fleet else (WATCH, TIMER))
    say(f"written: {', '.join(chosen)}; next: systemctl daemon-reload && systemctl enable --now {started}")
