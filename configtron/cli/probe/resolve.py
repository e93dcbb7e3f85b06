# SPDX-License-Identifier: MIT
"""`configtron probe resolve`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import FILE
from configtron.cli.output import event_lines, say


@click.command(short_help="Look up the names of a list.")
@click.argument("words", metavar="[TARGET|@LIST]...", nargs=-1)
@click.option("-i", "--input-file", "files", type=FILE, multiple=True,
              help="Targets, one a line, as `probe run` reads.")  # fmt: skip
@click.option("-o", "--output-file", "output", type=FILE, required=True,
              help="Add lines to this file; what it has is not asked for again.")  # fmt: skip
@click.option("--resolver", default="", metavar="ADDRESS[:PORT]", help="Ask this server; else /etc/resolv.conf's.")
@click.option("--at-once", type=click.IntRange(1, 500), default=200, show_default=True, help="Most open questions.")
@click.option("-6", "only6", is_flag=True, help="IPv6 addresses in place of IPv4 ones.")
@click.option("-b", "--blocklist-file", "blocked", type=FILE, multiple=True, help="Names never to ask for.")
@click.option("-n", "--max-targets", type=click.IntRange(min=1), metavar="N", help="Look up only the first N.")
def resolve(words: tuple[str, ...], files: tuple[Path, ...], output: Path, resolver: str, at_once: int, only6: bool,
            blocked: tuple[Path, ...], max_targets: int | None) -> int:  # fmt: skip
    """Look up names, many at once, and write what `probe run -i` reads: IP, DOMAIN, TAG, PORT.

    Interrupt it and begin again with the same output file: it asks for what is missing.
    """
    from configtron.service import campaign

    targets = campaign.ProbeOptions(words, files, max_targets=max_targets, versions=(6,) if only6 else (4,),
                                    blocklist_files=blocked)  # fmt: skip
    done = campaign.resolve_targets(campaign.ResolveOptions(targets, output, resolver, at_once), progress=event_lines())
    say(f"{output}: {done.found} with an address, {done.missing} without, {done.known} known before")
    return done.exit_code
