"""The verb `fingerprint`: its commands, one a file."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup, Row

ROWS = {
    "pcap": Row("configtron.cli.fingerprint.pcap", "pcap", "Read connections out of packet captures."),
    "diversity": Row("configtron.cli.fingerprint.diversity", "diversity", "Compare a run between regions: Table 2."),
}


@click.group(cls=LazyGroup, rows=ROWS, short_help="Tell how servers are configured, from recordings.")
def fingerprint() -> None:
    """Tell how servers are configured, from recordings of other people's connections. No packet is sent."""
