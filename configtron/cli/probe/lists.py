"""`configtron probe lists`."""

from __future__ import annotations

import click


@click.command(short_help="Show the bundled target lists.")
@click.argument("name", required=False)
def lists(name: str | None) -> None:
    """Show the bundled target lists; with NAME, the targets in that list."""
    from configtron.cli.probe.plan import bundled, list_source
    from configtron.probe.targets import read

    if name is None:
        for known, about in bundled().items():
            click.echo(f"{known}\t{about}")
        return
    for target in read([list_source(name.removeprefix("@"))]):
        click.echo(target.host)
