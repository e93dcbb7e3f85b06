# SPDX-License-Identifier: MIT
"""`configtron probe plan`."""

from __future__ import annotations

import click

from configtron.cli.options import Finite, form_options
from configtron.cli.probe.names import test_names
from configtron.model.choices import PROFILES, TESTS


@click.command(short_help="Show what a campaign would cost.")
@click.option("--top", "targets", type=click.IntRange(min=1), required=True, metavar="N", help="So many targets.")
@click.option("--vantages", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Each from so many regions.")  # fmt: skip
@click.option("--tests", default="", callback=test_names, metavar="T[,T]", help=f"Only these of {','.join(TESTS)}.")
@click.option("--profile", type=click.Choice(PROFILES), default="standard", show_default=True,
              help="How many connections to each target.")  # fmt: skip
@click.option("-r", "--rate", "rate_per_s", type=Finite(min=0), default=100.0, show_default=True,
              help="Connections started per second, all together; 0: no limit.")  # fmt: skip
@click.option("-c", "--concurrency", type=click.IntRange(min=1), default=1000, show_default=True,
              help="Targets under way at once.")  # fmt: skip
@form_options
def plan(form: str, output_file: str, targets: int, vantages: int, tests: tuple[str, ...], profile: str,
         rate_per_s: float, concurrency: int) -> None:  # fmt: skip
    """Show packets, bytes, hours and disk of a campaign, by unit costs that were measured in the lab.

    \b
        configtron probe plan --top 1000000 --vantages 20
    """
    from configtron.report.campaign_cost import write_cost
    from configtron.report.files import opened
    from configtron.service import campaign

    options = campaign.PlanOptions(targets, vantages, profile, tests, rate_per_s, concurrency)
    with opened(output_file) as out:
        write_cost(campaign.campaign_cost(options), form, out)
