# SPDX-License-Identifier: MIT
"""The codec: total on any bytes, its own inverse, and of one mind with scapy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop

from configtron.model.nouns import ACK, FIN, OPT_EOL, PSH, RST, SYN, Segment
from configtron.probe.script import syn_options
from configtron.probe.wire import frames
from configtron.probe.wire.frames import Dissected, Envelope, Numbers, build, dissect, heard, sent

NUMBER = st.integers(0, 0xFFFFFFFF)
PORT = st.integers(0, 65535)
OPTION = st.one_of(st.just((1, b"")), st.tuples(st.integers(2, 255), st.binary(max_size=8)))
OPTIONS = st.lists(OPTION, max_size=4).map(tuple)
SEGMENT = st.builds(
    lambda flags, window, options, payload: Segment(flags, 0, 0, window, options, payload, len(payload)),
    st.integers(0, 0xFFF),
    PORT,
    OPTIONS,
    st.binary(max_size=80),
)


def envelopes(size: int) -> st.SearchStrategy[Envelope]:
    address, four = st.binary(min_size=size, max_size=size), size == 4
    ident, df = PORT if four else st.just(0), st.booleans() if four else st.just(False)
    return st.builds(Envelope, address, address, PORT, PORT, st.integers(0, 255), st.integers(0, 255), ident, df)


ENVELOPE = envelopes(4) | envelopes(16)


def dissected(data: bytes, length: int | None = None) -> Dissected:
    found = dissect(data, length)
    assert found is not None
    return found


@given(st.binary(max_size=120), st.one_of(st.none(), st.integers(0, 70000)), st.integers(0, 65535))
def test_any_bytes_are_taken(data: bytes, length: int | None, gso_size: int) -> None:
    for start in (b"", b"\x45\x00", b"\x60\x00", bytes.fromhex("450000340000400040060000") + bytes(8)):
        found = dissect(start + data, length)
        if found is not None:
            heard(found, start + data, gso_size, Numbers(0), 0.0, 0)


@given(st.binary(max_size=40))
def test_any_options_are_taken(data: bytes) -> None:
    options = frames.read_options(data)
    # What was read is a beginning of what was there: written again it is the same bytes, then padding.
    size = sum(1 if kind < 2 else len(body) + 2 for kind, body in options)
    assert frames.write_options(options)[:size] == data[:size]


@given(ENVELOPE, SEGMENT, NUMBER, NUMBER)
def test_built_is_dissected(envelope: Envelope, segment: Segment, seq: int, ack: int) -> None:
    data = build(envelope, segment, seq, ack)
    found = dissected(data)
    assert (found.source, found.destination) == (envelope.source, envelope.destination)
    assert (found.source_port, found.destination_port) == (envelope.source_port, envelope.destination_port)
    assert (found.ttl, found.tos, found.ident, found.df) == envelope[4:]
    assert (found.flags, found.seq, found.ack, found.window) == (segment.flags, seq, ack, segment.window)
    options = list(found.options)
    while options and options[-1][0] == OPT_EOL:
        options.pop()
    assert tuple(options) == segment.options
    assert data[found.payload_at : found.payload_end] == segment.payload


@given(
    ENVELOPE, SEGMENT, NUMBER, NUMBER, st.sampled_from(((), syn_options(), syn_options(64, timestamps=True, wscale=7)))
)
def test_checksums_are_scapys(
    envelope: Envelope, segment: Segment, seq: int, ack: int, options: tuple[tuple[int, bytes], ...]
) -> None:
    # Only options that scapy writes as it read them: it rewrites malformed ones.
    data = build(envelope, segment._replace(options=options), seq, ack)
    outer = IP if len(envelope.source) == 4 else IPv6
    parsed = outer(data)
    del parsed[TCP].chksum
    if outer is IP:
        del parsed.chksum
    assert bytes(parsed) == data


def test_scapys_packets_are_read() -> None:
    options = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (7, 9)), ("NOP", None), ("WScale", 10)]
    tcp = TCP(sport=80, dport=4000, flags="SA", seq=5, ack=6, window=64240, options=options)
    for packet in (
        IP(src="10.0.0.1", dst="10.0.0.2", ttl=57, id=3, flags="DF") / tcp,
        IPv6(src="fd00::1", dst="fd00::2", hlim=57) / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / tcp,
    ):
        found = dissected(bytes(packet))
        assert (found.seq, found.ack, found.flags, found.window, found.ttl) == (5, 6, SYN | ACK, 64240, 57)
        assert [kind for kind, _ in found.options] == [2, 4, 8, 1, 3]
        assert (found.df, found.ident) == ((True, 3) if found.version == 4 else (False, 0))


def test_options_after_the_end_are_padding() -> None:
    assert frames.read_options(b"\x02\x04\x05\xb4\x00\x00\x00\x00") == ((2, b"\x05\xb4"), *[(0, b"")] * 4)
    assert frames.read_options(b"\x00\x02\x04\x05") == ((0, b""),)
    assert frames.read_options(b"\x02\x04\x05\xb4\x08\x30\x00\x00") == ((2, b"\x05\xb4"),)
    assert frames.read_options(b"\x01\x02\x00\x00") == ((1, b""),)


def server(segment: Segment, seq: int, ack: int) -> bytes:
    return build(Envelope(bytes(4), bytes(4), 80, 4000, ident=65535), segment, seq, ack)


def test_merged_frames_are_taken_apart() -> None:
    payload = bytes(range(250))
    data = server(Segment(ACK | PSH | FIN, payload=payload, length=250), 1000, 77)
    numbers = Numbers(70)
    numbers.hear(999, SYN | ACK)
    found = dissected(data)
    packets = heard(found, data, 100, numbers, 1.5, 3)
    assert [(p.segment.seq, p.segment.length, p.segment.payload) for p in packets] == [
        (1, 100, payload[:100]), (101, 100, payload[100:200]), (201, 50, payload[200:]),
    ]  # fmt: skip
    assert [p.segment.flags for p in packets] == [ACK, ACK, ACK | PSH | FIN]
    assert {(p.at, p.frame, p.segment.ack) for p in packets} == {(1.5, 3, 7)}
    assert [p.ident for p in packets] == [65535, 0, 1]


@given(st.integers(1, 3000), st.integers(1, 1460), st.integers(0, 3000))
def test_merged_bytes_are_all_there(length: int, gso_size: int, kept: int) -> None:
    data = server(Segment(ACK, payload=b"x" * length, length=length), 1, 1)
    found = dissected(data)
    packets = heard(found, data[: found.payload_at + kept], gso_size, Numbers(0), 0.0, 0)
    assert sum(p.segment.length for p in packets) == length
    assert all(a.segment.end == b.segment.seq for a, b in zip(packets, packets[1:], strict=False))
    assert b"".join(p.segment.payload for p in packets) == b"x" * min(kept, length)


def test_snapping_keeps_small_segments_whole() -> None:
    data = server(Segment(ACK, payload=b"x" * 2000, length=2000), 1, 1)
    found = dissected(data)
    assert len(frames.snapped(found, data, 0)) == found.payload_at + frames.SNAP_PAYLOAD
    assert frames.snapped(found, data, 64) == data
    assert dissected(frames.snapped(found, data, 0), len(data)).length == 2000


def test_numbers_are_relative_to_each_sides_first() -> None:
    numbers = Numbers(0xFFFFFFFF)
    assert numbers.absolute(Segment(SYN)) == (0xFFFFFFFF, 0)
    numbers.hear(0xFFFFFFF0, SYN | ACK)
    assert numbers.of_theirs(0xFFFFFFF0, 0, SYN | ACK) == (0, 1)
    assert numbers.of_theirs(0x10, 0, ACK) == (0x20, 1)
    assert numbers.absolute(Segment(ACK, 1, 0x20)) == (0, 0x10)
    numbers.hear(5, SYN | ACK)
    assert numbers.of_theirs(0xFFFFFFEF, 0, ACK)[0] == -1, "a second initial number is not believed; -1 is a keep-alive"


def test_a_refusal_has_seq_0_until_a_syn_says_otherwise() -> None:
    numbers = Numbers(9)
    numbers.hear(1234, RST | ACK)
    assert numbers.of_theirs(1234, 10, RST | ACK) == (0, 1)
    numbers.hear(5000, SYN | ACK)
    assert numbers.of_theirs(5001, 10, ACK) == (1, 1)


@given(SEGMENT, NUMBER)
def test_what_we_sent_is_read_as_it_was_stated(segment: Segment, isn: int) -> None:
    numbered = segment._replace(seq=17, ack=5)
    numbers = Numbers(isn)
    numbers.hear(isn ^ 0x55, SYN | ACK)
    data = build(Envelope(b"abcd", b"efgh", 1, 2, ident=9), numbered, *numbers.absolute(numbered))
    packet = sent(data, numbers, 0.25, 4)
    assert packet is not None and packet.segment == numbered
    assert (packet.at, packet.frame, packet.way) == (0.25, 4, "out")
