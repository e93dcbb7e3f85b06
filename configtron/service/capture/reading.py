# SPDX-License-Identifier: MIT
"""Read connections out of packet captures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from os.path import getsize, isfile
from pathlib import Path

import numpy as np

from configtron.fingerprint.capture import native
from configtron.fingerprint.capture.dissect import Dissector
from configtron.fingerprint.capture.pcap import BAD_TIME
from configtron.fingerprint.capture.reading import BROKEN, CUT, LEFT, read
from configtron.fingerprint.capture.source import CaptureSource, opened
from configtron.fingerprint.capture.tshark import opened_by
from configtron.fingerprint.passive.columns import ABSENT, FILE_SHIFT, Endpoint, Frames, Rows
from configtron.fingerprint.passive.connection_report import ConnectionReport, ConnectionReports, report_connections
from configtron.fingerprint.passive.gathering import ALWAYS, MOST, NOT_READ, Batch, Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.link import UPPER_PDU
from configtron.fingerprint.passive.traces import DecryptedMessage
from configtron.fingerprint.passive.tunnel_headers import OPENED
from configtron.model.bounds import check_text
from configtron.model.errors import BadInput, Missing, file_errors
from configtron.model.records import Json
from configtron.model.wording import count_of
from configtron.report.connection_json import form
from configtron.service.progress import Progress, StepProgress, unheard

# A line of a key log: which secret, the client's random number, the secret.
SECRET = re.compile(r"[A-Z][A-Z0-9_]* [0-9a-fA-F]{16,} [0-9a-fA-F]{16,}\s*$")
# How the names of counts begin of what was not read, or not whole: of a file, a record, a packet.
UNREAD = ("cut-", "malformed-")
# Enough for the first packet of a capture.
LOOK_BYTES = 1 << 16
Lacks = Callable[[ModuleNotFoundError], object]
Taken = Callable[[Frames, CaptureSource], Frames]
# Counts of frames that something was found in, beside the totals; and of files.
FOUND = frozenset((*OPENED, LEFT, CUT, BROKEN, "frames", "tcp", "connections", "dissected", "longer-than-frame",
                   "out-of-order", "out-of-order-us", "clock-step"))  # fmt: skip
_SEALED = "is encrypted; capture where it is not: on the tunnel's own interface, or behind its end"
# Link types that are not read.
_LINKS = {
    143: "DOCSIS", 149: "PKTAP", 187: "Bluetooth", 189: "USB", 195: "802.15.4", 197: "ERF", 201: "Bluetooth",
    220: "USB", 227: "CAN", 230: "802.15.4", 249: "USB", 253: "netlink", 254: "Bluetooth", 258: "PKTAP",
}  # fmt: skip
# What a counter's frames are, and what to do.
REMEDIES = {
    "quic": "QUIC (UDP port 443) is encrypted, and no TCP; it is not read", "esp": f"IPsec {_SEALED}",
    "wireguard": f"WireGuard (UDP port 51820) {_SEALED}", "openvpn": f"OpenVPN (UDP port 1194) {_SEALED}",
    "macsec": "MACsec is not read, encrypted or not; capture behind it",
    "fragment": "IP fragments are not put together; capture where packets are whole",
    "cut-header": "packets are cut within their headers; capture more of each (without tcpdump's -s)",
    **{f"link-type-{link}": f"{name} is not read; capture Ethernet or IP" for link, name in _LINKS.items()},
    **dict.fromkeys(("link-type-105", "link-type-127"), "802.11 is encrypted; capture on the host, or on Ethernet"),
}  # fmt: skip


class CaptureReading:
    """The connections of captures, read once.

    counts      what was read, and what was not, by name; complete when all connections have been read
    """

    def __init__(
        self, files: Sequence[str], *, whole: bool = False, expression: str = "", keylog: Path | None = None,
        lacks: Lacks = str, progress: Progress = unheard,
    ) -> None:  # fmt: skip
        """Several files are one capture, in whatever order, by the times of their packets; "-" is standard input.

        whole       keep all segments until the end: one batch, and memory grows
        expression  only the packets that pass this filter, as for tcpdump
        keylog      TLS secrets (SSLKEYLOGFILE); needs tshark, and files
        lacks       import error -> a sentence that says how to install Scapy, which reads frames in tunnels
        progress    gets the bytes of the files that are read

        Errors: `BadInput` for a key log that has no secret.
        """
        check_text("files", list(files))
        check_text("expression", expression)
        check_text("keylog", keylog)
        if keylog is not None:
            _check_keylog(keylog, files)
        self.files = list(files)
        self._gathering = gathering_of(whole=whole)
        self._keys, self._dissect = _TlsKeys(files, keylog), Dissector(lacks)
        # The filter by link layer, as far as it was needed; the bytes of the files, and those read of each.
        self._expression, self._programs = expression, dict[int, bytes]()
        self._progress, self._read = progress, dict[int, int]()
        self._size = sum(getsize(path) for path in files if isfile(path))

    def connections(self, wanted: frozenset[str] | None = None) -> Iterator[ConnectionReport]:
        """Yield each connection; `wanted`: observations of these knobs only, which is faster.

        Errors: `BadInput` for a file that is no capture, `Missing` for lack of a program.
        """
        for reports in self.batches(wanted):
            with file_errors():
                yield from reports

    def batches(self, wanted: frozenset[str] | None = None) -> Iterator[ConnectionReports]:
        """Yield the same connections as they end, many together: in columns."""
        with file_errors():
            for batch in batches_of(self._gathering, self.files, self._dissect, self._keys.carried, self._taken):
                yield report_connections(
                    batch, self.files, tainted=self.counts["dropped-by-capture"] > 0, wanted=wanted,
                    unread=self._gathering.unread > 0, opener=self._keys.open, stepped=self.counts[BAD_TIME] > 0,
                )  # fmt: skip
                del batch  # its memory is needed for the next

    def _taken(self, frames: Frames, source: CaptureSource) -> Frames:
        """Report the progress; return the frames, those that do not pass the filter as frames that hold nothing."""
        if isfile(self.files[frames.file]):
            self._read[frames.file] = source.place()
            self._progress(StepProgress(sum(self._read.values()) // 10**6, self._size // 10**6, "capture", "MB"))
        if not self._expression:
            return frames
        # It loads every probe.
        from configtron.probe.wire.filter import FROM_FILES, passing

        links = frames.link.copy()
        for link in np.unique(links[(links >= 0) & (links != UPPER_PDU)]).tolist():
            if link not in self._programs:
                self._programs[link] = packet_filter(self._expression, FROM_FILES.get(link, link))
            rows = np.flatnonzero(frames.link == link)
            places = zip(*(column[rows].tolist() for column in (frames.start, frames.length, frames.kept)), strict=True)
            links[rows[~np.array(passing(self._programs[link], frames.data.ctypes.data, places), bool)]] = ABSENT
        self.counts["filtered"] += int(np.count_nonzero(links != frames.link))
        return frames._replace(link=links)

    @property
    def counts(self) -> Counter[str]:
        """Return what was read so far."""
        return self._gathering.counts

    @property
    def is_whole(self) -> bool:
        """Return whether every file was read to its end, and every frame."""
        return not (self._gathering.unread or any(name.startswith(UNREAD) for name in +self.counts))

    def warnings(self) -> list[str]:
        """Return why TLS keys were not used, which frames were not read, and what to do, a sentence each."""
        found = [self._keys.unused] if self._keys.unused else []
        kinds = sorted(name.removeprefix("unread-") for name in +self.counts if name.startswith(NOT_READ))
        if unread := self._gathering.unread:
            frames = f"{count_of(unread, 'frame')} {'was' if unread == 1 else 'were'}"
            cost = f"{frames} not read ({', '.join(kinds)}), so no connection counts as whole"
            found.append(f"{cost}; {self._dissect.missing}" if self._dissect.missing else cost)
        rest = {name: many for name, many in self.counts.items() if name not in FOUND and many}
        if rest and self.counts["frames"] and not unread and not self.counts["tcp"]:
            kinds.append(max(rest, key=lambda name: rest[name]))
            found.append(f"no TCP: most frames are {kinds[-1]} ({rest[kinds[-1]]} of {self.counts['frames']})")
        if self.counts[CUT] and not self.counts["frames"]:
            found.append("no TCP: the capture ends within its first packet (cut-file); capture again")
        return found + [f"{kind}: {REMEDIES[kind]}" for kind in dict.fromkeys(kinds) if kind in REMEDIES]


class CutCapture(BadInput):
    """A capture that is not read to its end."""


def connection_forms(path: str, lacks: Lacks = str, *, whole: bool = False) -> list[dict[str, Json]]:
    """Return every connection of one capture as JSON Lines have it. Errors: `BadInput`, `Missing`; with `whole`,
    `CutCapture`."""
    reading = CaptureReading((path,), lacks=lacks)
    found = sorted(reading.connections(), key=lambda one: one.frame)
    if whole and (cut := (+reading.counts).keys() & {CUT, BROKEN}):
        raise CutCapture(f"{path}: {', '.join(cut)}: the connections at its end are not whole; capture again")
    return [form(one, [path]) for one in found]


def packet_filter(expression: str, link: int, snap: int | None = None) -> bytes:
    """Return the program of a filter for that link layer, by libpcap's number; snap: kept bytes of a frame, None: all.

    Errors: `BadInput`.
    """
    from configtron.probe.wire.filter import SNAPLEN, compile_filter

    try:
        return compile_filter(expression, link=link, snap=snap or SNAPLEN)
    except ValueError as error:
        raise BadInput(f"--filter: {str(error).rpartition(': ')[2]}; it is written as for tcpdump") from error


def gathering_of(*, whole: bool = False, trips: bool = False) -> Gathering:
    """Return an empty `Gathering`; `whole`: it keeps all segments; `trips`: it also takes round trips of data."""
    return Gathering(None if whole else MOST, trips=trips, passes=native.passes())


def batches_of(
    gathering: Gathering, files: Sequence[str], dissect: Dissector, keylog: list[str] | None = None,
    taken: Taken = lambda frames, source: frames,
) -> Iterator[Batch]:  # fmt: skip
    """Yield batches of connections that have ended; `keylog` takes the TLS secrets that the files carry, `taken`
    returns what is read of some frames."""
    # A file is opened when its first packet is due; a tie is read in the order given.
    due = [
        (_first_ns(path) if len(files) > 1 else 0, number, _rows_of(number, path, gathering, dissect, keylog, taken))
        for number, path in enumerate(files)
    ]
    heapify(due)
    while due:
        _, number, parts = heappop(due)
        if (rows := next(parts, None)) is not None:
            heappush(due, (int(rows.at.max()), number, parts))
            # Frames of later files stand behind those of one that is not at its end.
            since = (min(number for _, number, _ in due) + 1) << FILE_SHIFT
            for batch in gathering.take(rows, min((at for at, other, _ in due if other != number), default=ALWAYS)):
                yield batch._replace(since=min(batch.since, since))
                del batch
    yield from gathering.finish()


def _rows_of(
    number: int, path: str, gathering: Gathering, dissect: Dissector, keylog: list[str] | None, taken: Taken
) -> Iterator[Rows]:
    with opened(path) as source:
        for frames in read(source, gathering.counts, file=number, name=path, keylog=keylog):
            rows = decode(
                taken(frames, source), gathering.pairs, gathering.heads, gathering.counts, dissect,
                native.plain_segments,
            )  # fmt: skip
            if rows is not None:
                yield rows


def _first_ns(path: str) -> int:
    """Return the time of a file's first packet; 0 if it has none, or can be read only once."""
    if not isfile(path):
        return 0
    with opened(path) as source:
        return next((int(frames.at[0]) for frames in read(source, Counter(), name=path, buffer=LOOK_BYTES)), 0)


