# SPDX-License-Identifier: MIT
"""`configtron tune` export, unit: configuration for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import output_option
from configtron.cli.output import say
from configtron.cli.param_types import NamedPath
from configtron.cli.settings import hint
from configtron.cli.tune.options import where_options
from configtron.cli.tune.resolved import lease_options
from configtron.model.choices import EXPORT_FORMS
from configtron.report.files import opened


@click.command()
@click.option("--as", "form", type=click.Choice(EXPORT_FORMS), required=True, help="Output syntax.")
@click.option("-6", "--ipv6", is_flag=True, help="iproute2: the IPv6 half, for ip -6 -batch.")
@where_options
@output_option
def export(form: str, ipv6: bool, output_file: str, **_: object) -> None:
    """Print the wanted profiles and prefixes as another tool's configuration. Nothing is changed.

    iproute2: what the driver route would make here, for `ip -batch -`; with -6 for `ip -6 -batch -`. networkd: sections
    for .network files. sysctl: the default profile, for sysctl.d. Comments name what a tool cannot express.
    """
    from configtron.service import lease

    lines = lease.export(lease_options(), form, ipv6=ipv6)
    with opened(output_file) as out:
        out.writelines(f"{hint(line)}\n" for line in lines)


@click.command()
@click.argument("name", required=False)
@click.option("-o", "--output-folder", type=NamedPath(file_okay=False, path_type=Path), metavar="FOLDER",
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
