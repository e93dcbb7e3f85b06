# SPDX-License-Identifier: MIT
"""`configtron tune export`."""

from __future__ import annotations

import click

from configtron.cli.options import output_option
from configtron.cli.settings import hint
from configtron.cli.tune.options import where_options
from configtron.cli.tune.resolved import lease_options

# `configtron.service.lease.export_syntax.FORMS`, written down here so that --help imports nothing.
FORMS = ("iproute2", "networkd", "sysctl")


@click.command(short_help="Print what is wanted as other tools' configuration.")
@click.option("--as", "form", type=click.Choice(FORMS), required=True, help="Output syntax.")
@click.option("-6", "--ipv6", is_flag=True, help="iproute2: the IPv6 half, for ip -6 -batch.")
@where_options
@output_option
def export(form: str, ipv6: bool, output_file: str, **_: object) -> None:
    """Print the wanted profiles and prefixes as another tool's configuration. Nothing is changed.

    iproute2: what the driver route would make here, for `ip -batch -`; with -6 for `ip -6 -batch -`. networkd: sections
    for .network files. sysctl: the default profile, for sysctl.d. Comments name what a tool cannot express.
    """
    from configtron.report.files import opened
    from configtron.service import lease

    lines = lease.export(lease_options(), form, ipv6=ipv6)
    with opened(output_file) as out:
        out.writelines(f"{hint(line)}\n" for line in lines)