def _check_keylog(keylog: Path, files: Sequence[str]) -> None:
    if "-" in files:
        raise BadInput("--keylog: tshark opens TLS, and it reads files; write what comes on standard input to one")
    try:
        with keylog.open(errors="replace") as lines:
            found = any(SECRET.match(line) for line in lines)
    except OSError as error:
        raise BadInput(f"{keylog}: {error.strerror}") from error
    if not found:
        raise BadInput(f"{keylog}: no TLS secret in it; a key log is what clients write where SSLKEYLOGFILE says")


class _TlsKeys:
    """Keys of TLS: a key log, or carried by the captures. tshark opens a file once, when it is first needed."""

    def __init__(self, files: Sequence[str], keylog: Path | None) -> None:
        self.files, self.keylog = files, keylog
        self.carried: list[str] = []
        self._opened: dict[int, dict[tuple[Endpoint, Endpoint], list[DecryptedMessage]]] = {}
        # Why keys that a capture carries open nothing.
        self.unused = ""

    def open(self, file: int, client: Endpoint, server: Endpoint, first: int, last: int) -> list[DecryptedMessage]:
        """Return the server's messages in that connection, between those frames."""
        if not (self.keylog or any(self.carried)):
            return []
        if file not in self._opened:
            self._opened[file] = self._opened_of(self.files[file])
        return [one for one in self._opened[file].get((client, server), ()) if first <= one.frame <= last]

    def _opened_of(self, path: str) -> dict[tuple[Endpoint, Endpoint], list[DecryptedMessage]]:
        if path == "-":
            self.unused = "the keys that standard input carries are not used: tshark reads files"
            return {}
        try:
            return opened_by(path, self.keylog)
        except Missing as error:
            # A key log that was named is wanted; a capture that happens to carry keys is read without.
            if self.keylog is not None:
                raise
            self.unused = f"the keys that {path} carries are not used: {error}"
            return {}
