# SPDX-License-Identifier: MIT
"""`configtron probe lists`."""

from __future__ import annotations

import click

from configtron.cli import completing
from configtron.cli.tune.options import form_options


@click.command(short_help="Show the bundled target lists.")
@click.argument("name", required=False, shell_complete=completing.lists)
@form_options
def lists(name: str | None, form: str, output_file: str) -> None:
    """Show the bundled target lists; with NAME, the targets in that list."""
    from configtron.probe.targets import read
    from configtron.report.lines import opened, write_list
    from configtron.service.lists import bundled, list_source

    with opened(output_file) as out:
        if name is None:
            rows = list(bundled().items())
            if form == "table":
                out.writelines(f"{known}\t{about}\n" for known, about in rows)
            else:
                write_list("configtron.lists/1", ("list", "about"), rows, form, out)
            return
        hosts = [target.host for target in read([list_source(name.removeprefix("@"))])]
        if form == "table":
            out.writelines(f"{host}\n" for host in hosts)
        else:
            write_list("configtron.targets/1", ("host",), [(host,) for host in hosts], form, out)
