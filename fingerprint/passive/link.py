# SPDX-License-Identifier: MIT
"""The beginning of the IP packet in a frame: Ethernet with tags, PPPoE, PPP, MPLS, Linux cooked capture, raw IP,
loopback.

Dropped: link addresses and packet type, since connections are told apart by IP, TCP and the network (`in_network` of
`columns.py`: VLANs, labels); priority of tags, and the numbers in others than VLANs.

Source     the registry of link types (draft-ietf-opsawg-pcaplinktype); IEEE 802.1Q, 802.1ad, 802.1BR 12; Cisco TrustSec
           (its metadata of one option, the security group); RFC 2516 4; RFC 1661 2, RFC 1662 3.1; RFC 3032 2.1;
           RFC 4448 4 (Ethernet behind labels, with a control word of 0 or without one)
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from configtron.fingerprint.passive.columns import FIRST_BYTES, NETWORKS, Column, Frames, in_network

ETHERNET, NULL, RAW, LOOP, SLL, IPV4, IPV6, UPPER_PDU, SLL2 = 1, 0, 101, 108, 113, 228, 229, 252, 276
PPP, MPLS = 9, 219
# RAW has had other numbers, by operating system (DLT_RAW).
RAWS = frozenset((RAW, 12, 14, IPV4, IPV6))
ETHER_IP, ETHER_ARP = (0x0800, 0x86DD), 0x0806
ETHER_MPLS, ETHER_PPP = (0x8847, 0x8848), 0x880B
PPPOE, PPPOE_CONTROL = 0x8864, 0x8863
# Type of a tag -> its bytes: 802.1Q, 802.1ad, the numbers that QinQ had before; VN-tag, Cisco's metadata, 802.1BR's
# E-tag.
TAGS = {**dict.fromkeys((0x8100, 0x88A8, 0x9100, 0x9200), 4), 0x8926: 6, 0x8909: 8, 0x893F: 8}
TAG_BYTES = np.zeros(1 << 16, np.uint8)
TAG_BYTES[list(TAGS)] = list(TAGS.values())
# Headers that are read as tags at first: PPP's protocol number, or half a label, stands where a tag has the next type.
TAG_BYTES[[PPPOE, ETHER_PPP, *ETHER_MPLS]] = 8, 2, 4, 4
# Which of `NETWORKS` those of four bytes name: VLANs, labels.
TAG_NETWORK = np.where(TAG_BYTES == 4, [*NETWORKS].index("vlan"), 0)
TAG_NETWORK[[*ETHER_MPLS]] = [*NETWORKS].index("mpls-label")
# A tag that begins later is not followed: the IP header behind it might lie behind the bytes that are side by side.
TAG_LATEST = 96
assert TAG_LATEST + 22 + 40 <= FIRST_BYTES
# PPP's numbers of IP and MPLS; the bit that control protocols have; the bit of a number that is one byte long; HDLC's
# address and control. The bit of the last label.
PPP_TYPES, PPP_CONTROL, PPP_SHORT, PPP_FRAMED = (0x0021, 0x0057, 0x0281), 0x8000, 0x0100, 0xFF03
LAST_LABEL = 0x0100
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
# The type that frames of these link types begin with.
STATED = {PPP: ETHER_PPP, MPLS: ETHER_MPLS[0]}


def network_at(frames: Frames, counts: Counter[str]) -> Column:
    """Return bytes before the IP packet in each frame; -1: there is none, which is counted; `UNKNOWN`: there may be
    one. The frames' networks get the names in their tags."""
    at = np.full(len(frames.start), -1, np.int64)
    same_link = bool((frames.link == frames.link[0]).all())
    for link in frames.link[:1].tolist() if same_link else np.unique(frames.link).tolist():
        rows = slice(None) if same_link else np.flatnonzero(frames.link == link)
        if link in PLAIN:
            at[rows] = PLAIN[link]
        elif link in TYPED:
            field, header = TYPED[link]
            at[rows] = _typed(frames, rows, _word(frames.data, frames.start[rows] + field), header, counts)
        elif link in STATED:
            kind = np.full(len(at[rows]), STATED[link], np.uint16)
            at[rows] = _typed(frames, rows, kind, 0, counts)
        elif link == UPPER_PDU:
            counts["plaintext"] += len(at[rows])
        elif link >= 0:
            at[rows] = UNKNOWN
    return at


def _typed(frames: Frames, rows: Column | slice, kind: Column, header: int, counts: Counter[str]) -> Column:
    """Return bytes before the IP packet in frames whose header names the protocol, `kind`; -1 and `UNKNOWN` as in
    `network_at`. Tags stand right before the packet, in SLL2 too, whose protocol field stands elsewhere."""
    data, start, kept, net = frames.data, frames.start[rows], frames.kept[rows], frames.net[rows]
    at = np.full(len(start), header, np.int64)
    while len(tagged := np.flatnonzero((TAG_BYTES[kind] > 0) & (at <= TAG_LATEST))):
        before, upper = kind[tagged], _word(data, start[tagged] + at[tagged]).astype(np.uint32)
        at[tagged] += TAG_BYTES[before]
        kind[tagged] = _word(data, start[tagged] + at[tagged] - 2)
        net[tagged] = in_network(net[tagged], TAG_NETWORK[before], upper << np.uint32(16) | kind[tagged])
        frames.net[rows] = net
        for types, after in ((PPPOE, ETHER_PPP), _after_number), (ETHER_MPLS, _after_label):
            some = tagged[(before == types[0]) | (before == types[1])]
            if len(some):
                at[some], kind[some] = after(data, start[some], at[some], kind[some])
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


def _after_number(data: Column, start: Column, at: Column, kind: Column) -> tuple[Column, Column]:
    """Return where the packet behind PPP's protocol number begins, and its Ethernet type."""
    framed = kind == PPP_FRAMED
    at = at + 2 * framed
    kind = np.where(framed, _word(data, start + at - 2), kind)
    short = (kind & PPP_SHORT) != 0
    kind = kind >> 8 * short
    types = np.select([kind == number for number in PPP_TYPES], [*ETHER_IP, ETHER_MPLS[0]], 0)
    return at - short, np.where((types == 0) & ((kind & PPP_CONTROL) != 0), PPPOE_CONTROL, types)


def _after_label(data: Column, start: Column, at: Column, kind: Column) -> tuple[Column, Column]:
    """Return where what follows a label begins, and its Ethernet type; what is no IP packet is an Ethernet frame."""
    word = _word(data, start + at)
    frame = at + np.where(word == 0, 18, 14)
    last, four, six = (kind & LAST_LABEL) != 0, word >> 12 == 4, word >> 12 == 6
    types = np.select([~last, four, six], [ETHER_MPLS[0], *ETHER_IP], _word(data, start + frame - 2).astype(np.int64))
    return np.where(last & ~four & ~six, frame, at), types


def _word(data: Column, at: Column) -> Column:
    """Return `word_at`, of the buffer's last word where that would lie behind it."""
    return word_at(data, np.minimum(at, len(data) - 2))


def word_at(data: Column, at: Column) -> Column:
    """Return the 16 bits at these places, in network order."""
    word: Column = data[at].astype(np.uint16) << np.uint16(8) | data[at + 1]
    return word
