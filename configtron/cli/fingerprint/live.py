# SPDX-License-Identifier: MIT
"""`configtron fingerprint live`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.fingerprint.watch_display import exit_code, watch_options, watch_outputs
from configtron.cli.options import Finite
from configtron.cli.probe.names import interface_name
from configtron.model.errors import BadInput


@click.command(short_help="Watch an interface: what its connections show of their clients' networks.")
@click.option("-i", "--interface", required=True, metavar="IFACE", callback=interface_name,
              help="Listen on this interface; needs root.")  # fmt: skip
@watch_options
@click.option("--filter", "only", metavar="EXPRESSION", help="Only these packets, in tcpdump's words: 'port 443'.")
@click.option("--window", "window_s", type=Finite(min=0.1), default=5.0, show_default=True, metavar="SECONDS",
              help="How often connections that ended or fell idle are reported.")  # fmt: skip
@click.option("--connections", is_flag=True,
              help="Print connections as `fingerprint pcap` does, not contexts; needs -f jsonl or csv.")  # fmt: skip
def live(interface: str, form: str, output_file: str, span: float | None, access_log: Path | None,
         places: tuple[Path, ...], only: str | None, window_s: float, connections: bool) -> int:  # fmt: skip
    """Watch an interface: what its connections show of their clients' networks.

    128 bytes of each TCP packet are read, no packet is sent. A connection is reported when it has ended or is idle,
    with the columns of docs/fingerprint.md. Contexts are stored with the client's prefix, not its address. Exit code 4:
    no connection was seen.
    """
    if connections and form == "table":
        raise BadInput("--connections has no table; name -f jsonl or -f csv")
    from configtron.report.connections import ConnectionLines
    from configtron.service import capture

    options = capture.LiveOptions(interface, only or "", window_s, span, access_log, places)
    with watch_outputs(form, output_file, silent=connections) as (to, display):
        lines = ConnectionLines(form, interface)
        printed = (lambda found: lines.write(found, display.out)) if connections else None
        done = capture.watch_interface(options, to, printed)
    return exit_code(done)
