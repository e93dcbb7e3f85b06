# SPDX-License-Identifier: MIT
"""The beginning of the IP packet in a frame: Ethernet with tags, PPPoE, Linux cooked capture, raw IP, loopback.

Dropped: link addresses and packet type, since connections are told apart by IP and TCP; numbers and priority of tags,
by which networks are not told apart (`tunnels.py`).

Source     the registry of link types (draft-ietf-opsawg-pcaplinktype); IEEE 802.1Q, 802.1ad, 802.1BR 12; Cisco TrustSec
           (its metadata of one option, the security group); RFC 2516 4
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from configtron.fingerprint.passive.columns import Column, Frames

ETHERNET, NULL, RAW, LOOP, SLL, IPV4, IPV6, UPPER_PDU, SLL2 = 1, 0, 101, 108, 113, 228, 229, 252, 276
# RAW has had other numbers, by operating system (DLT_RAW).
RAWS = frozenset((RAW, 12, 14, IPV4, IPV6))
ETHER_IP, ETHER_ARP = (0x0800, 0x86DD), 0x0806
PPPOE, PPPOE_CONTROL = 0x8864, 0x8863
# Type of a tag -> its bytes: 802.1Q, 802.1ad, the numbers that QinQ had before; VN-tag, Cisco's metadata, 802.1BR's
# E-tag. PPPoE is here because PPP's protocol number stands where a tag has the type of what follows.
TAGS = {**dict.fromkeys((0x8100, 0x88A8, 0x9100, 0x9200), 4), 0x8926: 6, 0x8909: 8, 0x893F: 8, PPPOE: 8}
TAG_BYTES = np.zeros(1 << 16, np.uint8)
TAG_BYTES[list(TAGS)] = list(TAGS.values())
# No network nests so many tags; the limit ends a crafted chain.
TAGS_MOST = 8
# PPP's numbers of IP; the bit that control protocols have; the bit of a number that is one byte long (RFC 1661 2).
PPP_IP, PPP_CONTROL, PPP_SHORT = (0x0021, 0x0057), 0x8000, 0x0100
# Other types of Ethernet that can hold no TCP -> counter.
BARREN = {
    ETHER_ARP: "arp", 0x8035: "rarp", 0x0842: "wake-on-lan", 0x8809: "slow-protocols", 0x888E: "802.1x", 0x88CC: "lldp",
    PPPOE_CONTROL: "pppoe-control", 0x88F7: "ptp", 0x8902: "connectivity-faults", 0x9000: "loopback-test",
    0x8892: "profinet", 0x88B8: "goose", 0x88BA: "sampled-values", 0x88A4: "ethercat", 0x8906: "fcoe", 0x8915: "roce",
}  # fmt: skip
# Bytes before IP of a frame that we do not know how to read.
UNKNOWN = -2
# Where the IP packet stands in frames whose header has one length; of the last two: OpenBSD's enc, Solaris' IPNET.
PLAIN = {NULL: 4, LOOP: 4, **dict.fromkeys(RAWS, 0), 109: 12, 226: 24}
# Where the protocol field and the IP packet stand in the others.
TYPED = {ETHERNET: (12, 14), SLL: (14, 16), SLL2: (0, 20)}


def network_at(frames: Frames, counts: Counter[str]) -> Column:
    """Return bytes before the IP packet in each frame; -1: there is none, which is counted; `UNKNOWN`: there may be
    one."""
    at = np.full(len(frames.start), -1, np.int64)
    same_link = bool((frames.link == frames.link[0]).all())
    for link in frames.link[:1].tolist() if same_link else np.unique(frames.link).tolist():
        rows = slice(None) if same_link else np.flatnonzero(frames.link == link)
        if link in PLAIN:
            at[rows] = PLAIN[link]
        elif link in TYPED:
            at[rows] = _typed(frames, rows, *TYPED[link], counts)
        elif link == UPPER_PDU:
            counts["plaintext"] += len(at[rows])
        elif link >= 0:
            at[rows] = UNKNOWN
    return at


def _typed(frames: Frames, rows: Column | slice, field: int, header: int, counts: Counter[str]) -> Column:
    """Return bytes before the IP packet in frames whose header names the protocol; -1 and `UNKNOWN` as in
    `network_at`. Tags stand right before the packet, in SLL2 too, whose protocol field stands elsewhere."""
    data, start, kept = frames.data, frames.start[rows], frames.kept[rows]
    at = np.full(len(start), header, np.int64)
    kind = word_at(data, np.minimum(start + field, len(data) - 2))
    for _ in range(TAGS_MOST):
        size = TAG_BYTES[kind]
        tagged = np.flatnonzero(size)
        if not len(tagged):
            break
        session = kind[tagged] == PPPOE
        at[tagged] += size[tagged]
        kind[tagged] = word_at(data, np.minimum(start[tagged] + at[tagged] - 2, len(data) - 2))
        if session.any():
            number = kind[tagged[session]]
            control = (number & (PPP_CONTROL | PPP_SHORT)) == PPP_CONTROL
            kind[tagged[session]] = np.select(
                [number == PPP_IP[0], number == PPP_IP[1], control], [*ETHER_IP, PPPOE_CONTROL], 0
            )
    ip = (kind == ETHER_IP[0]) | (kind == ETHER_IP[1])
    short = kept < at
    missed = int(np.count_nonzero(short))
    if missed:
        counts["cut-header"] += missed
    at[~ip] = UNKNOWN
    if not ip.all():
        other = ~ip & ~short
        for number, many in zip(*np.unique(kind[other], return_counts=True), strict=True):
            if name := BARREN.get(int(number)):
                counts[name] += int(many)
                at[other & (kind == number)] = -1
    at[short] = -1
    return at


def word_at(data: Column, at: Column) -> Column:
    """Return the 16 bits at these places, in network order."""
    word: Column = data[at].astype(np.uint16) << np.uint16(8) | data[at + 1]
    return word
