# SPDX-License-Identifier: MIT
"""The pcapng file format (draft-ietf-opsawg-pcapng): its blocks, their options, and packets as we write them.

Rules for this file: blocks that others write are read in either byte order and any resolution of time (`Section`,
`interface_of`, `options`); we write little-endian, nanoseconds, every length padded to 32 bits. Files are arguments.
Dropped: of a section its length and minor version, since blocks are walked; of an interface its name, filter, speed,
zone and checksum's length (if_fcslen), since IP says where a packet ends; of statistics all but drops.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple

SECTION, INTERFACE, OLD_PACKET, SIMPLE, STATISTICS, PACKET, SECRETS = 0x0A0D0D0A, 1, 2, 3, 5, 6, 10
_MAGIC_LITTLE, _MAGIC_BIG = b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"
LINKTYPE_RAW, LINKTYPE_UPPER_PDU = 101, 252
# A section of this byte order, version 1.0, of unknown length.
SECTION_BODY = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
# Options: end, comment, if_name, if_tsresol (9: nanoseconds), epb_flags (1 inbound, 2 outbound), if_tsoffset;
# isb_ifdrop and isb_osdrop, which lost different packets.
_END, _COMMENT, _NAME, _RESOLUTION, _FLAGS, _OFFSET, _DROPPED = 0, 1, 2, 9, 2, 14, (5, 7)
_WAYS = {"in": 1, "out": 2}
_WAY_OF = {1: "in", 2: "out"}
# TLS key log ("TLSK"), as NSS writes it.
_TLS_KEY_LOG = 0x544C534B
# Tags of an exported PDU (Wireshark, epan/exported_pdu.h).
_TAG_END, _TAG_PROTOCOL, _TAG_PORT_TYPE, _TAG_SOURCE_PORT, _TAG_DESTINATION_PORT, _PORT_TCP = 0, 12, 24, 25, 26, 2
_TAGS_ADDRESSES = {4: (20, 21), 16: (22, 23)}
# An Enhanced Packet Block up to its data, and its end: flags, the end of the options, the block's size again.
_EPB, _EPB_HEAD, _EPB_TAIL = struct.Struct("<IIIII"), struct.Struct("<IIIIIII"), struct.Struct("<HHIII")
_EPB_EMPTY_BYTES = _EPB_HEAD.size + _EPB_TAIL.size
_PADDINGS = (b"", bytes(3), bytes(2), bytes(1))
# A block is at most this long: a super-frame of 512 kB, its comments, and much room. More is a broken file.
_BLOCK_MOST = 1 << 26


class Block(NamedTuple):
    """One block; `end` is where the next begins."""

    kind: int
    body: bytes
    offset: int
    end: int


class Captured(NamedTuple):
    """A packet with its block's fields."""

    interface: int
    at_ns: int
    data: bytes
    length: int
    way: str
    comments: tuple[str, ...]


@dataclass(slots=True)
class Interface:
    """The fields of an interface block. A second has `units` ticks of the stamps, unless `shift` says 2^shift."""

    link: int
    snap: int
    units: int = 1_000_000
    shift: int | None = None
    offset_s: int = 0


@dataclass(slots=True)
class Section:
    """A section that is being read: its byte order, its interfaces so far, the drops that its packets have named."""

    order: str
    interfaces: list[Interface] = field(default_factory=list)
    dropped: int = 0

    @property
    def byteorder(self) -> str:
        """As `int.from_bytes` names it."""
        return "little" if self.order == "<" else "big"


End = tuple[bytes, int]  # packed address, port


def section(interfaces: Sequence[tuple[str, int]]) -> bytes:
    """Return a section's opening: its header and its interfaces (name, link type)."""
    parts = [_block(SECTION, SECTION_BODY)]
    for name, linktype in interfaces:
        body = struct.pack("<HHI", linktype, 0, 0) + _options(((_NAME, name.encode()), (_RESOLUTION, b"\x09")))
        parts.append(_block(INTERFACE, body))
    return b"".join(parts)


def packet(one: Captured) -> bytes:
    """Return an Enhanced Packet Block."""
    interface, at_ns, data, length, way, comments = one
    middle = _padded(data)
    if comments:
        middle += b"".join([_option(_COMMENT, comment.encode()) for comment in comments])
    size = _EPB_EMPTY_BYTES + len(middle)
    head = _EPB_HEAD.pack(PACKET, size, interface, at_ns >> 32, at_ns & 0xFFFFFFFF, len(data), length)
    return head + middle + _EPB_TAIL.pack(_FLAGS, 4, _WAYS[way], _END, size)


