# SPDX-License-Identifier: MIT
"""`configtron fingerprint pcap`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import INPUT_FILE, form_of, page_options
from configtron.cli.output import say
from configtron.cli.param_types import NamedPath
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, PARTIAL, BadInput
from configtron.model.packages import missing
from configtron.report.files import opened


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...",
                type=NamedPath(exists=True, dir_okay=False, allow_dash=True))  # fmt: skip
@page_options
@click.option("--servers", is_flag=True, help="One row a server, from all its connections together.")
@click.option("--stream", is_flag=True,
              help="Report connections while the file is read, soon after their ends; memory does not grow. For "
              "traffic that passes now there is `fingerprint live`.")  # fmt: skip
@click.option("--keylog", type=INPUT_FILE,
              help="TLS secrets (SSLKEYLOGFILE), for ALPN and HTTP/2 settings; needs tshark, and files.")  # fmt: skip
def pcap(
    files: tuple[str, ...], form: str | None, output_file: str, servers: bool, stream: bool, keylog: Path | None
) -> int:
    """Read connections out of packet captures: pcap or pcapng, also compressed (gz, zst, lz4, xz, bz2); - is
    standard input.

    Several files are one capture, in whatever order they are named: packets count in the order of their times. Each
    connection is reported with what it shows about both sides, graded as in docs/fingerprint.md. What cannot be read
    is counted on standard error; some tunnels are read by Scapy, if it is installed. The page (-f html) adds pictures
    of the worst and largest connections. Exit code 3: a file was cut
    or broken, or frames could not be read; 4: no TCP in it.
    """
    from configtron.report.connections import counted, knobs_in, write_connections, write_servers
    from configtron.service.capture import CaptureReading

    form = form_of(form, output_file)
    if form == "html" and (servers or stream):
        raise BadInput("-f html draws connections, with all their segments; leave out --servers and --stream")
    reading = CaptureReading(files, stream=stream, keylog=keylog, lacks=missing)
    with opened(output_file) as out:
        if form == "html":
            from configtron.report.page.capture import page

            out.write(page(list(reading.batches(knobs_in(form))), reading.files, reading.counts, reading.warnings()))
        elif servers:
            write_servers(reading.connections(), form, out, color=settings().color)
        else:
            found = reading.batches(knobs_in(form))
            write_connections(found, reading.files, form, out, color=settings().color)
    say(counted(reading.counts))
    say(*(f"configtron: {text}" for text in reading.warnings()))
    if not reading.counts["connections"]:
        return NOTHING
    return DONE if reading.is_whole else PARTIAL
