# SPDX-License-Identifier: MIT
"""`configtron learn report`."""

from __future__ import annotations

import click

from configtron.cli.options import output_option
from configtron.cli.output import say
from configtron.cli.settings import settings


@click.command(short_help="Write the gain of a fleet's map as a page.")
@output_option
@click.option("--rows", type=int, default=200_000, metavar="N", help="Read the latest N outcomes.  [default: 200000]")
def report(output_file: str, rows: int) -> None:
    """Write the gain of a fleet's map as one HTML page: against the control group, with intervals; which prefix gets
    which profiles; the roll-out, drift, data quality, each map with the command that restores it, each agent's map.

    The page needs no network and no script. It claims nothing where data do not allow it: docs/learn.md explains it.
    Needs the extra `learn`. Exit code 2: there is no database, or it is damaged; 5: the extra is missing.
    """
    from configtron.report.files import opened
    from configtron.report.page.loop_page import render, verdict
    from configtron.service.learning import fleet_report

    found = fleet_report.report(fleet_report.ReportOptions(settings().db, rows))
    with opened(output_file) as out:
        out.write(render(found))
    say(verdict(found))
