# SPDX-License-Identifier: MIT
"""`configtron probe regions`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import FILE, form_options


@click.command(short_help="Show the vantages to look from.")
@click.option("--vantages", type=FILE, help="TOML file of vantages.")
@form_options
def regions(vantages: Path | None, form: str, output_file: str) -> None:
    """Show the vantages in a file, checked; without one, the host itself."""
    from configtron.report.files import opened
    from configtron.report.vantages import write_vantages
    from configtron.service.campaign import ProbeOptions, vantages_of

    found = vantages_of(ProbeOptions(vantages=vantages))
    with opened(output_file) as out:
        write_vantages(found, form, out)
