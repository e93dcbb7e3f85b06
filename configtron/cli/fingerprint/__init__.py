# SPDX-License-Identifier: MIT
"""The verb `fingerprint` and its commands."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup

ROWS = {
    "pcap": "Read connections out of packet captures.",
    "diversity": "Compare a run between regions: Table 2.",
    "live": "Watch an interface: what its connections show of their clients' networks.",
    "socket": "Ask the kernel about this host's connections.",
    "contexts": "Show the contexts that a watch stored; without WATCH, list the watches.",
}


@click.group(cls=LazyGroup, package=__package__, rows=ROWS,
             homes={"watching": "live socket", "stored": "diversity contexts"})  # fmt: skip
def fingerprint() -> None:
    """Start with `configtron fingerprint pcap FILE`: it shows each connection of a packet capture.

    Find how servers are configured, and how their clients are connected, from traffic that passes. No packet is sent.
    """
