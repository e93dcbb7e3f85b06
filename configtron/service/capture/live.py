# SPDX-License-Identifier: MIT
"""Watch an interface: the contexts of clients, from the packets of their connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from configtron.fingerprint.capture.diag import addresses
from configtron.fingerprint.capture.native import plain_segments
from configtron.fingerprint.capture.ring import Ring
from configtron.fingerprint.capture.surroundings import Surroundings
from configtron.fingerprint.features import plain
from configtron.fingerprint.passive.columns import Frames
from configtron.fingerprint.passive.connection_report import ConnectionReports, report_connections
from configtron.fingerprint.passive.gathering import Batch, Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.link import ETHERNET
from configtron.fingerprint.passive.local import sighted
from configtron.model.bounds import check_number, check_texts
from configtron.model.errors import Missing
from configtron.model.records import Json, canonical
from configtron.probe.wire.filter import DLT_ETHERNET, DLT_RAW
from configtron.service.capture.reading import gathering_of, packet_filter
from configtron.service.capture.watching import TURN_S, ContextWatch, Outputs, WatchResult, watching

# Ethernet, IPv6 and TCP headers with all their options, and the first words of what they carry.
SNAP_BYTES = 128
# No host sends longer extension headers than these; libpcap does not look behind them, so all are let through.
EXTENSIONS = " or ".join(f"ip6[6] = {kind}" for kind in (0, 43, 44, 51, 60, 135, 139, 140))
TCP = f"tcp or (ip6 and ({EXTENSIONS}))"
# VLAN tags come last: whatever stands behind the word is looked for behind the tag.
TAGGED = f"{TCP} or vlan"
# s between two reports, at least.
LEAST_WINDOW_S = 0.1
Connections = Callable[[ConnectionReports], None]


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """The options of a watch of an interface.

    expression  only these packets, as for tcpdump
    window_s    how often connections that ended or fell idle are reported
    span_s      stop after so many seconds; None: when cancelled
    access_log  a web server's log (combined format), for device classes
    databases   MaxMind-format files, for ASN and country
    """

    interface: str
    expression: str = ""
    window_s: float = 5.0
    span_s: float | None = None
    access_log: Path | None = None
    databases: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("window_s", self.window_s, LEAST_WINDOW_S)
        check_number("span_s", self.span_s, 0, beside=", or None until it is cancelled", absent=True)


def watch_interface(options: LiveOptions, to: Outputs, connections: Connections | None = None) -> WatchResult:
    """Watch an interface until the span is over or `to.cancelled`; `connections` gets each connection too.

    128 bytes of each TCP packet are read; no packet is sent. Errors: `BadInput` for a wrong expression or no such
    interface, `Missing` if the interface goes, `Refused` without the right to listen.
    """
    gathering = gathering_of(trips=True)
    surroundings = Surroundings(options.databases, options.access_log)
    about: dict[str, Json] = {
        "interface": options.interface,
        "filter": options.expression,
        "window_s": options.window_s,
    }
    ring = Ring(options.interface, partial(filter_program, options.expression))
    with ring, watching("live", options.interface, options.span_s, canonical(about), to) as watch:
        watch.counts = gathering.counts
        InterfaceListener(ring, gathering, surroundings, watch, connections).listen(options.window_s)
        return watch.close()


def filter_program(expression: str, link: int) -> bytes:
    """Return the kernel's filter. Errors: `BadInput`."""
    ethernet = link == ETHERNET
    every = TAGGED if ethernet else TCP
    both = f"({expression}) and ({every})" if expression else every
    return packet_filter(both, DLT_ETHERNET if ethernet else DLT_RAW, SNAP_BYTES)


class InterfaceListener:
    """Take packets from the ring, gather connections, report them."""

    def __init__(
        self,
        ring: Ring,
        gathering: Gathering,
        surroundings: Surroundings,
        watch: ContextWatch,
        connections: Connections | None,
    ) -> None:
        self._ring, self._gathering = ring, gathering
        self._surroundings, self._watch, self._connections = surroundings, watch, connections
        self._here: frozenset[str] = frozenset()

    def listen(self, window_s: float) -> None:
        """Report connections until the watch is over. Errors: `Missing` if the interface is gone."""
        watch, gathering = self._watch, self._gathering
        due_s = window_s
        gone: Missing | None = None
        self._refresh()
        while not watch.over() and gone is None:
            try:
                self._hear(due_s)
            except Missing as error:
                gone = error
            if watch.elapsed_s >= due_s:
                due_s = watch.elapsed_s + window_s
                self._refresh()
                self._report(gathering.lapse(self._ring.now_ns()))
                watch.report(gathering.open)
        if gone is None:
            # what had passed when the watch was over and the kernel still had; no more than a ring of it
            for frames in islice(self._ring.hear(TURN_S), self._ring.size.blocks):
                self._take(frames)
        self._refresh()
        self._report(gathering.finish())
        if gone is not None:
            raise gone

    def _hear(self, until_s: float) -> None:
        for frames in self._ring.hear(self._watch.wait_s(until_s)):
            self._take(frames)
            # However much comes: what is due is done.
            if self._watch.elapsed_s >= until_s or self._watch.over():
                break

    def _take(self, frames: Frames) -> None:
        gathering = self._gathering
        rows = decode(frames, gathering.pairs, gathering.heads, gathering.counts, native=plain_segments)
        self._report(gathering.take(rows))

    def _refresh(self) -> None:
        """Read again what may have changed: local addresses, files, what the kernel dropped."""
        self._here = frozenset(plain(address) for address in addresses())
        self._surroundings.read()
        self._gathering.counts["dropped-by-capture"] = self._ring.drops()
        if self._ring.unsure:
            self._gathering.counts["clock-step"] = self._ring.unsure

    def _report(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            lost = self._gathering.counts["dropped-by-capture"] > 0
            stepped, names, about = self._ring.unsure > 0, [self._ring.interface], self._surroundings.about
            # Sightings have no observations; connections, if they are asked for, have all.
            wanted = frozenset[str]() if self._connections is None else None
            found = report_connections(batch, names, tainted=lost, stepped=stepped, wanted=wanted)
            self._watch.keep([sighted(one, self._here, about, tainted=lost) for one in found.without_observations()])
            if self._connections is not None:
                self._connections(found)
