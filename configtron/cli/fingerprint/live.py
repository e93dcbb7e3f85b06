# SPDX-License-Identifier: MIT
"""`configtron fingerprint live`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.fingerprint.pcap import gathering_of
from configtron.cli.fingerprint.watching import TURN_S, watch_options, watching
from configtron.cli.probe.names import finite
from configtron.model.errors import BadInput, Missing
from configtron.report.lines import opened

if TYPE_CHECKING:
    from configtron.cli.fingerprint.watching import Watch
    from configtron.fingerprint.capture.ring import Ring
    from configtron.fingerprint.capture.surroundings import Surroundings
    from configtron.fingerprint.passive.columns import Frames
    from configtron.fingerprint.passive.connection_report import ConnectionReport
    from configtron.fingerprint.passive.gathering import Batch, Gathering

# Ethernet, IPv6 and TCP headers with all their options, and the first words of what they carry.
SNAP_BYTES = 128
# Longer extension headers than these nobody sends; libpcap does not look behind them, so all are let through.
EXTENSIONS = " or ".join(f"ip6[6] = {kind}" for kind in (0, 43, 44, 51, 60, 135, 139, 140))
TCP = f"tcp or (ip6 and ({EXTENSIONS}))"
# VLAN tags come last: whatever stands behind the word is looked for behind the tag.
TAGGED = f"{TCP} or vlan"


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
    gathering = gathering_of(stream=True, trips=True)
    from configtron.fingerprint.capture.ring import Ring
    from configtron.fingerprint.capture.surroundings import Surroundings
    from configtron.model.records import canonical
    from configtron.report.contexts import SightingWriter

    surroundings = Surroundings(places, access_log)
    config = canonical({"interface": interface, "filter": only or "", "window_s": window_s})
    ring = Ring(interface, partial(_program, only))
    with ring, opened(output_file) as out:
        printed = _Connections(form, interface, out) if connections else None
        with watching("live", interface, span, config, SightingWriter(form, out, silent=connections)) as watch:
            watch.counts = gathering.counts
            _Post(ring, gathering, surroundings, watch, printed).listen(window_s)
    return watch.code


def _program(only: str | None, link: int) -> bytes:
    """The kernel's filter."""
    from configtron.fingerprint.passive.link import ETHERNET
    from configtron.probe.wire.filter import DLT_ETHERNET, DLT_RAW, compile_filter

    ethernet = link == ETHERNET
    every = TAGGED if ethernet else TCP
    try:
        expression = f"({only}) and ({every})" if only else every
        return compile_filter(expression, link=DLT_ETHERNET if ethernet else DLT_RAW, snap=SNAP_BYTES)
    except ValueError as error:
        raise BadInput(f"--filter: {str(error).rpartition(': ')[2]}; it is written as for tcpdump") from error


class _Connections:
    """Prints connections as they are told, as `pcap` does."""

    def __init__(self, form: str, interface: str, out: TextIO) -> None:
        self._form, self._files, self._out = form, [interface], out
        self._headed = False

    def write(self, told: list[ConnectionReport]) -> None:
        """A line each."""
        from configtron.report.connections import write_csv, write_jsonl

        if self._form == "jsonl":
            write_jsonl(told, self._files, self._out)
        else:
            write_csv(told, self._files, self._out, header=not self._headed)
        self._headed = True
        self._out.flush()


class _Post:
    """Listens, gathers, tells."""

    def __init__(self, ring: Ring, gathering: Gathering, surroundings: Surroundings, watch: Watch,
                 printed: _Connections | None) -> None:  # fmt: skip
        self._ring, self._gathering = ring, gathering
        self._surroundings, self._watch, self._printed = surroundings, watch, printed
        self._here: frozenset[str] = frozenset()

    def listen(self, window_s: float) -> None:
        """Tell connections until the watch is over, or the interface is gone."""
        watch, gathering = self._watch, self._gathering
        due_s = window_s
        gone: Missing | None = None
        self._look()
        while not watch.over() and gone is None:
            try:
                self._hear(due_s)
            except Missing as error:
                gone = error
            if watch.elapsed_s >= due_s:
                due_s = watch.elapsed_s + window_s
                self._look()
                self._tell(gathering.lapse(self._ring.now_ns()))
                watch.progress(gathering.open)
        if gone is None:
            self._drain()
        self._look()
        self._tell(gathering.finish())
        if gone is not None:
            raise gone

    def _hear(self, until_s: float) -> None:
        for frames in self._ring.hear(self._watch.wait_s(until_s)):
            self._take(frames)
            # However much comes: what is due is done.
            if self._watch.elapsed_s >= until_s or self._watch.over():
                break

    def _drain(self) -> None:
        """What had passed when the watch was over, and the kernel had not handed over; no more than a ring of it."""
        from configtron.fingerprint.capture.ring import BLOCKS

        for frames in islice(self._ring.hear(TURN_S), BLOCKS):
            self._take(frames)

    def _take(self, frames: Frames) -> None:
        from configtron.fingerprint.passive.headers import decode

        gathering = self._gathering
        rows = decode(frames, gathering.pairs, gathering.heads, gathering.counts)
        self._tell(gathering.take(rows))

    def _look(self) -> None:
        """What may have changed meanwhile."""
        from configtron.fingerprint.capture.diag import addresses
        from configtron.fingerprint.features import plain

        self._here = frozenset(plain(address) for address in addresses())
        self._surroundings.read()
        self._gathering.counts["dropped-by-capture"] = self._ring.drops()
        if self._ring.unsure:
            self._gathering.counts["clock-step"] = self._ring.unsure

    def _tell(self, batches: Iterable[Batch]) -> None:
        from configtron.fingerprint.passive.connection_report import report_connections
        from configtron.fingerprint.passive.local import sighted

        for batch in batches:
            lost = self._gathering.counts["dropped-by-capture"] > 0
            stepped = self._ring.unsure > 0
            found = list(report_connections(batch, [self._ring.interface], tainted=lost, stepped=stepped))
            about = self._surroundings.about
            self._watch.keep([sighted(one, self._here, about, tainted=lost) for one in found])
            if self._printed is not None:
                self._printed.write(found)
