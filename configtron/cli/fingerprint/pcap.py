# SPDX-License-Identifier: MIT
"""`configtron fingerprint pcap`."""

from __future__ import annotations

import gc
import sys
from itertools import chain, islice
from os.path import exists, samefile
from pathlib import Path

import click

from configtron.cli.options import INPUT_FILE, filter_option, form_of, page_options
from configtron.cli.output import event_lines, say
from configtron.cli.param_types import NamedPath
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, PARTIAL, BadInput
from configtron.model.packages import missing
from configtron.report.files import opened

# The number of new objects after which Python looks for cycles. A capture's many texts form none.
GARBAGE = 1 << 18


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...",
                type=NamedPath(exists=True, dir_okay=False, allow_dash=True))  # fmt: skip
@page_options
@click.option("--servers", is_flag=True, help="One row a server, from all its connections together.")
@filter_option
@click.option("--where", multiple=True, metavar="CONDITION",
              help="Only those with 'loss>1', 'server~^10\\.' or 'icw>=10'; may be repeated: all hold.")  # fmt: skip
@click.option("--sort", default="", metavar="COLUMN",
              help="Largest number or first text first.  [default: table worst first, else first frame]")  # fmt: skip
@click.option("--all", "every", is_flag=True, help="All connections in the table, not the first 40.")
@click.option("--connection", default="", metavar="FRAME",
              help="One connection, in whole: that whose first frame this is, as the table numbers it.")  # fmt: skip
@click.option("--keylog", type=INPUT_FILE,
              help="TLS secrets (SSLKEYLOGFILE), for ALPN and HTTP/2 settings; needs tshark, and files.")  # fmt: skip
def pcap(
    files: tuple[str, ...], form: str | None, output_file: str, servers: bool, expression: str, where: tuple[str, ...],
    sort: str, every: bool, connection: str, keylog: Path | None,
) -> int:  # fmt: skip
    """Read connections out of packet captures: pcap or pcapng, also compressed (gz, zst, lz4, xz, bz2); - is
    standard input.

    Several files are one capture, in whatever order they are named: packets count in the order of their times. Each
    connection is reported with what it shows about both sides, graded as in docs/fingerprint.md. What cannot be read
    is counted on standard error; some tunnels are read by Scapy, if it is installed. The page (-f html) adds pictures
    of the worst and largest connections; without it memory does not grow with the capture. Columns are those of
    -f csv, and client, server (with their ports), loss (the worse side's, in %), bytes and trouble
    (docs/fingerprint.md). Exit code 3: a file was cut or broken, or frames could not be read; 4: no TCP in it, or no
    connection that was asked for.
    """
    from configtron.report.connection_choice import ConnectionChoice
    from configtron.report.connections import counted, knobs_in, write_connections, write_servers
    from configtron.service.capture import CaptureReading
    from configtron.service.progress import unheard

    gc.set_threshold(GARBAGE)
    form = form_of(form, output_file)
    if servers and (sort or every or form == "html"):
        raise BadInput("--sort, --all and -f html are of connections; leave them out beside --servers")
    if output_file != "-" and exists(output_file) and any(one != "-" and samefile(one, output_file) for one in files):
        raise BadInput(f"-o {output_file}: this capture is being read; name another file")
    choice = ConnectionChoice.read(where, sort, connection, len(files), every=every)
    reading = CaptureReading(
        files, whole=form == "html", expression=expression, keylog=keylog, lacks=missing,
        progress=event_lines(closing=False) if sys.stderr.isatty() else unheard,
    )  # fmt: skip
    names = [name.encode(errors="backslashreplace").decode() for name in files]  # a file's name may be no text
    wanted = reading.batches(None if servers or connection else knobs_in(form))
    batches = iter(choice.of(wanted, names, reading.counts))
    # The output is opened behind the first of them, and behind the whole page: an error must not cost an older file.
    found = chain(list(islice(batches, 1)), batches)
    text = ""
    if form == "html":
        from configtron.report.page.capture import page

        text = page(list(found), names, reading.counts, reading.warnings(), choice)
    with opened(output_file) as out:
        if form == "html":
            out.write(text)
        elif servers:
            write_servers(found, form, out, color=settings().color)
        else:
            write_connections(found, names, form, out, choice, color=settings().color)
    say(counted(reading.counts))
    say(*(f"configtron: {text}" for text in reading.warnings()))
    if not reading.counts["chosen" if choice.narrows else "connections"]:
        if reading.counts["connections"]:
            say(f"configtron: {choice.unmet(connection)}")
        return NOTHING
    return DONE if reading.is_whole else PARTIAL
