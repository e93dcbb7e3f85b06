# SPDX-License-Identifier: MIT
"""`configtron fingerprint pcap`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.extras import missing
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, PARTIAL
from configtron.report.lines import opened

if TYPE_CHECKING:
    from configtron.fingerprint.passive.connection_report import ConnectionReport

FORMATS = ("table", "jsonl", "csv")


@click.command(short_help="Read connections out of packet captures.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...",
                type=click.Path(exists=True, dir_okay=False, allow_dash=True))  # fmt: skip
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the answer.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
@click.option("--servers", is_flag=True, help="One row a server: what all its connections say together.")
@click.option("--stream", is_flag=True,
              help="Tell connections while the file is read, soon after their ends; memory does not grow. For what "
              "passes now there is `fingerprint live`.")  # fmt: skip
@click.option("--keylog", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="TLS secrets (SSLKEYLOGFILE), for ALPN and HTTP/2 settings; needs tshark, and files.")  # fmt: skip
def pcap(files: tuple[str, ...], form: str, output_file: str, servers: bool, stream: bool, keylog: Path | None) -> int:
    """Read connections out of packet captures: pcap or pcapng, also compressed (gz, zst); - is standard input.

    Several files are one capture, in the order given. Each connection is told with both sides' windows, repeats and
    losses, and with what it shows about its server, graded as docs/grades.md says. What cannot be read is counted on
    standard error. Frames in tunnels (GRE, MPLS, PPPoE and more) are read by Scapy, if it is installed. Exit code 3: a
    file was cut or broken, or frames in it could not be read; 4: no TCP in it.
    """
    from configtron.report.connections import counted
    from configtron.service.capture import CaptureReading

    reading = CaptureReading(files, stream=stream, keylog=keylog, lacks=missing)
    with opened(output_file) as out:
        if servers:
            _servers(reading.connections(), form, out)
        else:
            _connections(reading.connections(), reading.files, form, out)
    if settings().loudness >= 0:
        click.echo(counted(reading.counts), err=True)
        for text in reading.warnings():
            click.echo(f"configtron: {text}", err=True)
    if not reading.counts["connections"]:
        return NOTHING
    return DONE if reading.is_whole else PARTIAL


def _connections(found: Iterable[ConnectionReport], files: list[str], form: str, out: TextIO) -> None:
    from configtron.report import connections, tables

    if form == "jsonl":
        connections.write_jsonl(found, files, out)
    elif form == "csv":
        connections.write_csv(found, files, out)
    else:
        made = connections.table(found)
        if made.row_count:
            tables.console(out, color=settings().color).print(made)


def _servers(found: Iterable[ConnectionReport], form: str, out: TextIO) -> None:
    from configtron.model.nouns import Vantage
    from configtron.report import lines, tables
    from configtron.report.connections import Servers

    servers = Servers()
    servers.take(found)
    verdicts = list(servers.found())
    vantages = {"capture": Vantage("capture", "capture")}
    if form == "jsonl":
        lines.write_jsonl(verdicts, vantages, out)
    elif form == "csv":
        lines.write_csv(verdicts, vantages, out)
    elif verdicts:
        tables.console(out, color=settings().color).print(tables.overview(verdicts))
