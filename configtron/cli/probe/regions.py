# SPDX-License-Identifier: MIT
"""`configtron probe regions`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.tune.options import form_options

REGION_COLUMNS = ("name", "region", "netns", "interface", "source_address", "source_address6", "resolver")


@click.command(short_help="Show the vantages to look from.")
@click.option("--vantages", type=click.Path(path_type=Path, dir_okay=False), help="TOML file of vantages.")
@form_options
def regions(vantages: Path | None, form: str, output_file: str) -> None:
    """Show the vantages in a file, checked; without one, the host itself."""
    from configtron.report.lines import opened, write_list
    from configtron.service.campaign import ProbeOptions, vantages_of

    every = vantages_of(ProbeOptions(vantages=vantages))
    with opened(output_file) as out:
        if form != "table":
            rows = [[str(getattr(found, name) or "") for name in REGION_COLUMNS] for found in every]
            write_list("configtron.regions/1", REGION_COLUMNS, rows, form, out)
            return
        for found in every:
            where = f"namespace {found.netns}" if found.netns else "the host's own namespace"
            by = (("by", found.interface), ("from", found.source_address), ("from", found.source_address6),
                  ("resolver", found.resolver))  # fmt: skip
            more = "".join(f", {word} {value}" for word, value in by if value)
            out.write(f"{found.name}\t{found.region}\t{where}{more}\n")
