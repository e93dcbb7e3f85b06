# SPDX-License-Identifier: MIT
"""Reported soon after their end, connections give the same results as when all are read at once; memory stays flat."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import opened
from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.fingerprint.passive.gathering import OPENING, TAIL, Batch, Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.model.nouns import ACK, SYN
from tests.support import capture_bytes as write
from tests.support.made_capture import Conversation
from tests.support.read_capture import reports
from tests.support.synthetic_capture import write as write_capture


def comparable(one: ConnectionReport) -> tuple[object, ...]:
    observations = tuple((o.knob, o.value, o.grade, o.reason, o.details) for o in one.observations)
    return one.frame, one.client, one.server, one.numbers, one.place, one.hellos, observations


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("c") / "c.pcap"
    write_capture(path, 30_000, snap=128, seed=3, pace_us=20_000)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("most", [500, 12_000, 20_000])
def test_parts_say_what_the_whole_says(capture: Path, most: int) -> None:
    at_once, _ = reports(capture)
    in_parts, gathering = reports(capture, most=most, buffer=1 << 16)
    if most >= 12_000:
        assert sorted(map(comparable, in_parts), key=lambda t: t[0]) == [comparable(one) for one in at_once]
    assert sum(int(one.numbers["packets"] or 0) for one in in_parts) == 30_000
    assert (gathering.counts["told-early"] > 0) == (most == 500)


def long_conversation(segments: int) -> Conversation:
    """A download that goes on and on, and beside it connections that come and go."""
    conversation = Conversation(start_s=1000.0)
    at = 1.0
    for n in range(0, segments, 10):
        at = conversation.flight(at, n, 10) + 0.01
        conversation.ack(at, n + 10)
        if n % 1000 == 0:
            conversation.flight(at + 0.001, n + 3, 1, echo_s=at)
    conversation.end(at + 1, segments)
    return conversation


@pytest.mark.slow
def test_a_long_connection_is_counted_whole(tmp_path: Path) -> None:
    conversation = long_conversation(20_000)
    other = write.conversation(6, start_ns=round(1010 * 1e9))
    path = tmp_path / "long.pcap"
    path.write_bytes(write.pcap(sorted((*conversation.frames, *other), key=lambda frame: frame[0]), nano=True))
    at_once, _ = reports(path)
    in_parts, gathering = reports(path, most=3_000, buffer=1 << 16)
    assert sorted(map(comparable, in_parts), key=lambda t: t[0]) == [comparable(one) for one in at_once]
    assert gathering.counts["told-early"] == 0
    assert at_once[0].numbers["server_unneeded"] == 20


@pytest.mark.slow
def test_a_stream_of_many_gigabytes_keeps_its_place(tmp_path: Path) -> None:
    """Numbers wrap at 4 GB; what is kept between parts must not lose count."""
    conversation = Conversation(stamps=False)
    size, step = 60_000, 60_000 * 200
    at = 1.0
    for n in range(800):
        for k in range(2):
            conversation.send(1, at, ACK, 1 + n * step + k * size, 101, size)
        at += 0.01
        conversation.send(0, at, ACK, 101, 1 + n * step + 2 * size)
    path = tmp_path / "gigabytes.pcap"
    path.write_bytes(write.pcap(conversation.frames, nano=True))
    for most in (None, 1_500):
        (one,), _ = reports(path, most=most, buffer=1 << 17)
        assert one.numbers["server_bytes"] == 799 * step + 2 * size
        assert int(one.numbers["packets"] or 0) > OPENING + TAIL


def test_a_reused_port_is_another_connection(tmp_path: Path) -> None:
    first = Conversation()
    first.flight(1.0, 0, 3)
    first.end(1.1, 3)
    frames = [*first.frames]
    again = Conversation(start_s=1100.0)
    again.frames.clear()
    again.base = (77_000, 88_000)
    again.send(0, 0.0, SYN, 0, 0, options=((2, b"\x03\xe8"),))
    again.send(1, 0.1, SYN | ACK, 0, 1, options=((2, b"\x03\xe8"),))
    again.send(0, 0.1, ACK, 1, 1)
    path = tmp_path / "again.pcap"
    path.write_bytes(write.pcap([*frames, *again.frames], nano=True))
    for most in (None, 5):
        found, _ = reports(path, most=most)
        assert [one.numbers["packets"] for one in found] == [len(frames), 3]


@pytest.mark.slow
def test_memory_does_not_grow(tmp_path: Path) -> None:
    """Peak of what Python and numpy hold, for a capture and for one four times as long."""
    peaks = []
    for packets in (15_000, 60_000):
        path = tmp_path / f"{packets}.pcap"
        write_capture(path, packets, snap=96, pace_us=20_000)
        tracemalloc.start()
        gathering = Gathering(6_000)
        total = sum(len(batch.over) for batch in batches(path, gathering))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert total == gathering.counts["connections"]
    assert peaks[1] < 1.3 * peaks[0], peaks


def batches(path: Path, gathering: Gathering) -> Iterator[Batch]:
    with opened(str(path)) as source:
        for frames in read(source, gathering.counts, buffer=1 << 18):
            yield from gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts))
    yield from gathering.finish()
