# SPDX-License-Identifier: MIT
"""`configtron fingerprint` live, socket, contexts: watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from configtron.cli.options import (
    INPUT_FILE,
    filter_option,
    format_option,
    output_option,
    places_option,
    span_option,
    with_options,
)
from configtron.cli.output import say
from configtron.cli.param_types import Finite
from configtron.cli.probe.names import interface_name
from configtron.cli.settings import settings
from configtron.cli.tune.options import ports_option
from configtron.linux.signals import asked_to_stop
from configtron.model.errors import DONE, INTERRUPTED, NOTHING, BadInput

if TYPE_CHECKING:
    from configtron.service.capture import Outputs, WatchResult, WatchWriter

# The options of both commands.
watch_options = with_options(
    format_option(),
    output_option,
    span_option,
    click.option("--access-log", type=INPUT_FILE, help="Log of a web server (combined format), for devices."),
    places_option(", for ASN or country; may be repeated.", "databases"),
)  # fmt: skip


@contextmanager
def watch_outputs(form: str, output_file: str, *, silent: bool = False) -> Iterator[tuple[Outputs, WatchWriter]]:
    """Yield where a watch reports. Once it has begun, the first Ctrl-C, SIGTERM or SIGHUP cancels it, and a second one
    does not wait for it."""
    from configtron.service.capture import Outputs, WatchWriter

    with ExitStack() as stack:
        display = WatchWriter(form, output_file, stack, say, silent=silent)
        with asked_to_stop(lambda: display.begun) as stopping:
            yield Outputs(settings().db, display.ready, display.sink, display.progress, stopping), display


def exit_code(done: WatchResult) -> int:
    """Return the exit code of a watch that has ended."""
    return INTERRUPTED if done.cancelled else DONE if done.counts.get("connections") else NOTHING


@click.command()
@click.option("-i", "--interface", required=True, metavar="IFACE", callback=interface_name,
              help="Listen on this interface; needs root.")  # fmt: skip
@watch_options
@filter_option
@click.option("--window", "window_s", type=Finite(min=0.1), default=5.0, show_default=True, metavar="SECONDS",
              help="How often connections that ended or fell idle are reported.")  # fmt: skip
@click.option("--connections", is_flag=True,
              help="Print connections as `fingerprint pcap` does, not contexts; needs -f jsonl or csv.")  # fmt: skip
def live(form: str, output_file: str, connections: bool, **given: Any) -> int:
    """Watch an interface: what its connections show of their clients' networks.

    128 bytes of each TCP packet are read, no packet is sent. A connection is reported when it has ended or is idle,
    with the columns of docs/fingerprint.md. Contexts are stored with the client's prefix, not its address. Exit code 4:
    no connection was seen.
    """
    if connections and form == "table":
        raise BadInput("--connections has no table; name -f jsonl or -f csv")
    from configtron.report.connections import ConnectionLines
    from configtron.service import capture

    options = capture.LiveOptions(**given)
    with watch_outputs(form, output_file, silent=connections) as (to, display):
        lines = ConnectionLines(form, options.interface)
        printed = (lambda found: lines.write(found, display.out)) if connections else None
        done = capture.watch_interface(options, to, printed)
    return exit_code(done)


@click.command()
@watch_options
@ports_option("Only connections at this local port; may be repeated.", default=())
@click.option("--follow", is_flag=True, help="Go on: report each connection when it ends, and open ones at times.")
@click.option("--every", "every_s", type=Finite(min=0.1), default=10.0, show_default=True, metavar="SECONDS",
              help="How often open connections are reported while following.")  # fmt: skip
def socket(form: str, output_file: str, **given: Any) -> int:
    """Ask the kernel about this host's TCP connections (tcp_info), and report contexts of their clients.

    Columns: docs/fingerprint.md. Contexts are stored with the client's prefix, not its address. With --follow or --for,
    every connection is also reported at the moment it ends. Nothing is sent, and no root is needed. Exit code 4: there
    was no connection.
    """
    from configtron.service import capture

    with watch_outputs(form, output_file) as (to, _):
        return exit_code(capture.watch_sockets(capture.SocketOptions(**given), to))
