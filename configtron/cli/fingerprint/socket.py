# SPDX-License-Identifier: MIT
"""`configtron fingerprint socket`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.fingerprint.watch_display import exit_code, watch_options, watch_outputs
from configtron.cli.options import Finite


@click.command(short_help="Ask the kernel about this host's connections.")
@watch_options
@click.option("--port", "ports", type=click.IntRange(1, 65535), multiple=True, metavar="PORT",
              help="Only connections at this local port; may be repeated.")  # fmt: skip
@click.option("--follow", is_flag=True, help="Go on: each connection when it ends, open ones now and then.")
@click.option("--every", "every_s", type=Finite(min=0.1), default=10.0, show_default=True, metavar="SECONDS",
              help="How often open connections are reported while following.")  # fmt: skip
def socket(form: str, output_file: str, span: float | None, access_log: Path | None, places: tuple[Path, ...],
           ports: tuple[int, ...], follow: bool, every_s: float) -> int:  # fmt: skip
    """Ask the kernel about this host's TCP connections (tcp_info), and report contexts of their clients.

    Columns: docs/fingerprint.md. Contexts are stored with the client's prefix, not its address. With --follow or --for,
    every connection is also reported at the moment it ends. Nothing is sent, and no root is needed. Exit code 4: there
    was no connection.
    """
    from configtron.service import capture

    options = capture.SocketOptions(ports, follow, every_s, span, access_log, places)
    with watch_outputs(form, output_file) as (to, _):
        done = capture.watch_sockets(options, to)
    return exit_code(done)
