# SPDX-License-Identifier: MIT
"""Bytes <-> TCP segments, for IPv4 and IPv6. Pure.

Rules for this file: any bytes may come in and nothing raises; bytes that cannot be TCP over IP give None. `dissect` and
`build` speak absolute sequence numbers, as the wire does; `Numbers` turns them into the relative ones of `Segment`. A
single function (`heard`) makes Packets of a frame, so a live capture and its saved file give the very same Packets.

Dropped: IPv4's options, IPv6's flow label, the urgent pointer, since no reading depends on them; checksums, which an
offload leaves unfinished.

A frame is one delivery of the capture socket: one wire segment, or several that an offload (GRO, TSO) had merged. The
kernel says how large the merged ones were (`gso_size`), and `heard` takes them apart again.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from struct import Struct
from typing import NamedTuple

from configtron.model.nouns import ACK, FIN, OPT_EOL, OPT_NOP, PSH, SYN, Packet, Segment

# Kept of a heard frame's payload when a segment script asks; an HTTP status line and the headers we read fit.
SNAP_PAYLOAD = 128

TCP = 6
# IPv6 extension headers that may stand before TCP (RFC 8200 4.1): hop-by-hop, routing, destination options, mobility,
# HIP, shim6. The fragment header has a layout of its own; AH (51) counts in 4-byte words.
_EXTENSIONS = frozenset((0, 43, 60, 135, 139, 140))
_FRAGMENT, _AUTHENTICATION = 44, 51
# More extension headers than any real packet carries: a crafted chain must end.
_EXTENSIONS_MOST = 8

_IPV4 = Struct("!BBHHHBBH4s4s")
_IPV6 = Struct("!IHBB16s16s")
_TCP = Struct("!HHIIBBHHH")


class Envelope(NamedTuple):
    """The fields of an IP packet around a segment. Addresses are packed (4 or 16 bytes)."""

    source: bytes
    destination: bytes
    source_port: int
    destination_port: int
    ttl: int = 64
    tos: int = 0
    ident: int = 0
    df: bool = True


class Dissected(NamedTuple):
    """A frame's headers, numbers absolute; payload is data[payload_at:payload_end], `length` bytes on the wire."""

    version: int
    source: bytes
    destination: bytes
    source_port: int
    destination_port: int
    ttl: int
    tos: int
    ident: int
    df: bool
    flags: int
    seq: int
    ack: int
    window: int
    options: tuple[tuple[int, bytes], ...]
    payload_at: int
    payload_end: int
    length: int


class Numbers:
    """Initial sequence numbers of one flow: absolute <-> relative.

    Theirs is the sequence number of the first SYN heard; before any, that of the first packet heard, so that a refusal
    reads as seq 0. Relative numbers are signed 32-bit distances: numbers before the SYN are negative. An
    acknowledgement number without the ACK flag means nothing and is left as it came (RFC 9293 3.1).
    """

    __slots__ = ("ours", "settled", "theirs")

    def __init__(self, ours: int) -> None:
        self.ours = ours
        self.theirs: int | None = None
        self.settled = False

    def hear(self, seq: int, flags: int) -> None:
        """Learn their initial number."""
        if self.settled:
            return
        if flags & SYN:
            self.theirs, self.settled = seq, True
        elif self.theirs is None:
            self.theirs = seq

    def of_ours(self, seq: int, ack: int, flags: int) -> tuple[int, int]:
        """Relative numbers of a segment that we sent."""
        return distance(seq, self.ours), distance(ack, self.theirs or 0) if flags & ACK else ack

    def of_theirs(self, seq: int, ack: int, flags: int) -> tuple[int, int]:
        """Relative numbers of a segment that we heard (after `hear`)."""
        return distance(seq, self.theirs or 0), distance(ack, self.ours) if flags & ACK else ack

    def absolute(self, segment: Segment) -> tuple[int, int]:
        """Return wire numbers of a segment that we send."""
        ack = segment.ack + (self.theirs or 0) if segment.flags & ACK else segment.ack
        return (segment.seq + self.ours) & 0xFFFFFFFF, ack & 0xFFFFFFFF


