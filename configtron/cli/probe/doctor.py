# SPDX-License-Identifier: MIT
"""`configtron probe doctor`."""

from __future__ import annotations

import click

from configtron.cli.doctor import show_checks
from configtron.cli.options import form_options


@click.command(short_help="Show whether this host can probe and run the lab.")
@form_options
def doctor(form: str, output_file: str) -> int:
    """Check what probing and the lab need of this host; each row that is red has what to type next. It changes nothing.
    All of the product: `configtron doctor`. Exit code 1: a check is red.
    """
    from configtron.model.checks import red_first
    from configtron.service.campaign.probe_checks import lab_checks, probe_checks

    return show_checks(red_first([*probe_checks(), *lab_checks()]), form, output_file)
