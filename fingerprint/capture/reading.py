# SPDX-License-Identifier: MIT
"""Files -> frames, a buffer at a time.

with opened(path) as source:
    for frames in read(source, counts): ...

Dropped: blocks that hold no packet of a network (names, journals, custom and unknown ones), as the format demands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from configtron.fingerprint.capture import native, packet_blocks, pcap
from configtron.fingerprint.capture.source import CaptureSource
from configtron.fingerprint.passive.columns import PADDING, Frames
from configtron.model import pcapng
from configtron.model.errors import BadInput

# Some thousand frames: their headers stay in a core's own cache between the steps, and a step costs more than its call.
# Both readers use it, so that both read a connection of more packets than are kept at once in the same parts.
BUFFER = 1 << 22
# The names of "broken" in the table of counts, and of the bytes that were not read for it.
CUT, BROKEN, LEFT = "cut-file", "malformed-record", "bytes-left"


class Buffer:
    """A window on a source: `data[at:end]` is not yet read. Frames are readable until the next ones are asked for."""

    def __init__(self, source: CaptureSource, size: int) -> None:
        self.source, self.size = source, size
        self.data = bytearray(size + PADDING)
        self._words: dict[str, memoryview] = {}
        self.at = self.end = 0

    def words(self, order: str) -> memoryview:
        """Return the buffer as 32-bit words."""
        if order not in self._words:
            self._words[order] = packet_blocks.words_of(self.data, order)
        return self._words[order]

    def more(self) -> bool:
        """Move the unread bytes to the front and fill up; return whether any bytes came."""
        self._words.clear()
        left = self.end - self.at
        if self.at or left == self.size:
            whole = self.data
            if not self.at:
                self.size *= 2
                self.data = bytearray(self.size + PADDING)
            with memoryview(whole) as old, memoryview(self.data) as new:
                new[:left] = old[self.at : self.end]
            self.at, self.end = 0, left
        with memoryview(self.data) as view:
            got = self.source.fill(view[self.end : self.size])
        self.end += got
        return got > 0

    def need(self, count: int) -> bool:
        """Have at least so many bytes unread, if the source has them."""
        while self.end - self.at < count and self.more():
            pass
        return self.end - self.at >= count

    def take(self, count: int) -> bytes:
        """Take the next bytes, as read."""
        taken = bytes(memoryview(self.data)[self.at : self.at + count])
        self.at += count
        return taken


def read(source: CaptureSource, counts: Counter[str], *, file: int = 0, name: str = "-", buffer: int = 0,
         keylog: list[str] | None = None) -> Iterator[Frames]:  # fmt: skip
    """Yield frames of one capture file, `buffer` bytes at a time (0: as many as is fast). The first key log that it
    carries is put into `keylog`."""
    window = Buffer(source, buffer or BUFFER)
    window.need(pcap.HEADER)
    head = bytes(memoryview(window.data)[: min(window.end, pcap.HEADER)])
    header = pcap.header_of(head)
    if header is not None:
        window.take(pcap.HEADER)
        yield from _pcap(window, header, counts, file)
    elif head[:4] == pcapng.SECTION.to_bytes(4, "little") and pcapng.order_of(head) is not None:
        yield from _Pcapng(window, counts, file, [] if keylog is None else keylog).frames()
    elif not head:
        raise BadInput(f"{name}: {'its compression is broken' if source.broken else 'empty'}, no capture")
    else:
        begins = head[:16].hex(" ", 4)
        raise BadInput(
            f"{name}: neither pcap 2.4 nor pcapng 1 (it begins with {begins}); editcap converts other captures"
        )
    if source.broken:
        counts[source.broken] += 1


def _pcap(window: Buffer, header: pcap.Header, counts: Counter[str], file: int) -> Iterator[Frames]:
    number = 1
    while True:
        found = native.pcap_records(window.data, window.at, window.end, header.order, header.unit_ns)
        if found is not None:
            columns, window.at, broken, bad_times = found
            counts[pcap.BAD_TIME] += bad_times
        else:
            records, window.at, broken = pcap.walk(window.data, window.at, window.end, header.order)
            columns = pcap.fields(window.data, records, header, counts)
        if (zeros := np.flatnonzero(~np.any(columns[1:], axis=0))).size:
            # Room that was kept behind the last record, and not used.
            window.at, broken = int(columns[0][zeros[0]]) - pcap.RECORD, True
            columns = tuple(column[: zeros[0]] for column in columns)  # type: ignore[assignment]
        if many := len(columns[0]):
            yield Frames(np.frombuffer(window.data, "B"), *columns, np.full(many, header.link, np.int64), number, file)
            number += many
        if broken or not window.more():
            break
    _count_end(window, counts, broken=broken)


class _Pcapng:
    """A pcapng file being read."""

    def __init__(self, window: Buffer, counts: Counter[str], file: int, keylog: list[str]) -> None:
        self.window, self.counts, self.file, self.keylog = window, counts, file, keylog
        self.section = pcapng.Section("<")
        self.number = 1
        # The drops that each interface of the section reports; the last report counts.
        self.dropped: dict[int, int] = {}

    def frames(self) -> Iterator[Frames]:
        """Yield frames, until the file ends or breaks."""
        window = self.window
        why = "block"
        while why != "broken":
            walked = native.pcapng_blocks(window.data, window.at, window.end, self.section.order)
            if walked is None:
                walked = packet_blocks.walk(window.words(self.section.order), window.at, window.end)
            window.at, why = walked.at, walked.why
            if len(walked.packets):
                columns = packet_blocks.fields(window.data, walked, self.section, self.counts)
                yield Frames(np.frombuffer(window.data, "B"), *columns, self.number, self.file)
                self.number += len(walked.packets)
            if why == "more" and not window.more():
                break
            if why == "block":
                why = self._block()
                if why == "end":
                    break
        self._count_drops()
        _count_end(window, self.counts, broken=why == "broken")

    def _count_drops(self) -> None:
        """Count what a section's statistics report beyond the drops that its packets name."""
        self.counts["dropped-by-capture"] += max(sum(self.dropped.values()) - self.section.dropped, 0)
        self.dropped.clear()

    def _block(self) -> str:
        """Read one block that is no packet: "" or "broken" or "end"."""
        window, section = self.window, self.section
        if not window.need(12):
            return "end"
        head = bytes(memoryview(window.data)[window.at : window.at + 14])
        if head[:4] == pcapng.SECTION.to_bytes(4, "little"):
            order = pcapng.order_of(head)
            if order is None:
                return "broken"
            self._count_drops()
            section = self.section = pcapng.Section(order)
        size = int.from_bytes(head[4:8], section.byteorder)  # type: ignore[arg-type]
        if size < 12 or size > packet_blocks.BLOCK_MOST or size & 3:
            return "broken"
        if not window.need(size):
            return "end"
        block = window.take(size)
        if block[-4:] != block[4:8]:
            return "broken"
        return self._read(int.from_bytes(block[:4], section.byteorder), block[8:-4])  # type: ignore[arg-type]

    def _read(self, kind: int, body: bytes) -> str:
        section = self.section
        if kind == pcapng.INTERFACE:
            about = pcapng.interface_of(body, section)
            if about is None or len(section.interfaces) >= packet_blocks.INTERFACES_MOST:
                return "broken"
            section.interfaces.append(about)
        elif kind == pcapng.SECRETS:
            # That there is one is enough; it is tshark that reads it.
            if not any(self.keylog):
                self.keylog[:] = [pcapng.keylog_of(body, section.byteorder)]
        elif kind == pcapng.STATISTICS and len(body) >= 12:
            interface = int.from_bytes(body[:4], section.byteorder)  # type: ignore[arg-type]
            if interface < len(section.interfaces):
                self.dropped[interface] = pcapng.dropped(body, section.byteorder)
        return ""


def _count_end(window: Buffer, counts: Counter[str], *, broken: bool) -> None:
    """Count how a file ends, and the bytes from there on: of a broken record and all behind it."""
    counts[BROKEN] += broken
    counts[CUT] += not broken and window.end > window.at
    while window.end > window.at:
        counts[LEFT] += len(window.take(window.end - window.at))
        window.more()
