# SPDX-License-Identifier: MIT
"""Tunnels in UDP or IP: which packets are tunnel packets, and which inner frame each carries.

Question   Which packets carry an inner frame or IP packet, where does it begin, and which link type has it?
Method     A port names the tunnel (`TUNNELS`). The packet must have that tunnel's header with the fixed bits of the
           standard. Behind it must come a known Ethernet type, or an IP packet as long as the rest of the UDP packet.
           On every other port, a whole IP packet with TCP is a tunnel without a header (foo-over-UDP, GUE 1, Teredo).
           In IP, the protocol number names the tunnel (`IN_IP`), and that is believed.
           All packets of a buffer are parsed at once.
Reads as   rows, bytes before the inner frame, its link type, its network; a count by the tunnel's name.
Fails as   the packet stays UDP, or an unread tunnel. An encrypted one (`CLOSED`) is counted by name and gives no row.
Differs    from tshark, which reads no VXLAN on Linux' first port (8472) and no foo-over-UDP unless told.
Source     RFC 7348; draft-ietf-nvo3-vxlan-gpe 3; RFC 8926 3.4; 3GPP TS 29.281 5.1; draft-ietf-intarea-gue 3; RFC 2661
           3.1; RFC 2784, RFC 2890, RFC 2637 4.1 (GRE); draft-foschiano-erspan; RFC 3378; RFC 4023; RFC 8986 10.1;
           MikroTik's packet sniffer (TZSP); IANA "Service Name and Transport Protocol Port Number Registry"
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from configtron.fingerprint.passive.columns import NETWORKS, Column, Frames, in_network
from configtron.fingerprint.passive.link import (
    BARREN,
    ETHER_IP,
    ETHER_MPLS,
    ETHER_PPP,
    ETHERNET,
    MPLS,
    PPP,
    PPPOE,
    RAW,
    TAGS,
    word_at,
)

UDP, ETHER_BRIDGED, ERSPAN, ERSPAN3 = 17, 0x6558, 0x88BE, 0x22EB
# Length of the UDP header; bytes that are read of it and the tunnel header together.
UDP_BYTES, LOOK = 8, 48
# The most GTP extension headers that are followed; a PDU session and a RAN container are two.
EXTENSIONS_MOST = 4
# Types that an inner Ethernet frame may have. Below 0x0600 it is a length: at least the three bytes of LLC's header.
IS_ETHER_TYPE = np.zeros(1 << 16, bool)
IS_ETHER_TYPE[3:0x0600] = True
IS_ETHER_TYPE[[*ETHER_IP, *BARREN, *TAGS, PPPOE, *ETHER_MPLS]] = True
# Protocol that GRE names -> link type of what follows; 0: not read.
GRE_LINKS = np.zeros(1 << 16, np.int64)
GRE_LINKS[[*ETHER_IP, *ETHER_MPLS, ETHER_PPP]] = RAW, RAW, MPLS, MPLS, PPP
GRE_LINKS[[ETHER_BRIDGED, ERSPAN, ERSPAN3]] = ETHERNET

# What a header reader returns: whether the header is valid, its length (bytes), the link type of what follows. It takes
# the first bytes of the payloads: row k holds byte k of all packets.
Header = tuple[Column, Column | int, Column | int]


def _vxlan(byte: Column) -> Header:
    """Read VXLAN: flag 0x08 (an identifier) is set; with flag 0x04 byte 3 names IPv4, IPv6 or Ethernet."""
    generic = (byte[0] & 4) != 0
    valid = ((byte[0] & 0x79) == 0x08) & (~generic | ((byte[3] >= 1) & (byte[3] <= 3)))
    return valid, 8, np.where(generic & (byte[3] < 3), RAW, ETHERNET)


def _geneve(byte: Column) -> Header:
    kind = byte[2] << 8 | byte[3]
    valid = (byte[0] < 64) & ((byte[1] & 63) == 0) & ((kind == ETHER_BRIDGED) | np.isin(kind, ETHER_IP))
    return valid, 8 + byte[0] * 4, np.where(kind == ETHER_BRIDGED, ETHERNET, RAW)


def _gtp(byte: Column) -> Header:
    """Read a G-PDU of GTP version 1; the last byte of each extension header is the type of the next one."""
    packet, size = np.arange(byte.shape[1]), np.where((byte[0] & 7) != 0, 12, 8)
    for _ in range(EXTENSIONS_MOST):
        place = np.minimum(size, len(byte) - 1)
        size = size + np.where(((byte[0] & 4) != 0) & (byte[place - 1, packet] != 0), byte[place, packet] * 4, 0)
    return ((byte[0] & 0xF8) == 0x30) & (byte[1] == 255), size, RAW


def _gue(byte: Column) -> Header:
    """Read GUE: variant 0 has a header, variant 1 is the IP packet itself."""
    bare = byte[0] >> 6 == 1
    return bare | ((byte[0] < 32) & ((byte[1] == 4) | (byte[1] == 41))), np.where(bare, 0, 4 + byte[0] * 4), RAW


def _l2tp(byte: Column) -> Header:
    """Read a data message of L2TP version 2; length, sequence numbers and offset are optional."""
    size = 6 + 2 * (byte[0] >> 6 & 1) + 4 * (byte[0] >> 3 & 1)
    offset = byte[np.minimum(size + 1, len(byte) - 1), np.arange(byte.shape[1])]
    return ((byte[0] & 0xB4) == 0) & (byte[1] == 2), size + (byte[0] >> 1 & 1) * (2 + offset), PPP


def _tzsp(byte: Column) -> Header:
    """Read TZSP: a received Ethernet packet, without tags but the end."""
    return (byte[0] == 1) & (byte[1] == 0) & (byte[2] == 0) & (byte[3] == 1) & (byte[4] == 1), 5, ETHERNET


def _gre(byte: Column) -> Header:
    """Read GRE: checksum, key and number are optional, PPTP's acknowledged number too. ERSPAN I has no number and no
    header of its own; of ERSPAN III, Ethernet frames are read."""
    kind, version = byte[2] << 8 | byte[3], byte[1] & 7
    size = 4 + 4 * ((byte[0] >> 7) + (byte[0] >> 5 & 1) + (byte[0] >> 4 & 1) + (byte[1] >> 7) * (version == 1))
    second, third = (kind == ERSPAN) & ((byte[0] & 0x10) != 0), kind == ERSPAN3
    of_frame, more = (byte[size + k, np.arange(byte.shape[1])] for k in (10, 11))
    valid = ((byte[0] & 0x4F) == 0) & (version == (kind == ETHER_PPP)) & (GRE_LINKS[kind] > 0)
    size = size + np.select([second, third], [8, 12 + 8 * (more & 1)], 0)
    return valid & ~(third & ((of_frame & 0x7C) != 0)), size, GRE_LINKS[kind]


def _ip(byte: Column) -> Header:
    return (byte[0] >> 4 == 4) | (byte[0] >> 4 == 6), 0, RAW


TUNNELS: dict[str, tuple[tuple[int, ...], Callable[[Column], Header]]] = {
    "vxlan": ((4789, 4790, 8472), _vxlan), "geneve": ((6081,), _geneve), "gtp-u": ((2152,), _gtp),
    "gue": ((6080,), _gue), "l2tp": ((1701,), _l2tp), "tzsp": ((37008,), _tzsp),
}  # fmt: skip
# The same by IP protocol number.
IN_IP: dict[str, tuple[tuple[int, ...], Callable[[Column], Header]]] = {
    "ip-in-ip": ((4,), _ip), "6in4": ((41,), _ip), "gre": ((47,), _gre),
    "ethernet": ((143,), lambda byte: (byte[0] >= 0, 0, ETHERNET)),
    "etherip": ((97,), lambda byte: ((byte[0] == 0x30) & (byte[1] == 0), 2, ETHERNET)),
    "mpls": ((137,), lambda byte: (byte[0] >= 0, 0, MPLS)),
}  # fmt: skip
# Encrypted tunnels and protocols; the port alone identifies them.
CLOSED = {"quic": (443,), "wireguard": (51820,), "openvpn": (1194,), "esp": (4500,)}
BARE = "ip-in-udp"
OPENED = (BARE, *TUNNELS, *IN_IP)
NAMES = (*OPENED, *CLOSED)
KIND_BY_PORT, KIND_BY_PROTOCOL = np.zeros(1 << 16, np.uint8), np.zeros(256, np.uint8)
# Kinds whose servers answer from their port; other tunnels draw a source port from the inner flow.
ANSWERS = np.isin(("", *NAMES[1:]), ("l2tp", *CLOSED))
# By kind, which of `NETWORKS` its header names: from byte 4 on, GRE behind a checksum.
NETWORK = np.array([[*NETWORKS].index(name) if name in NETWORKS else 0 for name in NAMES])
GRE = NAMES.index("gre")
for _name, _ports in (*((name, ports) for name, (ports, _) in TUNNELS.items()), *CLOSED.items()):
    KIND_BY_PORT[list(_ports)] = NAMES.index(_name)
for _name, (_numbers, _) in IN_IP.items():
    KIND_BY_PROTOCOL[list(_numbers)] = NAMES.index(_name)


def frames_within(
    frames: Frames, at: Column, head: Column, protocol: Column, counts: Counter[str]
) -> tuple[Column, Column, Column, Column]:
    """Return (rows of tunnel packets, bytes before the inner frame, its link type, its network).

    at      bytes before the IP packet; this function sets it to -1 where the packet is encrypted
    head    bytes before the header behind IP's; protocol: that header's, 0: nothing to look at
    counts  packets by name of tunnel or encrypted protocol; this function adds to it
    """
    rows = np.flatnonzero(protocol)
    data, head, in_udp = frames.data, head[rows], protocol[rows] == UDP
    place = frames.start[rows] + head
    windows = np.ndarray((len(data) - LOOK + 1,), f"V{LOOK}", data, 0, (1,))
    byte = windows[place].view(np.uint8).reshape(len(rows), LOOK).T.astype(np.int64)
    source, port, length = (byte[k] << 8 | byte[k + 1] for k in (0, 2, 4))
    by_port = np.where(
        KIND_BY_PORT[port] > 0, KIND_BY_PORT[port], np.where(ANSWERS[KIND_BY_PORT[source]], KIND_BY_PORT[source], 0)
    )
    kind = np.where(in_udp, by_port, KIND_BY_PROTOCOL[protocol[rows]])
    valid, size, link = np.ones(len(rows), bool), np.zeros(len(rows), np.int64), np.full(len(rows), RAW)
    for number, (_, read) in enumerate((*TUNNELS.values(), *IN_IP.values()), 1):
        mine = np.flatnonzero(kind == number)
        if len(mine):
            valid[mine], size[mine], link[mine] = read(byte[UDP_BYTES if number <= len(TUNNELS) else 0 :, mine])
    size += UDP_BYTES * in_udp
    inner = np.minimum(place + size, len(data) - LOOK)
    exact, tcp = _match_ip(data, inner, length - size)
    known_type = (link != ETHERNET) | IS_ETHER_TYPE[word_at(data, inner + 12)]
    closed = kind >= len(OPENED)
    valid &= ~in_udp | (known_type & ((link != RAW) | exact) & ((kind > 0) | tcp) & ~closed)
    at[rows[closed]] = -1
    for number, packets in enumerate(np.bincount(kind[valid | closed]).tolist()):
        counts[NAMES[number]] += packets
    # GRE's key is optional; PPTP has a length there.
    keyed = (kind != GRE) | (((byte[0] & 0x20) != 0) & ((byte[1] & 7) == 0))
    place += np.where(kind == GRE, 4 + 4 * (byte[0] >> 7), UDP_BYTES + 4)
    word = word_at(data, place).astype(np.uint32) << np.uint32(16) | word_at(data, place + 2)
    net = in_network(frames.net[rows], np.where(keyed, NETWORK[kind], 0), word)
    return rows[valid], (head + size)[valid], link[valid], net[valid]


def _match_ip(data: Column, at: Column, size: Column) -> tuple[Column, Column]:
    """Return (whether an IP packet of exactly `size` bytes begins at `at`, whether its next protocol is TCP)."""
    four, six = (data[at] >> 4 == 4) & ((data[at] & 15) >= 5), data[at] >> 4 == 6
    exact = (four & (word_at(data, at + 2) == size)) | (six & (word_at(data, at + 4).astype(np.int64) + 40 == size))
    return exact, data[at + np.where(four, 9, 6)] == 6
