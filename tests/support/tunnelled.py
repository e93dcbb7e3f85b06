# SPDX-License-Identifier: MIT
"""Packets in tunnels and behind link headers of each kind that is read."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.support import capture_bytes as write

MACS = bytes.fromhex("020000000001020000000002")
NFLOG, PPI, ETHERNET = 239, 192, 1


def four(packet: bytes, protocol: int) -> bytes:
    """An IPv4 header before it."""
    total = 20 + len(packet)
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, total, 7, 0, 64, protocol, 0, b"\x0a\0\0\1", b"\x0a\0\0\2") + packet


def six(packet: bytes, following: int) -> bytes:
    """An IPv6 header before it."""
    ends = b"\xfd" + bytes(15) + b"\xfe" + bytes(15)
    return struct.pack(">IHBB", 6 << 28, len(packet), following, 64) + ends + packet


def inner(packet: bytes) -> int:
    return 4 if packet[0] >> 4 == 4 else 41


def ether(body: bytes, number: bytes) -> bytes:
    return MACS + number + body


def ppp(packet: bytes) -> bytes:
    return (b"\x00\x21" if packet[0] >> 4 == 4 else b"\x00\x57") + packet


def pppoe(packet: bytes) -> bytes:
    return struct.pack(">BBHH", 0x11, 0, 1, len(packet) + 2) + ppp(packet)


def whole_frame(packet: bytes) -> bytes:
    return ether(packet, write.kind(packet))


def nflog(packet: bytes) -> bytes:
    family, prefix = 2 if packet[0] >> 4 == 4 else 10, struct.pack("<HH", 9, 10) + b"seen\0" + bytes(3)
    return struct.pack(">BBH", family, 0, 5) + prefix + struct.pack("<HH", len(packet) + 4, 9) + packet


def llc(packet: bytes) -> bytes:
    body = b"\xaa\xaa\x03\x00\x00\x00" + write.kind(packet) + packet
    return ether(body, struct.pack(">H", len(body) if len(body) < 1500 else 1400))


LABEL, LAST, WIRE = (struct.pack(">I", word << 8 | 64) for word in (17 << 4, 18 << 4 | 1, 19 << 4 | 1))
SPAN2, SPAN3 = (b"\x10\0" + number + bytes(4) for number in (b"\x88\xbe", b"\x22\xeb"))
CONTROL = b"\0\x01\x41\x40" + bytes(4)
TAG = struct.pack(">HHBB", 0, 100, 0, 0)


def udp(body: bytes, port: int) -> bytes:
    return four(struct.pack(">HHHH", 50000, port, len(body) + 8, 0) + body, 17)


def gtp(packet: bytes, flags: int, rest: bytes) -> bytes:
    return udp(struct.pack(">BBHI", flags, 255, len(rest + packet), 7) + rest + packet, 2152)


# What tshark must be told.
TOLD = ("-d", "udp.port==8472,vxlan", "-d", "udp.port==5555,ip", "-d", "mpls.label==19,pwethnocw",
        "-d", "mpls.label==20,pwethcw")  # fmt: skip
VXLAN, STATION = b"\x08\0\0\0\0\0\x2a\0", b"\x08\x02\0\0" + bytes(20)
WRAPS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "GRE": (ETHERNET, lambda p: ether(four(b"\0\0" + write.kind(p) + p, 47), b"\x08\x00")),
    "GRE with a key, a checksum and a number": (
        101, lambda p: four(b"\xb0\0" + write.kind(p) + bytes(4) + b"\0\0\0\1" + b"\0\0\0\2" + p, 47)
    ),
    "GRE with Ethernet": (101, lambda p: four(b"\0\0\x65\x58" + whole_frame(p), 47)),
    "ERSPAN I": (101, lambda p: four(b"\0\0\x88\xbe" + whole_frame(p), 47)),
    "ERSPAN II": (101, lambda p: four(SPAN2 + b"\x10\x01\0\x64" + bytes(4) + whole_frame(p), 47)),
    "ERSPAN III": (101, lambda p: four(SPAN3 + b"\x20\x01\0\x64" + bytes(8) + whole_frame(p), 47)),
    "PPPoE": (ETHERNET, lambda p: ether(pppoe(p), b"\x88\x64")),
    "PPPoE in a VLAN": (ETHERNET, lambda p: ether(b"\0\5\x88\x64" + pppoe(p), b"\x81\x00")),
    "IP in IP": (101, lambda p: four(p, inner(p))),
    "IP behind a segment routing header": (101, lambda p: six(bytes((inner(p), 2, 4, *bytes(21))) + p, 43)),
    "a frame behind a segment routing header": (101, lambda p: six(b"\x8f\2\4" + bytes(21) + whole_frame(p), 43)),
    "EtherIP": (101, lambda p: four(b"\x30\0" + whole_frame(p), 97)),
    "GRE behind options and an atomic fragment": (
        101, lambda p: six(b"\x2c" + bytes(7) + b"\x2f" + bytes(9) + write.kind(p) + p, 60)
    ),
    "MPLS behind AH": (101, lambda p: four(b"\x89\4" + bytes(22) + LAST + p, 51)),
    "VXLAN behind options": (101, lambda p: six(b"\x11" + bytes(7) + udp(VXLAN + whole_frame(p), 4789)[20:], 0)),
    "MPLS": (ETHERNET, lambda p: ether(LABEL + LAST + p, b"\x88\x47")),
    "MPLS in a VLAN": (ETHERNET, lambda p: ether(b"\0\5\x88\x47" + LAST + p, b"\x81\x00")),
    "Ethernet behind labels": (ETHERNET, lambda p: ether(WIRE + whole_frame(p), b"\x88\x48")),
    "Ethernet behind a control word": (ETHERNET, lambda p: ether(CONTROL + whole_frame(p), b"\x88\x47")),
    "MPLS in IPv6": (101, lambda p: six(LABEL + LAST + p, 137)),
    "PPTP": (
        101, lambda p: four(b"\x30\x81\x88\x0b" + struct.pack(">HHII", len(p) + 4, 7, 1, 1) + b"\xff\3" + ppp(p), 47)
    ),
    "MPLS in cooked frames": (113, lambda p: bytes(14) + b"\x88\x47" + LAST + p),
    "VXLAN": (101, lambda p: udp(VXLAN + whole_frame(p), 4789)),
    "VXLAN with a group, on Linux' port": (101, lambda p: udp(b"\x88\0\0\7\0\0\1\0" + whole_frame(p), 8472)),
    "VXLAN in VXLAN behind PPPoE": (
        ETHERNET, lambda p: ether(pppoe(udp(VXLAN + whole_frame(udp(VXLAN + whole_frame(p), 4789)), 4789)), b"\x88\x64")
    ),
    "MPLS in VXLAN": (101, lambda p: udp(VXLAN + ether(LAST + p, b"\x88\x47"), 4789)),
    "VXLAN-GPE": (101, lambda p: udp(b"\x0c\0\0" + bytes([2 - (p[0] >> 4 == 4)]) + VXLAN[4:] + p, 4790)),
    "Geneve with an option": (101, lambda p: udp(b"\2\0\x65\x58\0\0\7\0\1\2\3\1abcd" + whole_frame(p), 6081)),
    "Geneve with IP": (101, lambda p: udp(b"\0\0" + write.kind(p) + VXLAN[4:] + p, 6081)),
    "GTP": (101, lambda p: gtp(p, 0x30, b"")),
    "GTP with extension headers": (101, lambda p: gtp(p, 0x34, b"\0\0\0\x85\1\0\0\x40\1\1\1\0")),
    "IP in UDP": (101, lambda p: udp(p, 5555)),
    "L2TP": (101, lambda p: udp(struct.pack(">HHHHHH", 0x4A02, len(p) + 16, 1, 2, 3, 0) + bytes(2) + ppp(p), 1701)),
    "TZSP": (101, lambda p: udp(b"\1\0\0\1\1" + whole_frame(p), 37008)),
    "Cisco metadata and a VLAN": (
        ETHERNET, lambda p: ether(b"\1\1\0\1\0\7\x81\0\0\5" + write.kind(p) + p, b"\x89\x09")
    ),
    "VN-tag": (ETHERNET, lambda p: ether(b"\0\1\0\2" + write.kind(p) + p, b"\x89\x26")),
    "PPPoE, numbers of one byte": (ETHERNET, lambda p: ether(pppoe(p)[:6] + ppp(p)[1:], b"\x88\x64")),
    "Radiotap": (127, lambda p: b"\0\0\x08\0\0\0\0\0" + STATION + llc(p)[14:]),
    "E-tag and a VLAN": (ETHERNET, lambda p: ether(TAG + b"\x81\x00\0\5" + write.kind(p) + p, b"\x89\x3f")),
    "NFLOG": (NFLOG, nflog),
    "PPI": (PPI, lambda p: struct.pack("<BBHI", 0, 0, 8, 1) + whole_frame(p)),
    "LLC and SNAP": (ETHERNET, llc),
    "PPP": (9, lambda p: b"\xff\x03" + ppp(p)),
}  # fmt: skip
