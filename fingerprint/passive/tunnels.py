# SPDX-License-Identifier: MIT
"""Frames whose IP packet lies deeper than their own header says: look into tunnels for the innermost one.

Question   Where does the innermost IP packet of a frame begin?
Method     A tunnel may stand behind extension headers (`extension_headers.py`). It holds a frame, which is read as any
           other, for all frames together (`tunnel_headers.py`). Other link types go to a dissector, an argument
           (`capture/dissect.py`), in a Python loop over frames. A frame that can hold no TCP (ARP, LLDP, spanning tree)
           goes nowhere.
Fails as   a count under a name: unread-gre and its like, link-type-N.
Differs    from the tunnel's end, which looks up the network by its identifier. Cilium writes the sender's identity
           there, OVN the destination's network, GTP has a tunnel for each direction and another after a handover: one
           connection may be in several networks. Its sequence numbers show which (`gathering.py`). A packet that is
           captured in a tunnel and outside it is a copy (`copies.py`).
Source     IANA "IEEE 802 Numbers", "Protocol Numbers"; Cilium, "Routing", encapsulation; ovn-architecture(7)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from configtron.fingerprint.passive.columns import Column, Frames
from configtron.fingerprint.passive.extension_headers import IS_EXTENSION, LATER_FROM, pass_extensions
from configtron.fingerprint.passive.link import ETHERNET, PPPOE, TAGS, TYPED, UNKNOWN, network_at
from configtron.fingerprint.passive.tunnel_headers import IN_IP, KIND_BY_PROTOCOL, UDP, frames_within

# (link type, a frame's bytes) -> bytes before the outermost IP header; -1: none is found; `NO_IP`: all was understood,
# and there is none.
NO_IP = -2
Dissect = Callable[[int, bytes], int]
# Counters of frames that no reader understood begin so: connections of the capture may lack segments.
UNREAD = "unread-"
# IP protocol number -> name of the tunnel. The length of L2TPv3's header is not in the packet.
TUNNELS = {115: "l2tpv3"} | {number: name for name, (numbers, _) in IN_IP.items() for number in numbers}
MAY_HOLD = IS_EXTENSION[6] | (KIND_BY_PROTOCOL > 0) | (np.arange(256) == UDP)
# Tunnels that are followed in one frame: a crafted frame may have no end of them.
NESTED_MOST = 8
# Ethernet type -> name: encapsulations that Scapy reads, and others that may hold IP (MACsec, PBB, NSH, TRILL).
NAMES = {
    0x8847: "mpls", 0x8848: "mpls", PPPOE: "pppoe", 0x88E5: "macsec", 0x88E7: "pbb", 0x894F: "nsh", 0x22F3: "trill",
    0x8903: "fabricpath",
}  # fmt: skip
# A type below this is a length (IEEE 802.3), and LLC follows. Of its access points only SNAP's and IP's can hold TCP.
LENGTHS_BELOW, LLC = 0x0600, "llc"
ACCESS_POINTS = (b"\xaa\xaa", b"\x06\x06")
SNAP, SNAP_BYTES = b"\xaa\xaa\x03\x00\x00\x00", 8
HEAD_BYTES, ETHER_BYTES = 512, 14


def unfold(
    frames: Frames, first_bytes: Frames, at: Column, dissect: Dissect | None, counts: Counter[str],
    nested: int = NESTED_MOST
) -> Column:  # fmt: skip
    """Return `at` with the place of the innermost IP packet filled in for frames in tunnels, and fill in networks.

    first_bytes  the same frames; its buffer holds at least their headers
    at           by frame: bytes before the IP packet, `UNKNOWN`, or -1 for none; changed in place
    counts       gets "dissected", "not-ip", names of tunnels, and names of headers not read
    nested       tunnels that are followed
    """
    unknown = np.flatnonzero(at == UNKNOWN)
    for row in unknown.tolist():
        first = int(frames.start[row])
        data = bytes(frames.data[first : first + min(int(frames.kept[row]), HEAD_BYTES)])
        name, link, cut, data = _inside(data, int(frames.link[row]))
        found = (dissect(link, data) if dissect is not None else -1) if name else NO_IP
        at[row] = -1
        if -1 < found < len(data):
            at[row] = found + cut
            counts["dissected"] += 1
        else:
            counts["not-ip" if found == NO_IP else name] += 1
    protocol, head = _protocols(frames if len(unknown) else first_bytes, frames, at)
    if not nested or not protocol.any():
        return at
    rows, before, link_types, net = frames_within(frames, at, head, protocol, counts)
    if len(rows):
        kept, length = frames.kept[rows] - before, frames.length[rows] - before
        inner = Frames(frames.data, frames.start[rows] + before, kept, length, frames.at[rows], link_types, net=net)
        place = unfold(inner, inner, network_at(inner, counts), dissect, counts, nested - 1)
        frames.net[rows] = net
        at[rows] = np.where(place < 0, -1, place + before)
    return at


def _protocols(source: Frames, frames: Frames, at: Column) -> tuple[Column, Column]:
    """Return the protocol of each IP packet that may be a tunnel, else 0, and bytes of the frame before that protocol's
    header. Fragments after the first are none."""
    room = frames.kept - at
    rows = np.flatnonzero((at >= 0) & (room >= 20))
    place = source.start[rows] + at[rows]
    version = source.data[place] >> 4
    kind = source.data[place + np.where(version == 4, 9, 6)]
    likely = np.flatnonzero(MAY_HOLD[kind] & ((version == 4) | ((version == 6) & (room[rows] >= 40))))
    rows, version, kind = rows[likely], version[likely], kind[likely]
    found, head = np.zeros(len(at), np.uint8), np.zeros(len(at), np.int64)
    start = frames.start[rows] + at[rows]
    place = np.where(version == 4, (frames.data[start] & 15).astype(np.int64) * 4, 40)
    word = frames.data[start + 6].astype(np.uint16) << 8 | frames.data[start + 7]
    fragment = np.where(version == 4, word << 3, 0).astype(np.uint16)
    cut = pass_extensions(version, frames.data, start, room[rows], place, kind, fragment)
    holds = ~cut & (place < room[rows]) & (fragment < LATER_FROM) & MAY_HOLD[kind] & ~IS_EXTENSION[6, kind]
    found[rows], head[rows] = np.where(holds, kind, 0), at[rows] + place
    return found, head


def _inside(data: bytes, link: int) -> tuple[str, int, int, bytes]:
    """Return for a frame (counter if the dissector cannot read it, or "" if it can hold no TCP; link type and bytes for
    the dissector; where in the frame these begin): tags that the columns know are taken away."""
    if link not in TYPED:
        return f"link-type-{link}", link, 0, data
    field, header = TYPED[link]
    kind = int.from_bytes(data[field : field + 2], "big")
    while kind in TAGS and header < len(data):
        header += TAGS[kind]
        kind = int.from_bytes(data[header - 2 : header], "big")
    body = data[header:]
    name = UNREAD + NAMES[kind] if kind in NAMES else ""
    if kind < LENGTHS_BELOW and body[:2] in ACCESS_POINTS:
        inner = int.from_bytes(body[6:8], "big")
        other = body[:6] == SNAP and inner not in (*NAMES, *TAGS, 0x0800, 0x86DD)
        name = "" if other or (body[:2] == ACCESS_POINTS[0] and body[:6] != SNAP) else UNREAD + LLC
    return name, ETHERNET, header - ETHER_BYTES, bytes(ETHER_BYTES - 2) + kind.to_bytes(2, "big") + body
