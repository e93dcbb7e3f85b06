# SPDX-License-Identifier: MIT
"""The pcapng file format (draft-ietf-opsawg-pcapng), as far as we write it, and read what we wrote. Pure but for reads.

Little-endian, nanoseconds, every length padded to 32 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

SECTION, INTERFACE, PACKET, SECRETS = 0x0A0D0D0A, 1, 6, 10
LINKTYPE_RAW, LINKTYPE_UPPER_PDU = 101, 252
# A section of this byte order, version 1.0, of unknown length.
SECTION_BODY = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
# Options: end, comment, if_name, if_tsresol (9: nanoseconds), epb_flags (1 inbound, 2 outbound).
_END, _COMMENT, _NAME, _RESOLUTION, _FLAGS = 0, 1, 2, 9, 2
_WAYS = {"in": 1, "out": 2}
_SAID = {1: "in", 2: "out"}
# TLS key log ("TLSK"), as NSS writes it.
_TLS_KEY_LOG = 0x544C534B
# Tags of an exported PDU (Wireshark, epan/exported_pdu.h).
_TAG_END, _TAG_PROTOCOL, _TAG_PORT_TYPE, _TAG_SOURCE_PORT, _TAG_DESTINATION_PORT, _PORT_TCP = 0, 12, 24, 25, 26, 2
_TAGS_ADDRESSES = {4: (20, 21), 16: (22, 23)}
# An Enhanced Packet Block up to its data, and its end: flags, the end of the options, the block's size again.
_EPB, _EPB_HEAD, _EPB_TAIL = struct.Struct("<IIIII"), struct.Struct("<IIIIIII"), struct.Struct("<HHIII")
# A block is at most this long: a super-frame of 512 kB, its comments, and much room. More is a broken file.
_BLOCK_MOST = 1 << 26


class Block(NamedTuple):
    """One block; `end` is where the next begins."""

    kind: int
    body: bytes
    offset: int
    end: int


class Captured(NamedTuple):
    """What a packet block says."""

    interface: int
    at_ns: int
    data: bytes
    length: int
    way: str
    comments: tuple[str, ...]


End = tuple[bytes, int]  # packed address, port


def section(interfaces: Sequence[tuple[str, int]]) -> bytes:
    """A section's opening: its header and its interfaces (name, link type)."""
    parts = [_block(SECTION, SECTION_BODY)]
    for name, linktype in interfaces:
        body = struct.pack("<HHI", linktype, 0, 0) + _options(((_NAME, name.encode()), (_RESOLUTION, b"\x09")))
        parts.append(_block(INTERFACE, body))
    return b"".join(parts)


def packet(said: Captured) -> bytes:
    """An Enhanced Packet Block."""
    interface, at_ns, data, length, way, comments = said
    middle = _padded(data) + b"".join([_option(_COMMENT, comment.encode()) for comment in comments])
    size = _EPB_HEAD.size + len(middle) + _EPB_TAIL.size
    head = _EPB_HEAD.pack(PACKET, size, interface, at_ns >> 32, at_ns & 0xFFFFFFFF, len(data), length)
    return head + middle + _EPB_TAIL.pack(_FLAGS, 4, _WAYS[way], _END, size)


def captured(body: bytes) -> Captured:
    """An Enhanced Packet Block's body, read."""
    interface, high, low, kept, length = _EPB.unpack_from(body)
    way, comments = "in", []
    for code, value in _read_options(body, 20 + kept + -kept % 4):
        if code == _COMMENT:
            comments.append(value.decode())
        elif code == _FLAGS:
            way = _SAID[value[0] & 3]
    return Captured(interface, high << 32 | low, body[20 : 20 + kept], length, way, tuple(comments))


def secrets(keylog: str) -> bytes:
    """A Decryption Secrets Block of TLS key log lines."""
    data = keylog.encode()
    return _block(SECRETS, struct.pack("<II", _TLS_KEY_LOG, len(data)) + _padded(data))


def keylog_of(body: bytes) -> str:
    """The key log lines of a Decryption Secrets Block."""
    return body[8 : 8 + int.from_bytes(body[4:8], "little")].decode()


def exported(protocol: str, source: End, destination: End, data: bytes) -> bytes:
    """Application bytes as an exported PDU: who says it to whom, and which dissector reads it."""
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
    """The application bytes inside an exported PDU."""
    at = 0
    while at + 4 <= len(data):
        tag, size = struct.unpack_from(">HH", data, at)
        at += 4 + size
        if tag == _TAG_END:
            break
    return data[at:]


def blocks(file: IO[bytes], end: int | None = None) -> Iterator[Block]:
    """The whole blocks from the file's position on; stops where one is cut or broken."""
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


def _read_options(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at + 4 <= len(body):
        code, size = struct.unpack_from("<HH", body, at)
        if code == _END:
            return
        yield code, body[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
