# SPDX-License-Identifier: MIT
"""Frames whose IP packet lies deeper than the column reader can see: select them, and ask a dissector for the packet.

Rules for this file: a Python loop over frames, which only frames enter that the column reader cannot place. A frame
that can hold no TCP (ARP, LLDP, spanning tree) is not among them. The dissector (`capture/dissect.py`) is an argument.

Source     IANA "IEEE 802 Numbers", "Protocol Numbers"
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from configtron.fingerprint.passive.columns import Column, Frames
from configtron.fingerprint.passive.link import ETHER_ARP, TYPED, UNKNOWN, VLANS, VLANS_MOST

# (link type, a frame's bytes) -> bytes before the innermost IP header; -1: none is found.
Dissect = Callable[[int, bytes], int]
# Counters of frames that no reader understood begin so: connections of the capture may lack segments.
UNREAD = "unread-"
# IP protocol number -> name of the tunnel.
TUNNELS = {4: "ip-in-ip", 41: "6in4", 47: "gre", 137: "mpls"}
IS_TUNNEL = np.zeros(256, bool)
IS_TUNNEL[list(TUNNELS)] = True
# Ethernet type -> name: encapsulations that Scapy reads, and others that may hold IP (MACsec, PBB, VN-tag, NSH, TRILL).
NAMES = {
    0x8847: "mpls", 0x8848: "mpls", 0x8864: "pppoe", 0x893F: "e-tag", 0x88E5: "macsec", 0x88E7: "pbb", 0x8926: "vn-tag",
    0x894F: "nsh", 0x22F3: "trill", 0x8903: "fabricpath",
}  # fmt: skip
# A type below this is a length (IEEE 802.3), and LLC follows. Of its access points only SNAP's and IP's can hold TCP.
LENGTHS_BELOW, LLC = 0x0600, "llc"
ACCESS_POINTS = (b"\xaa\xaa", b"\x06\x06")
SNAP, SNAP_BYTES = b"\xaa\xaa\x03\x00\x00\x00", 8
HEAD_BYTES = 512


def unfold(frames: Frames, first_bytes: Frames, at: Column, dissect: Dissect | None, counts: Counter[str]) -> Column:
    """Return `at` with the place of the innermost IP packet filled in for frames in tunnels.

    first_bytes  the same frames; its buffer holds at least their headers
    at           by frame: bytes before the IP packet, `UNKNOWN`, or -1 for none; changed in place
    counts       gets "dissected", "not-ip", and names of headers not read
    """
    rows = np.flatnonzero((at == UNKNOWN) | _tunnelled(first_bytes, at))
    for row in rows.tolist():
        first, link = int(frames.start[row]), int(frames.link[row])
        data = bytes(frames.data[first : first + min(int(frames.kept[row]), HEAD_BYTES)])
        name = _name(data, link, int(at[row]))
        outer, at[row] = int(at[row]), -1
        if not name:
            counts["not-ip"] += 1
            continue
        found = dissect(link, data) if dissect is not None else -1
        if max(outer, -1) < found < len(data):
            at[row] = found
            counts["dissected"] += 1
        else:
            counts[name] += 1
    return at


def _tunnelled(frames: Frames, at: Column) -> Column:
    """Return whether an IP header names a tunnel as its payload. Fragments after the first have no such header."""
    data = frames.data
    room = frames.kept - at
    rows = np.flatnonzero((at >= 0) & (room >= 20))
    place = frames.start[rows] + at[rows]
    version = data[place] >> 4
    likely = np.flatnonzero(IS_TUNNEL[data[place + np.where(version == 4, 9, 6)]])
    rows, place, version = rows[likely], place[likely], version[likely]
    later = ((data[place + 6] & 0x1F) | data[place + 7]) != 0
    found = np.zeros(len(at), bool)
    found[rows] = ((version == 4) & ~later) | ((version == 6) & (room[rows] >= 40))
    return found


def _name(data: bytes, link: int, at: int) -> str:
    """Return the counter of a frame that the dissector cannot read; "" if the frame can hold no TCP."""
    if at >= 0:
        return UNREAD + TUNNELS[data[at + 9] if data[at] >> 4 == 4 else data[at + 6]]
    if link not in TYPED:
        return f"link-type-{link}"
    field, header = TYPED[link]
    kind = int.from_bytes(data[field : field + 2], "big")
    for _ in range(VLANS_MOST):
        if kind not in VLANS:
            break
        header += 4
        kind = int.from_bytes(data[header - 2 : header], "big")
    body = data[header:]
    if kind < LENGTHS_BELOW:
        if body[:2] not in ACCESS_POINTS:
            return ""
        inner = int.from_bytes(body[6:8], "big")
        other = body[:6] == SNAP and inner not in (*NAMES, *VLANS, 0x0800, 0x86DD)
        return "" if other or (body[:2] == ACCESS_POINTS[0] and body[:6] != SNAP) else UNREAD + LLC
    return UNREAD + NAMES[kind] if kind in NAMES and kind != ETHER_ARP else ""
