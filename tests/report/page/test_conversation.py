# SPDX-License-Identifier: MIT
"""A conversation in words, and drawn."""

from __future__ import annotations

from dataclasses import replace

from configtron.model.nouns import Message, Observation, Packet, Session, Target, Trace
from configtron.report.page.conversation import MOST_LINES, Note, conversation
from configtron.report.page.ladder import flights, ladder
from configtron.report.page.markup import written
from tests.support.tiny_run import segments

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
SETTINGS = bytes.fromhex("00000c0400000000000003000000640004000100000aaa")[:21]
ANNOUNCED = (Message(0.3, "out", PREFACE), Message(0.35, "in", SETTINGS))


def trace(window: int, messages: tuple[Message, ...] = (), session: Session | None = None) -> Trace:
    packets = tuple(Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(segments(window)))
    return Trace("na/a/icw.1", Target("a"), "na", "icw", packets=packets, messages=messages, session=session)


def icw(window: int) -> Observation:
    return Observation("icw", window, grade="C", evidence=tuple(range(3, 3 + window)))


def test_packets_are_named_and_what_follows_the_proof_is_counted() -> None:
    shown = conversation(trace(2), icw(2))
    assert [(line.text, line.proof) for line in shown.lines] == [
        ("SYN window 65535 MSS 1460", False), ("SYN ACK window 64240 MSS 1460", False), ("bytes 1–5", False),
        ("bytes 1–100", True), ("bytes 101–200", True), ("again: bytes 1–100", False), ("RST", False),
    ]  # fmt: skip
    assert shown.more == 0
    assert [line.again for line in conversation(trace(1), icw(1)).lines] == [False, False, False, False, True, False]
    shown = conversation(trace(2), Observation("rwin", 64240, grade="C", evidence=(1,)))
    assert [line.proof for line in shown.lines] == [False, True, False, False, False, False]
    assert shown.more == 1
    assert len(conversation(trace(500), icw(500)).lines) == MOST_LINES
    shown = conversation(Trace("na/a/icw.1", Target("a"), "na", "icw"), icw(4))
    assert shown.lines == () and "viewBox" in written(ladder(shown, "nothing"))


def test_what_was_lost_is_reported_where_it_is_missed() -> None:
    whole = trace(5)
    lossy = replace(whole, packets=tuple(packet for n, packet in enumerate(whole.packets) if n != 5))
    shown = conversation(lossy, icw(5))
    assert [line.notes for line in shown.lines if line.notes] == [
        (Note("(bytes 201–300 did not arrive before)", False),)
    ]
    assert [len(flight.lines) for flight in flights(shown.lines)] == [1] * len(shown.lines)


def test_what_was_said_is_shown_and_the_setting_that_was_read_is_marked() -> None:
    shown = conversation(trace(1, ANNOUNCED), Observation("h2_max_concurrent_streams", 100, grade="C", evidence=(3,)))
    ours, theirs = (line for line in shown.lines if line.inside)
    assert (ours.way, ours.proof, ours.notes) == ("out", False, (Note("(none: the defaults)", False),))
    limits = Note("MAX_CONCURRENT_STREAMS = 100", True), Note("INITIAL_WINDOW_SIZE = 65536", False)
    assert theirs.proof and theirs.notes == limits
    read = Observation("http_version", "h2", grade="C", evidence=(3,))
    shown = conversation(trace(1, (), Session("TLSv1.3", "h2")), read)
    assert [line.notes for line in shown.lines if line.proof] == [(Note("ALPN h2", True),)]
    # words that are no frames
    messages = (Message(0.1, "out", b"GET / HTTP/1.1\r\nHost: a\r\n"), Message(0.2, "in", b"\x00\x01\x02"))
    shown = conversation(trace(1, messages), Observation("http_tls", "http/1.1", grade="C", evidence=(20,)))
    assert {line.text for line in shown.lines if line.inside} <= {"GET / HTTP/1.1", "3 bytes"}


def test_the_drawing_says_what_it_shows() -> None:
    drawn = ladder(conversation(trace(10), icw(10)), "Initial congestion window of a: 10")
    text = written(drawn)
    assert text.count("head-proof") == 10 and "10 segments, 1000 bytes" in text and "1.00 s later" in text
    assert (drawn.get("aria-label") or "").startswith("Initial congestion window of a: 10. 0.000 s out SYN")
    width, height = (float(number) for number in (drawn.get("viewBox") or "").split()[2:])
    for shape in drawn.iter():
        for name, most in (("x1", width), ("x2", width), ("y1", height), ("y2", height), ("y", height)):
            assert 0 <= float(shape.get(name, "0")) <= most, (shape.tag, name)
