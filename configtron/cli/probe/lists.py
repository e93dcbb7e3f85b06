# SPDX-License-Identifier: MIT
"""`configtron probe lists`."""

from __future__ import annotations

import click

from configtron.cli import completing
from configtron.cli.options import form_options


@click.command(short_help="Show the bundled target lists.")
@click.argument("name", required=False, shell_complete=completing.lists)
@form_options
def lists(name: str | None, form: str, output_file: str) -> None:
    """Show the bundled target lists; with NAME, the targets in that list."""
    from configtron.report.files import opened
    from configtron.report.rows import emit
    from configtron.service.lists import bundled, hosts_in

    rows: list[tuple[str, ...]]
    if name is None:
        schema, columns, rows = "configtron.lists/1", ["list", "about"], [*bundled().items()]
    else:
        schema, columns, rows = "configtron.targets/1", ["host"], [(host,) for host in hosts_in(name)]
    with opened(output_file) as out:
        if form == "table":
            out.writelines("\t".join(row) + "\n" for row in rows)
        else:
            emit(form, columns, rows, out, schema=schema)
