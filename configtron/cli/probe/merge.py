# SPDX-License-Identifier: MIT
"""`configtron probe merge`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import INPUT_FILE
from configtron.cli.output import event_lines, say
from configtron.cli.settings import settings


@click.command(short_help="Add the runs of other machines.")
@click.argument("files", nargs=-1, required=True, type=INPUT_FILE, metavar="DATABASE...")
@click.option("--as-one", default="", metavar="NAME", help="All become one run of this name: vantages of one campaign,"
              " or parts of one list (--shards).")  # fmt: skip
@click.option("--no-packets", is_flag=True, help="Leave their packets where they are.")
def merge(files: tuple[Path, ...], as_one: str, no_packets: bool) -> None:
    """Add the runs of other databases, with their packets, to this one (--db).

    What is here already is not added again: a merge that was interrupted, or whose runs have grown, is repeated.
    """
    from configtron.service import campaign

    options = campaign.MergeOptions(files, as_one, packets=not no_packets)
    for done in campaign.merge(options, settings().db, progress=event_lines()):
        say(done.text)
