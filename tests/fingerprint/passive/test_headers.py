# SPDX-License-Identifier: MIT
"""Rows are what `probe/wire/frames.py` dissects, frame by frame; what is no row is counted under its name."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint.passive.columns import ABSENT, DF, DSACKED, SACK_OK, SACKED, STAMPED
from configtron.model.nouns import OPT_SACK, OPT_SACK_PERMITTED, Segment
from configtron.probe.wire.frames import Envelope, build, dissect
from tests.fingerprint.capture.test_reading import PLAIN, TALK, rows_of, same
from tests.support import capture_bytes as write

NUMBER = st.integers(0, 0xFFFFFFFF)
OPTION = st.one_of(
    st.tuples(st.just(8), st.binary(min_size=8, max_size=8)), st.just((1, b"")), st.just((4, b"")),
    st.tuples(st.just(2), st.binary(min_size=2, max_size=2)), st.tuples(st.just(3), st.binary(min_size=1, max_size=1)),
    st.tuples(st.just(5), st.sampled_from([bytes(8), bytes(16)])),
    st.tuples(st.integers(9, 255), st.binary(max_size=6)),
)  # fmt: skip


def fits(options: list[tuple[int, bytes]]) -> bool:
    return sum(1 if kind == 1 else 2 + len(body) for kind, body in options) <= 40


SEGMENTS = st.builds(
    Segment, flags=st.integers(0, 0xFFF), window=st.integers(0, 65535),
    options=st.lists(OPTION, max_size=6).filter(fits).map(tuple), payload=st.binary(max_size=30),
)  # fmt: skip


@st.composite
def packets(draw: st.DrawFn) -> bytes:
    size = draw(st.sampled_from((4, 16)))
    port, octet, address = st.integers(0, 65535), st.integers(0, 255), st.binary(min_size=size, max_size=size)
    ends = (draw(address), draw(address), draw(port), draw(port))
    envelope = Envelope(*ends, ttl=draw(octet), tos=draw(octet), ident=draw(port), df=draw(st.booleans()))
    return build(envelope, draw(SEGMENTS), draw(NUMBER), draw(NUMBER))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(packets(), min_size=1, max_size=8), st.sampled_from((0, 60, 70)))
def test_rows_are_what_is_dissected(frames: list[bytes], snap: int) -> None:
    rows, counts, _ = rows_of(write.pcap([(n, frame) for n, frame in enumerate(frames)], nano=True, snap=snap))
    known = {int(frame): row for row, frame in enumerate(rows.frame)}
    for number, data in enumerate(frames, 1):
        kept = data[:snap] if snap else data
        found = dissect(kept, len(data))
        if found is None:
            # frames.py wants the options whole; a row does without them.
            continue
        row = known[number]
        assert (found.seq, found.ack, found.window, found.length) == tuple(
            int(column[row]) for column in (rows.seq, rows.ack, rows.window, rows.length)
        )
        assert (found.flags, found.ttl, found.tos) == (rows.flags[row], rows.ttl[row], rows.tos[row])
        assert (found.ident, found.df) == (rows.ident[row], bool(rows.bits[row] & DF))
        segment = Segment(0, options=found.options)
        stamps = segment.timestamps
        assert (stamps is not None) == bool(rows.bits[row] & STAMPED)
        if stamps is not None and sum(kind == 8 for kind, _ in found.options) == 1:
            assert stamps == (rows.tsval[row], rows.tsecr[row])
        kinds = {kind: len(body) for kind, body in found.options}
        assert (OPT_SACK_PERMITTED in kinds) == bool(rows.bits[row] & SACK_OK)
        assert (OPT_SACK in kinds) == bool(rows.bits[row] & (SACKED | DSACKED))
        assert (segment.mss is None) == (rows.mss[row] == ABSENT) and segment.mss in (None, rows.mss[row])
        assert segment.wscale in (None, rows.wscale[row])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(packets(), min_size=2, max_size=8))
def test_both_directions_are_one_pair(frames: list[bytes]) -> None:
    rows, _, _ = rows_of(write.pcap(list(enumerate(frames)), nano=True))
    ends: dict[frozenset[tuple[bytes, int]], set[int]] = {}
    for number, data in enumerate(frames, 1):
        found = dissect(data)
        assert found is not None
        key = frozenset(((found.source, found.source_port), (found.destination, found.destination_port)))
        ends.setdefault(key, set()).add(int(rows.pair[np.flatnonzero(rows.frame == number)[0]]))
    assert all(len(numbers) == 1 for numbers in ends.values())
    assert len(set.union(*ends.values())) == len(ends)


def family(order: str, six: int) -> Callable[[bytes], bytes]:
    return lambda f: struct.pack(f"{order}I", 2 if f[0] >> 4 == 4 else six) + f


LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "ethernet": (1, write.ethernet), "802.1Q": (1, lambda f: write.ethernet(f, 0x8100)),
    "QinQ": (1, lambda f: write.ethernet(f, 0x88A8, 0x8100)),
    "QinQ of old": (1, lambda f: write.ethernet(f, 0x9100, 0x8100)),
    "Linux cooked": (113, lambda f: bytes(14) + write.kind(f) + f),
    "Linux cooked 2": (276, lambda f: write.kind(f) + bytes(18) + f),
    "Linux cooked with a tag": (113, lambda f: bytes(14) + b"\x81\x00\x00\x05" + write.kind(f) + f),
    "raw": (101, bytes), "raw, BSD's number": (12, bytes), "loopback": (0, family("<", 30)),
    "OpenBSD loopback": (108, family(">", 24)),
}  # fmt: skip


@pytest.mark.parametrize("name", LINKS)
def test_link_layers(name: str) -> None:
    link, wrap = LINKS[name]
    rows, _, _ = rows_of(write.pcap([(at, wrap(frame)) for at, frame in TALK], nano=True, link=link))
    assert same(rows, PLAIN)


def extended(packet: bytes, *headers: tuple[int, bytes], last: int = 6) -> bytes:
    """IPv6 with extension headers (kind, body from its second byte on) before TCP."""
    kinds = [kind for kind, _ in headers] + [last]
    chain = b"".join(bytes((after,)) + body for (_, body), after in zip(headers, kinds[1:], strict=True))
    size = int.from_bytes(packet[4:6], "big") + len(chain)
    return packet[:4] + size.to_bytes(2, "big") + bytes((kinds[0],)) + packet[7:40] + chain + packet[40:]


SIX = write.conversation(6)
HOP, OPTIONS, ROUTE, AUTH = (0, bytes(7)), (60, bytes(7)), (43, b"\x01" + bytes(14)), (51, b"\x04" + bytes(22))
ATOMIC, FIRST, LATER = (44, bytes(7)), (44, b"\x00\x00\x01" + bytes(4)), (44, b"\x00\x05\xa8" + bytes(4))


@pytest.mark.parametrize("headers", [(HOP,), (HOP, ROUTE), (AUTH, ATOMIC), (HOP, ROUTE, AUTH, ATOMIC)])
def test_extension_headers_are_passed(headers: tuple[tuple[int, bytes], ...]) -> None:
    """IPv4 knows one of them, AH (RFC 4302)."""
    frames = [(at, sealed(f) if f[0] >> 4 == 4 else extended(f, *headers)) for at, f in TALK]
    assert same(rows_of(write.pcap(frames, nano=True))[0], PLAIN)


def routed(packet: bytes, kind: int, *after: bytes) -> bytes:
    """The same IPv6 packet on its way to an address before its own; `after`: addresses behind its own in the header."""
    hops = (*after, packet[24:40]) if kind == 0 else (packet[24:40], *after)
    way = packet[:24] + b"\xfd" + bytes(14) + b"\7" + packet[40:]
    return extended(way, (43, bytes((len(hops) * 2, kind, len(hops))) + bytes(4) + b"".join(hops)))


@pytest.mark.parametrize(("kind", "after"), [(0, ()), (0, (b"\xfe" * 16,)), (2, ()), (4, ()), (4, (b"\xfe" * 16,) * 3)])
def test_a_packet_on_its_way_goes_to_its_last_address(kind: int, after: tuple[bytes, ...]) -> None:
    """The answers go without a routing header; of a type that is not read, the frame is counted."""
    back = SIX[1][1][8:24]
    frames = [(at, f if f[8:24] == back else routed(f, kind, *after)) for at, f in SIX]
    rows, _, _ = rows_of(write.pcap([*frames, *SIX], nano=True))
    plain, _, _ = rows_of(write.pcap([*SIX, *SIX], nano=True))
    assert same(rows, plain) and set(rows.pair.tolist()) == {0}
    _, counts, _ = rows_of(
        write.pcap([(0, routed(SIX[0][1], 3)), (0, extended(SIX[0][1], (43, b"\0\4\1" + bytes(4))))])
    )
    assert counts["unread-routing"] == 2 and not counts["tcp"]


def sealed(packet: bytes) -> bytes:
    """IPv4 with AH before what it carries."""
    size = int.from_bytes(packet[2:4], "big") + 24
    head = packet[:2] + size.to_bytes(2, "big") + packet[4:9] + b"\x33" + packet[10:20]
    return head + packet[9:10] + AUTH[1] + packet[20:]


PLACES = {"first": (0, 1), "total": (2, 2), "fragment": (6, 2), "protocol": (9, 1), "offset": (32, 1)}


def changed(packet: bytes, **fields: int) -> bytes:
    data = bytearray(packet)
    for name, value in fields.items():
        at, size = PLACES[name]
        data[at : at + size] = value.to_bytes(size, "big")
    return bytes(data)


FOUR = TALK[4][1]
NO_ROWS = {
    "unread-fragment": (101, changed(FOUR, fragment=0x2000)),
    "unread-fragment, a later one behind AH": (101, changed(sealed(FOUR), fragment=100)),
    "unread-fragment of IPv6": (101, extended(SIX[4][1], FIRST)),
    "unread-fragment of IPv6, a later one of what begins with options": (101, extended(SIX[4][1], HOP, LATER, OPTIONS)),
    "fragment of UDP": (101, changed(FOUR, fragment=0x2000, protocol=17)),
    "udp": (101, changed(FOUR, protocol=17)),
    "icmp": (101, changed(FOUR, protocol=1)),
    "other-protocol": (101, changed(FOUR, protocol=89)),
    "other-protocol, HIP, which extends IPv6 alone": (101, changed(FOUR, protocol=139)),
    "unread-extensions": (101, extended(SIX[4][1], *[OPTIONS] * 9)),
    "unread-gre": (101, changed(FOUR, protocol=47)),
    "unread-ip-in-ip behind a routing header": (101, extended(SIX[4][1], HOP, ROUTE, ATOMIC, last=4)),
    "unread-l2tpv3": (101, changed(FOUR, protocol=115)),
    "unread-6in4 behind AH": (101, sealed(changed(FOUR, protocol=41))),
    "unread-mpls": (1, bytes(12) + b"\x88\x47" + bytes(100)),
    "unread-llc": (1, bytes(12) + b"\x00\x20\xaa\xaa\x03\x00\x00\x00\x08\x00" + bytes(30)),
    "not-ip but a spanning tree": (1, bytes(12) + b"\x00\x20\x42\x42\x03" + bytes(30)),
    "not-ip but of Cisco": (1, bytes(12) + b"\x00\x20\xaa\xaa\x03\x00\x00\x0c\x20\x00" + bytes(30)),
    "malformed-ip": (101, changed(FOUR, first=0x41)),
    "malformed-ip of version 9": (101, changed(FOUR, first=0x95)),
    "malformed-ip shorter than its header": (101, changed(FOUR, total=10)),
    "malformed-tcp": (101, changed(FOUR, offset=0x10)),
    "malformed-tcp longer than its packet": (101, changed(FOUR, total=44, offset=0xF0)),
    "cut-header": (101, FOUR),
    "cut-header in IP": (101, FOUR),
    "cut-header in Ethernet": (1, bytes(13)),
    "arp": (1, bytes(12) + b"\x08\x06" + bytes(30)),
    "lldp": (1, bytes(12) + b"\x88\xcc" + bytes(30)),
    "plaintext": (252, bytes(30)),
    "link-type-105": (105, bytes(30)),
}


@pytest.mark.parametrize("name", NO_ROWS)
def test_what_is_no_row_is_named(name: str) -> None:
    link, frame = NO_ROWS[name]
    snap = {"cut-header": 39, "cut-header in IP": 12}.get(name, 0)
    rows, counts, _ = rows_of(write.pcap([(0, frame)], link=link, snap=snap))
    assert rows.size == 0
    assert {key: value for key, value in counts.items() if value} == {"frames": 1, re.split("[ ,]", name)[0]: 1}


@pytest.mark.parametrize(("frame", "link", "length", "beyond"), [
    # padding is no payload; an offloaded frame has its own length
    (write.ethernet(TALK[2][1]) + bytes(20), 1, 0, 0), (changed(FOUR, total=0), 101, 1000, 0),
    (FOUR[:-100], 101, 1000, 1),
])  # fmt: skip
def test_lengths_are_those_of_ip(frame: bytes, link: int, length: int, beyond: int) -> None:
    rows, counts, _ = rows_of(write.pcap([(0, frame)], link=link))
    assert rows.length.tolist() == [length] and counts["longer-than-frame"] == beyond
