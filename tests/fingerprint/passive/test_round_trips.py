# SPDX-License-Identifier: MIT
"""Round trips and rates of segments: exact on scripted conversations, the same in parts, and total on any rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import opened
from configtron.fingerprint.passive.gathering import Batch, Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.summary import TRIPS
from configtron.model.nouns import ACK, PSH, SYN
from configtron.probe.script import syn_options
from tests.support import capture_bytes as write
from tests.support.made_capture import FULL, RTT_S, Conversation
from tests.support.synthetic_capture import write as write_capture

MS = 1_000_000


def trips(conversation: Conversation, folder: Path, side: str = "server") -> dict[str, int]:
    path = folder / "s.pcap"
    path.write_bytes(write.pcap(sorted(conversation.frames, key=lambda frame: frame[0]), nano=True))
    ((_, columns),) = by_frame(path)
    return {name: columns[f"{side}_{name}"] for name in TRIPS}


def by_frame(path: Path, *, lapse_every: int = 0, most: int = 100_000) -> list[tuple[int, dict[str, int]]]:
    """(first frame, columns) of each connection; reported in parts if asked, as `live` does."""
    gathering = Gathering(most, trips=True)
    found: list[tuple[int, dict[str, int]]] = []

    def keep(batch: Batch) -> None:
        columns = batch.summary.columns
        for n in batch.over.tolist():
            found.append((int(columns["frame"][n]), {name: int(column[n]) for name, column in columns.items()}))

    with opened(str(path)) as source:
        for turn, frames in enumerate(read(source, gathering.counts, buffer=1 << 15)):
            rows = decode(frames, gathering.pairs, gathering.heads, gathering.counts)
            for batch in gathering.take(rows):
                keep(batch)
            if lapse_every and turn % lapse_every == 0:
                for batch in gathering.lapse(int(frames.at[-1])):
                    keep(batch)
    for batch in gathering.finish():
        keep(batch)
    return sorted(found, key=lambda one: one[0])


def test_a_round_trip_is_from_the_last_byte_covered_to_its_ack(tmp_path: Path) -> None:
    """At the server: SYN-ACK to ACK, then two flights whose last segments wait 80 and 120 ms."""
    conversation = Conversation()
    end = conversation.flight(1.0, 0, 4)
    conversation.ack(end - 0.0001 + 0.080, 4)
    end = conversation.flight(2.0, 4, 4)
    conversation.ack(end - 0.0001 + 0.120, 8)
    found = trips(conversation, tmp_path)
    # The capture stands at the client, whose ACK of the SYN-ACK follows at once.
    assert found["trips"] == 3 and found["trip_least"] == 0
    assert found["trip_sum"] == pytest.approx(200 * MS, abs=3)
    assert found["trip_steps"] == 2 and found["trip_change"] == pytest.approx((80 + 40) * MS, abs=3)


def test_the_client_times_its_own(tmp_path: Path) -> None:
    conversation = Conversation()
    conversation.flight(1.0, 0, 2)
    found = trips(conversation, tmp_path, "client")
    assert found["trips"] == 2
    assert found["trip_least"] == round(RTT_S * 1000) * MS
    assert found["trip_sum"] == pytest.approx((100 + 1000 - 101) * MS, abs=3)


def test_what_was_sent_again_times_nothing(tmp_path: Path) -> None:
    """Karn: the ACK of a repeated flight says nothing; that of the next one does."""
    conversation = Conversation()
    conversation.flight(1.0, 0, 3)
    conversation.flight(1.3, 0, 1)
    conversation.ack(1.4, 3)
    conversation.flight(2.0, 3, 1)
    conversation.ack(2.05, 4)
    found = trips(conversation, tmp_path)
    assert found["trips"] == 2 and found["trip_sum"] == pytest.approx(50 * MS, abs=3)


def test_an_ack_within_a_merged_frame_times_it(tmp_path: Path) -> None:
    conversation = Conversation()
    conversation.send(1, 1.0, 16, 1, 101, 40 * FULL)
    for n in range(1, 41):
        conversation.ack(1.0 + 0.050 + n / 1000, n)
    found = trips(conversation, tmp_path)
    assert found["trips"] == 41 and found["trip_least"] == 0
    assert found["trip_sum"] == pytest.approx(sum(50 + n for n in range(1, 41)) * MS, abs=50)


def test_a_rate_is_what_was_delivered_over_the_longer_of_two_times(tmp_path: Path) -> None:
    """A hundred segments, each acknowledged 50 ms after it was sent, one each ms: 988 bytes a millisecond."""
    conversation = Conversation()
    for n in range(300):
        conversation.send(1, 1.0 + n / 1000, 16, 1 + n * FULL, 101, FULL)
        conversation.ack(1.05 + n / 1000, n + 1)
    found = trips(conversation, tmp_path)
    # A sample spans the round trip: the segments acknowledged from when one is sent to its own ACK.
    assert found["rate_last"] == pytest.approx(FULL * 8_000, rel=0.025)
    assert found["rate_most"] == pytest.approx(FULL * 8_000, rel=0.025)


def test_a_trickle_after_a_flight_is_no_rate(tmp_path: Path) -> None:
    conversation = Conversation()
    end = conversation.flight(1.0, 0, 40)
    conversation.ack(end + 0.1, 40)
    conversation.send(1, 5.0, 16, 1 + 40 * FULL, 101, 10)
    conversation.send(0, 5.1, 16, 101, 11 + 40 * FULL)
    found = trips(conversation, tmp_path)
    assert found["rate_last"] == found["rate_most"] == pytest.approx(40 * FULL * 8 / 0.104, rel=0.01)


def test_nothing_sent_is_no_sample(tmp_path: Path) -> None:
    conversation = Conversation(opened=False)
    found = trips(conversation, tmp_path)
    assert found["trips"] == 0 and found["trip_least"] == found["rate_most"] == found["rate_last"] == -1


@pytest.mark.slow
def test_parts_add_up_to_the_whole(tmp_path: Path) -> None:
    """Every column, the trips' too, is the same whether connections are looked at once or in each half second."""
    path = tmp_path / "c.pcap"
    write_capture(path, 20_000, snap=128, seed=5, pace_us=200)
    whole, parts = by_frame(path), by_frame(path, lapse_every=3)
    assert [one[0] for one in parts] == [one[0] for one in whole]
    assert sum(one["client_trips"] + one["server_trips"] for _, one in whole) > 1000
    for (_, a), (_, b) in zip(whole, parts, strict=True):
        assert a == b


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_any_rows_are_read(tmp_path: Path, seed: int) -> None:
    """Random numbers, flags and lengths: columns come back, none of them raises, counts are not negative."""
    random = np.random.default_rng(seed)
    conversation = Conversation()
    for n in range(200):
        flags = int(random.choice([16, 24, 17, 2, 18, 4, 20, 0]))
        numbers = random.integers(-(1 << 31), 1 << 31, 2)
        conversation.send(
            int(random.integers(2)), 1 + n / 100, flags, *map(int, numbers), int(random.integers(3) * 700)
        )
    path = tmp_path / "x.pcap"
    path.write_bytes(write.pcap(conversation.frames, nano=True))
    for _, columns in by_frame(path, lapse_every=1, most=50):
        for side in ("client", "server"):
            assert all(columns[f"{side}_{name}"] >= -1 for name in TRIPS)


def test_the_handshake_ends_at_the_first_segment_that_acknowledges_it(tmp_path: Path) -> None:
    """At a server: the bare ACK and the first data are lost, and sent again 80 ms after the second data arrived."""
    conversation = Conversation(opened=False)
    conversation.frames.clear()
    options = syn_options(1000, timestamps=True, wscale=None, sack=True)
    conversation.send(0, 0.0, SYN, 0, 0, options=options)
    conversation.send(1, 0.0001, SYN | ACK, 0, 1, options=options)
    conversation.send(0, 0.041, ACK | PSH, 1001, 1, 345)
    conversation.send(0, 0.118, ACK, 1, 1, 1000)
    assert int(conversation.batch(tmp_path).summary.columns["rtt"][0]) == 41 * MS