def captured(body: bytes) -> Captured:
    """Return the packet of an Enhanced Packet Block's body."""
    interface, high, low, kept, length = _EPB.unpack_from(body)
    way, comments = "in", []
    for code, value in options(body, 20 + kept + -kept % 4, "little"):
        if code == _COMMENT:
            comments.append(value.decode())
        elif code == _FLAGS:
            way = _WAY_OF[value[0] & 3]
    return Captured(interface, high << 32 | low, body[20 : 20 + kept], length, way, tuple(comments))


def secrets(keylog: str) -> bytes:
    """Return a Decryption Secrets Block of TLS key log lines."""
    data = keylog.encode()
    return _block(SECRETS, struct.pack("<II", _TLS_KEY_LOG, len(data)) + _padded(data))


def exported(protocol: str, source: End, destination: End, data: bytes) -> bytes:
    """Return application bytes as an exported PDU, with its sender, its receiver and the dissector that reads it."""
    from_tag, to_tag = _TAGS_ADDRESSES[len(source[0])]
    tags = (
        (_TAG_PROTOCOL, protocol.encode()),
        (from_tag, source[0]),
        (to_tag, destination[0]),
        (_TAG_PORT_TYPE, _PORT_TCP.to_bytes(4, "big")),
        (_TAG_SOURCE_PORT, source[1].to_bytes(4, "big")),
        (_TAG_DESTINATION_PORT, destination[1].to_bytes(4, "big")),
        (_TAG_END, b""),
    )
    parts = [struct.pack(">HH", tag, len(value) + -len(value) % 4) + _padded(value) for tag, value in tags]
    return b"".join(parts) + data


def plaintext(data: bytes) -> bytes:
    """Return the application bytes inside an exported PDU."""
    at = 0
    while at + 4 <= len(data):
        tag, size = struct.unpack_from(">HH", data, at)
        at += 4 + size
        if tag == _TAG_END:
            break
    return data[at:]


def blocks(file: IO[bytes], end: int | None = None) -> Iterator[Block]:
    """Yield the whole blocks from the file's position on; stops where one is cut or broken."""
    at = file.tell()
    while end is None or at < end:
        head = file.read(8)
        if len(head) < 8:
            return
        kind, size = struct.unpack("<II", head)
        rest = file.read(size - 8) if 12 <= size <= _BLOCK_MOST and size % 4 == 0 else b""
        if len(rest) != size - 8 or rest[-4:] != head[4:]:
            return
        yield Block(kind, rest[:-4], at, at + size)
        at += size


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def _options(options: Sequence[tuple[int, bytes]]) -> bytes:
    return b"".join([_option(code, value) for code, value in options]) + bytes(4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + _PADDINGS[len(data) % 4]


def order_of(head: bytes) -> str | None:
    """Return the byte order of a section header's first 14 bytes; None if it is none of version 1."""
    return {_MAGIC_LITTLE + b"\1\0": "<", _MAGIC_BIG + b"\0\1": ">"}.get(bytes(head[8:14]))


def interface_of(body: bytes, section: Section) -> Interface | None:
    """Return the fields of an interface block's body (behind kind and length); None if it is cut."""
    if len(body) < 8:
        return None
    order = section.byteorder
    found = Interface(_int(body[0:2], order), _int(body[4:8], order))
    for code, value in options(body, 8, order):
        if code == _RESOLUTION and len(value) == 1:
            power = value[0] & 0x7F
            # 10^-19 s and 2^-63 s are the finest that 64 bits can count.
            if value[0] & 0x80:
                found.shift = min(power, 63)
            else:
                found.units = 10 ** min(power, 19)
        elif code == _OFFSET and len(value) == 8:
            found.offset_s = int.from_bytes(value, order, signed=True)  # type: ignore[arg-type]
    return found


def options(body: bytes, at: int, order: str) -> list[tuple[int, bytes]]:
    """Return (code, value) of a block's options, up to the first that is not whole."""
    found = []
    while at + 4 <= len(body):
        code, size = _int(body[at : at + 2], order), _int(body[at + 2 : at + 4], order)
        if code == _END or at + 4 + size > len(body):
            break
        found.append((code, body[at + 4 : at + 4 + size]))
        at += 4 + size + -size % 4
    return found


def dropped(body: bytes, order: str) -> int:
    """Return the packets that the capture lost on an interface, by its statistics block's body."""
    listed = options(body, 12, order)
    return sum({code: _int(value, order) for code, value in listed if code in _DROPPED and len(value) == 8}.values())


def keylog_of(body: bytes, order: str) -> str:
    """Return the TLS key log lines of a secrets block's body; "" if it holds other secrets."""
    if len(body) < 8 or _int(body[:4], order) != _TLS_KEY_LOG:
        return ""
    return body[8 : 8 + _int(body[4:8], order)].decode("ascii", "replace")


def _int(data: bytes, order: str) -> int:
    return int.from_bytes(data, order)  # type: ignore[arg-type]
