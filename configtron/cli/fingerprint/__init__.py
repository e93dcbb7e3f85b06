# SPDX-License-Identifier: MIT
"""The verb `fingerprint`: its commands, one a file."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup, Row

ROWS = {
    "pcap": Row("configtron.cli.fingerprint.pcap", "pcap", "Read connections out of packet captures."),
    "diversity": Row("configtron.cli.fingerprint.diversity", "diversity", "Compare a run between regions: Table 2."),
    "live": Row(
        "configtron.cli.fingerprint.live",
        "live",
        "Watch an interface: what its connections tell of their clients' networks.",
    ),
    "socket": Row(
        "configtron.cli.fingerprint.socket", "socket", "Ask the kernel what it knows of this host's connections."
    ),
    "contexts": Row(
        "configtron.cli.fingerprint.contexts",
        "contexts",
        "Show the contexts that a watch kept; without WATCH, list the watches.",
    ),
}


@click.group(cls=LazyGroup, rows=ROWS, short_help="Tell how servers are configured, from recordings.")
def fingerprint() -> None:
    """Tell how servers are configured, and how their clients are connected, from what passes. No packet is sent."""
