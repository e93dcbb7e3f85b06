# SPDX-License-Identifier: MIT
"""Reported soon after their end, connections give the same results as when all are read at once; memory stays flat."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import opened
from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.fingerprint.passive.gathering import OPENING, TAIL, Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.model.nouns import ACK
from tests.support import capture_bytes as write
from tests.support.made_capture import Conversation, written
from tests.support.read_capture import reports
from tests.support.synthetic_capture import write as write_capture


def comparable(found: list[ConnectionReport]) -> list[tuple[object, ...]]:
    """In the order of their first frames."""
    # at the seams of parts a wait may be shared out otherwise; the whole time stays
    every = [
        (one.frame, one.client, one.server, {n: v for n, v in one.numbers.items() if not n.startswith("limit_")},
         sum(share.ns for share in one.limits), one.place, one.hellos,
         [(o.knob, o.value, o.grade, o.reason, o.details) for o in one.observations],
         [(w[:6], w[7:10]) for w in one.windows])
        for one in found
    ]  # fmt: skip
    return sorted(every, key=lambda row: row[0])


@pytest.mark.slow
@pytest.mark.parametrize("most", [500, 12_000, 20_000])
def test_parts_say_what_the_whole_says(tmp_path: Path, most: int) -> None:
    capture = tmp_path / "c.pcap"
    write_capture(capture, 30_000, snap=128, seed=3, pace_us=20_000)
    in_parts, gathering = reports(capture, most=most, buffer=1 << 16)
    assert most == 500 or comparable(in_parts) == comparable(reports(capture)[0])
    assert sum(int(one.numbers["packets"] or 0) for one in in_parts) == 30_000
    assert (gathering.counts["told-early"] > 0) == (most == 500)


@pytest.mark.slow
def test_a_long_connection_is_counted_whole(tmp_path: Path) -> None:
    """A download that goes on and on, and beside it connections that come and go."""
    conversation, at, segments = Conversation(start_s=1000.0), 1.0, 20_000
    for n in range(0, segments, 10):
        at = conversation.flight(at, n, 10) + 0.01
        conversation.ack(at, n + 10)
        if n % 1000 == 0:
            conversation.flight(at + 0.001, n + 3, 1, echo_s=at)
    conversation.end(at + 1, segments)
    path = written((*conversation.frames, *write.conversation(6, start_ns=round(1010 * 1e9))), tmp_path)
    at_once, _ = reports(path)
    in_parts, gathering = reports(path, most=3_000, buffer=1 << 16)
    assert comparable(in_parts) == comparable(at_once)
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


@pytest.mark.slow
def test_memory_does_not_grow(tmp_path: Path) -> None:
    """Peak of what Python and numpy hold, for a capture and for one four times as long."""
    peaks = []
    for packets in (15_000, 60_000):
        path = tmp_path / f"{packets}.pcap"
        write_capture(path, packets, snap=96, pace_us=20_000)
        tracemalloc.start()
        gathering, total = Gathering(6_000), 0
        with opened(str(path)) as source:
            for frames in read(source, gathering.counts, buffer=1 << 18):
                rows = decode(frames, gathering.pairs, gathering.heads, gathering.counts)
                total += sum(len(batch.over) for batch in gathering.take(rows))
        total += sum(len(batch.over) for batch in gathering.finish())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert total == gathering.counts["connections"]
    assert peaks[1] < 1.3 * peaks[0], peaks
