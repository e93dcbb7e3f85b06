# SPDX-License-Identifier: MIT
"""`configtron fingerprint pcap`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, PARTIAL, BadInput, Missing
from configtron.report.lines import opened as opened_output

if TYPE_CHECKING:
    from configtron.fingerprint.capture.dissect import Dissector
    from configtron.fingerprint.passive.columns import Endpoint
    from configtron.fingerprint.passive.connection_report import ConnectionReport
    from configtron.fingerprint.passive.gathering import Batch, Gathering
    from configtron.fingerprint.passive.traces import DecryptedMessage
    from configtron.model.records import Json

FORMATS = ("table", "jsonl", "csv")
# A line of a key log: which secret, the client's random number, the secret.
SECRET = re.compile(r"[A-Z][A-Z0-9_]* [0-9a-fA-F]{16,} [0-9a-fA-F]{16,}\s*$")
# Counts that say that a part of a file was not read.
UNREAD = ("cut-file", "malformed-record", "cut-compression")


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
    if keylog is not None:
        _check(keylog, files)
    gathering = gathering_of(stream=stream)
    secrets, dissect = _Secrets(files, keylog), dissector()
    told = _reported(_batches(gathering, files, secrets, dissect), list(files), gathering, secrets)
    with opened_output(output_file) as out:
        if servers:
            _servers(told, form, out)
        else:
            _connections(told, list(files), form, out)
    from configtron.report.connections import counted

    if settings().loudness >= 0:
        click.echo(counted(gathering.counts), err=True)
        if secrets.unused:
            click.echo(f"configtron: {secrets.unused}", err=True)
        if gathering.unread:
            click.echo(f"configtron: {_unread(gathering, dissect)}", err=True)
    if not gathering.counts["connections"]:
        return NOTHING
    return PARTIAL if gathering.unread or any(gathering.counts[name] for name in UNREAD) else DONE


def _unread(gathering: Gathering, dissect: Dissector) -> str:
    """Which frames nobody could read, and what helps."""
    from configtron.fingerprint.passive.gathering import NOT_READ

    kinds = sorted(name.removeprefix("unread-") for name in gathering.counts if name.startswith(NOT_READ))
    cost = f"{gathering.unread} frames were not read ({', '.join(kinds)}), so no connection counts as whole"
    return f"{cost}; {dissect.missing}" if dissect.missing else cost


def dissector() -> Dissector:
    """Scapy, once a frame asks for it."""
    from configtron.cli.extras import missing
    from configtron.fingerprint.capture.dissect import Dissector

    return Dissector(missing)


def _check(keylog: Path, files: tuple[str, ...]) -> None:
    if "-" in files:
        raise BadInput("--keylog: tshark opens TLS, and it reads files; write what comes on standard input to one")
    with keylog.open(errors="replace") as lines:
        if not any(SECRET.match(line) for line in lines):
            raise BadInput(f"{keylog}: no TLS secret in it; a key log is what clients write where SSLKEYLOGFILE says")


class _Secrets:
    """Keys of TLS: named by the user, or carried by the captures. tshark opens a file once, when it is first asked."""

    def __init__(self, files: tuple[str, ...], keylog: Path | None) -> None:
        self.files, self.keylog = files, keylog
        self.carried: list[str] = []
        self._opened: dict[int, dict[tuple[Endpoint, Endpoint], list[DecryptedMessage]]] = {}
        # Why keys that a capture carries open nothing.
        self.unused = ""

    def open(self, file: int, client: Endpoint, server: Endpoint, first: int, last: int) -> list[DecryptedMessage]:
        """What the server said in that connection."""
        if not (self.keylog or any(self.carried)):
            return []
        if file not in self._opened:
            self._opened[file] = self._opened_of(self.files[file])
        return [said for said in self._opened[file].get((client, server), ()) if first <= said.frame <= last]

    def _opened_of(self, path: str) -> dict[tuple[Endpoint, Endpoint], list[DecryptedMessage]]:
        from configtron.fingerprint.capture.tshark import opened_by

        if path == "-":
            self.unused = "the keys that standard input carries are not used: tshark reads files"
            return {}
        try:
            return opened_by(path, self.keylog)
        except Missing as error:
            # Who names a key log wants it used; a capture that happens to carry keys is read without.
            if self.keylog is not None:
                raise
            self.unused = f"the keys that {path} carries are not used: {error}"
            return {}


def gathering_of(*, stream: bool, trips: bool = False) -> Gathering:
    """Where rows are gathered."""
    from configtron.fingerprint.passive.gathering import MOST, Gathering

    return Gathering(MOST if stream else None, trips=trips)


def _batches(gathering: Gathering, files: tuple[str, ...], secrets: _Secrets, dissect: Dissector) -> Iterator[Batch]:
    from configtron.fingerprint.capture.reading import read
    from configtron.fingerprint.capture.source import opened
    from configtron.fingerprint.passive.headers import decode

    for number, path in enumerate(files):
        with opened(path) as source:
            for frames in read(source, gathering.counts, file=number, name=path, keylog=secrets.carried):
                rows = decode(frames, gathering.pairs, gathering.heads, gathering.counts, dissect)
                yield from gathering.take(rows)
    yield from gathering.finish()


def _reported(
    batches: Iterable[Batch], files: list[str], gathering: Gathering, secrets: _Secrets
) -> Iterator[ConnectionReport]:
    from configtron.fingerprint.passive.connection_report import report_connections

    for batch in batches:
        lost = gathering.counts["dropped-by-capture"] > 0
        yield from report_connections(batch, files, tainted=lost, unread=gathering.unread > 0, opener=secrets.open)


def forms_of(path: str) -> list[dict[str, Json]]:
    """Every connection of one capture, as a line of JSON has it. Errors: `BadInput`, `Missing`."""
    from configtron.report.connections import form

    gathering, files = gathering_of(stream=False), (path,)
    secrets = _Secrets(files, None)
    told = _reported(_batches(gathering, files, secrets, dissector()), [path], gathering, secrets)
    return [form(one, [path]) for one in told]


def _connections(told: Iterable[ConnectionReport], files: list[str], form: str, out: TextIO) -> None:
    from configtron.report import connections, tables

    if form == "jsonl":
        connections.write_jsonl(told, files, out)
    elif form == "csv":
        connections.write_csv(told, files, out)
    else:
        made = connections.table(told)
        if made.row_count:
            tables.console(out, color=settings().color).print(made)


def _servers(told: Iterable[ConnectionReport], form: str, out: TextIO) -> None:
    from configtron.model.nouns import Vantage
    from configtron.report import lines, tables
    from configtron.report.connections import Servers

    servers = Servers()
    servers.take(told)
    found = list(servers.found())
    vantages = {"capture": Vantage("capture", "capture")}
    if form == "jsonl":
        lines.write_jsonl(found, vantages, out)
    elif form == "csv":
        lines.write_csv(found, vantages, out)
    elif found:
        tables.console(out, color=settings().color).print(tables.overview(found))
