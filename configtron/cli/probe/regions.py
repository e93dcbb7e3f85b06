"""`configtron probe regions`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Show the vantages to look from.")
@click.option("--vantages", type=click.Path(path_type=Path, dir_okay=False), help="TOML file of vantages.")
def regions(vantages: Path | None) -> None:
    """Show the vantages in a file, checked; without one, the host itself."""
    from configtron.cli.probe.options import ProbeOptions
    from configtron.cli.probe.plan import vantages_of

    for found in vantages_of(ProbeOptions(vantages=vantages)):
        where = f"namespace {found.netns}" if found.netns else "the host's own namespace"
        more = "".join(
            f", {word} {value}"
            for word, value in (
                ("by", found.interface),
                ("from", found.source_address),
                ("from", found.source_address6),
                ("resolver", found.resolver),
            )
            if value
        )
        click.echo(f"{found.name}\t{found.region}\t{where}{more}")
