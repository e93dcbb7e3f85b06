# SPDX-License-Identifier: MIT
"""`configtron fingerprint live`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from configtron.cli.fingerprint.watch_display import exit_code, watch_options, watch_outputs
from configtron.cli.probe.names import finite
from configtron.model.errors import BadInput

if TYPE_CHECKING:
    from configtron.cli.fingerprint.watch_display import WatchDisplay
    from configtron.fingerprint.passive.connection_report import ConnectionReport


@click.command(short_help="Watch an interface: what its connections tell of their clients' networks.")
@click.option("-i", "--interface", required=True, metavar="IFACE", help="Listen here; needs root.")
@watch_options
@click.option("--filter", "only", metavar="EXPRESSION", help="Only these packets, in tcpdump's words: 'port 443'.")
@click.option("--window", "window_s", type=click.FloatRange(min=0.1), default=5.0, show_default=True,
              metavar="SECONDS", callback=finite,
              help="How often connections that ended or fell idle are told.")  # fmt: skip
@click.option("--connections", is_flag=True,
              help="Print connections as `fingerprint pcap` does, not contexts; needs -f jsonl or csv.")  # fmt: skip
def live(interface: str, form: str, output_file: str, span: float | None, access_log: Path | None,
         places: tuple[Path, ...], only: str | None, window_s: float, connections: bool) -> int:  # fmt: skip
    """Watch an interface: what its connections tell of their clients' networks.

    128 bytes of each TCP packet are read, no packet is sent. A connection is told when it has ended or fallen idle:
    round trip, least round trip, jitter, loss, delivery rate, a lower bound of the bandwidth; with files, device, ASN
    and country. Contexts are kept in the database, with the client's prefix but not its address. How many packets the
    kernel had to drop is told at the end. Exit code 4: no connection was seen.
    """
    if connections and form == "table":
        raise BadInput("--connections has no table; name -f jsonl or -f csv")
    from configtron.service import capture

    options = capture.LiveOptions(interface, only or "", window_s, span, access_log, places)
    with watch_outputs(form, output_file, silent=connections) as (to, display):
        printed = ConnectionLines(form, interface, display).write if connections else None
        done = capture.watch_interface(options, to, printed)
    return exit_code(done)


class ConnectionLines:
    """Write connections as they are reported, as `pcap` does."""

    def __init__(self, form: str, interface: str, display: WatchDisplay) -> None:
        self._form, self._files, self._display = form, [interface], display
        self._headed = False

    def write(self, found: list[ConnectionReport]) -> None:
        """Write a line each."""
        from configtron.report.connections import write_csv, write_jsonl

        out = self._display.out
        if self._form == "jsonl":
            write_jsonl(found, self._files, out)
        else:
            write_csv(found, self._files, out, header=not self._headed)
        self._headed = True
        out.flush()