def distance(number: int, base: int) -> int:
    """Return the signed distance on the 32-bit circle."""
    return ((number - base + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def dissect(data: bytes, length: int | None = None) -> Dissected | None:
    """Return headers of an IP packet that carries TCP; None if it does not, or the headers are cut.

    `length` is the packet's original length, for captures that were snapped and for offloaded super-frames whose IP
    header cannot say how long they are (total length 0, RFC 2675 style).
    """
    if not data:
        return None
    version = data[0] >> 4
    if version == 4:
        return _dissect4(data, length)
    return _dissect6(data, length) if version == 6 else None


def _dissect4(data: bytes, length: int | None) -> Dissected | None:
    if len(data) < 40:
        return None
    first, tos, total, ident, fragment, ttl, protocol, _, source, destination = _IPV4.unpack_from(data)
    tcp_at = (first & 15) * 4
    if protocol != TCP or tcp_at < 20 or fragment & 0x1FFF:
        return None
    end = total or length or len(data)
    return _dissect_tcp(data, tcp_at, end, (4, source, destination), (ttl, tos, ident, bool(fragment & 0x4000)))


def _dissect6(data: bytes, length: int | None) -> Dissected | None:
    if len(data) < 60:
        return None
    word, payload, header, ttl, source, destination = _IPV6.unpack_from(data)
    at = 40
    for _ in range(_EXTENSIONS_MOST):
        if header == TCP:
            end = 40 + payload if payload else length or len(data)
            return _dissect_tcp(data, at, end, (6, source, destination), (ttl, word >> 20 & 0xFF, 0, False))
        if len(data) < at + 8:
            return None
        if header in _EXTENSIONS:
            size = 8 + data[at + 1] * 8
        elif header == _FRAGMENT and not int.from_bytes(data[at + 2 : at + 4], "big") & 0xFFF8:
            size = 8
        elif header == _AUTHENTICATION:
            size = 8 + data[at + 1] * 4
        else:
            return None
        header, at = data[at], at + size
    return None


def _dissect_tcp(
    data: bytes, at: int, end: int, ends: tuple[int, bytes, bytes], about: tuple[int, int, int, bool]
) -> Dissected | None:
    size, options_at = len(data), at + 20
    if size < options_at:
        return None
    (version, source, destination), (ttl, tos, ident, df) = ends, about
    source_port, destination_port, seq, ack, offset, flags, window, _, _ = _TCP.unpack_from(data, at)
    payload_at = at + (offset >> 4) * 4
    if not options_at <= payload_at <= min(size, end):
        return None
    options = read_options(data[options_at:payload_at]) if payload_at > options_at else ()
    # The low nibble of the offset byte: the bits that RFC 9293 reserves (and AccECN uses), kept above the eight flags.
    flags |= (offset & 15) << 8
    return Dissected(
        version, source, destination, source_port, destination_port, ttl, tos, ident, df,
        flags, seq, ack, window, options, payload_at, min(end, size), end - payload_at,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def read_options(data: bytes) -> tuple[tuple[int, bytes], ...]:
    """Return TCP options in wire order, as far as the list makes sense; each zero byte after the end is one more
    EOL."""
    options: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        kind = data[at]
        if kind in (OPT_EOL, OPT_NOP):
            if options and options[-1][0] == OPT_EOL and kind != OPT_EOL:
                break
            options.append((kind, b""))
            at += 1
            continue
        size = data[at + 1] if at + 1 < len(data) else 0
        if size < 2 or at + size > len(data) or (options and options[-1][0] == OPT_EOL):
            break
        options.append((kind, data[at + 2 : at + size]))
        at += size
    return tuple(options)


@lru_cache(maxsize=4096)
def write_options(options: tuple[tuple[int, bytes], ...]) -> bytes:
    """Return TCP options as bytes, padded with EOL to 32 bits."""
    parts = [bytes((k,)) if k in (OPT_EOL, OPT_NOP) else bytes((k, len(b) + 2)) + b for k, b in options]
    data = b"".join(parts)
    return data + bytes(-len(data) % 4)


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071): a number's remainder modulo 65535 is the one's complement sum of its
    words."""
    if len(data) % 2:
        data += b"\0"
    # A sum of zero only comes from all-zero data; any other multiple of 65535 folds to 0xFFFF.
    return 0xFFFF - ((int.from_bytes(data, "big") % 0xFFFF) or (0xFFFF if any(data) else 0))


def build(envelope: Envelope, segment: Segment, seq: int, ack: int) -> bytes:
    """Return the IP packet of a segment, with absolute numbers `seq` and `ack`."""
    options = write_options(segment.options)
    size = 20 + len(options)
    offset = size << 2 | segment.flags >> 8 & 15
    tcp = _TCP.pack(
        envelope.source_port, envelope.destination_port, seq, ack, offset, segment.flags & 0xFF, segment.window, 0, 0
    )
    body = options + segment.payload
    size = 20 + len(body)
    pseudo = envelope.source + envelope.destination + (TCP << 32 | size).to_bytes(8, "big")
    total = checksum(pseudo + tcp + body)
    tcp = tcp[:16] + total.to_bytes(2, "big") + tcp[18:] + body
    return (_header4 if len(envelope.source) == 4 else _header6)(envelope, size) + tcp


def _header4(e: Envelope, size: int) -> bytes:
    header = _IPV4.pack(0x45, e.tos, 20 + size, e.ident, 0x4000 if e.df else 0, e.ttl, TCP, 0, e.source, e.destination)
    return header[:10] + checksum(header).to_bytes(2, "big") + header[12:]


def _header6(e: Envelope, size: int) -> bytes:
    return _IPV6.pack(6 << 28 | e.tos << 20, size, TCP, e.ttl, e.source, e.destination)


def snapped(found: Dissected, data: bytes, gso_size: int) -> bytes:
    """Return the part of a frame that a segment script keeps: headers and the first payload bytes; small merged
    segments whole."""
    keep = found.length if 0 < gso_size <= SNAP_PAYLOAD else SNAP_PAYLOAD
    return data[: min(found.payload_end, found.payload_at + keep)]


def heard(found: Dissected, data: bytes, gso_size: int, numbers: Numbers, at: float, frame: int) -> list[Packet]:
    """Return the wire segments of a heard frame, as Packets with relative numbers. `data` may be snapped."""
    (version, _, _, _, _, ttl, tos, ident, df, flags, seq, ack, window, options, payload_at, _, length) = found
    if not numbers.settled:
        numbers.hear(seq, flags)
    seq, ack = numbers.of_theirs(seq, ack, flags)
    payload = data[payload_at : payload_at + length]
    if not gso_size or length <= gso_size:
        segment = Segment(flags, seq, ack, window, options, payload, length)
        return [Packet(at, "in", segment, frame, version, ttl, tos, ident, df)]
    # Segmentation puts FIN and PSH on the last segment only, and counts the IPv4 ident up (tcp_gso_segment()).
    early = flags & ~(FIN | PSH)
    packets = []
    for start in range(0, length, gso_size):
        size = min(gso_size, length - start)
        part = payload[start : start + size]
        last = start + size == length
        segment = Segment(flags if last else early, seq + start, ack, window, options, part, size)
        number = (ident + start // gso_size) & 0xFFFF if version == 4 else 0
        packets.append(Packet(at, "in", segment, frame, version, ttl, tos, number, df))
    return packets


def sent(data: bytes, numbers: Numbers, at: float, frame: int) -> Packet | None:
    """Return the Packet of a frame that we sent."""
    found = dissect(data)
    if found is None:
        return None
    seq, ack = numbers.of_ours(found.seq, found.ack, found.flags)
    payload = data[found.payload_at : found.payload_end]
    # Padding is ours to write (`write_options`), not the script's to say.
    options = found.options
    while options and options[-1][0] == OPT_EOL:
        options = options[:-1]
    segment = Segment(found.flags, seq, ack, found.window, options, payload, found.length)
    return Packet(at, "out", segment, frame, found.version, found.ttl, found.tos, found.ident, found.df)


# Addresses that are remembered: as many as connections are under way.
@lru_cache(maxsize=4096)
def packed(address: str) -> bytes:
    """Return an address's bytes, as an Envelope wants them."""
    return ip_address(address).packed
