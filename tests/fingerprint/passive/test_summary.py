# SPDX-License-Identifier: MIT
"""Numbers of connections: each cause of a repeat as the wire shows it, round trips and rates; the same in parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import opened
from configtron.fingerprint.passive.gathering import Batch, Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.retransmissions import KINDS
from configtron.fingerprint.passive.summary import TRIPS
from configtron.model.nouns import ACK, FIN, PSH, SYN
from configtron.probe.script import syn_options
from tests.support.made_capture import FULL, RTT_S, Conversation, acked, flight, says, seen, talk, written
from tests.support.synthetic_capture import write as write_capture

AT = 1.0
MS = 1_000_000
# Ten segments, all acknowledged.
OPENED = (flight(AT - 0.5, 0, 10), acked(10, AT - 0.49))
AGAIN_S = AT + 0.002 + RTT_S
DUPLICATES = [acked(11, AT + 0.001 + n / 10_000, sack=(1 + 12 * FULL, 1 + (13 + n) * FULL)) for n in range(4)]


@pytest.mark.parametrize(("conversation", "found"), [
    # a timeout and what follows it
    (talk(*OPENED, flight(AT, 10, 4), flight(AT + 0.35, 10, 1), acked(11, AT + 0.351),
          flight(AT + 0.351 + RTT_S, 11, 2)), {"rto": 3}),
    # a tail loss probe; without SACK there is none
    (talk(*OPENED, flight(AT, 10, 4), flight(AT + 2 * RTT_S, 13, 1)), {"tlp": 1}),
    (talk(flight(AT, 0, 1), flight(AT + 0.35, 0, 1), sack=False), {"rto": 1}),
    # one side alone
    (talk(flight(AT, 0, 2), flight(AT + 0.35, 0, 1), opened=False, asked=False), {"rto": 1}),
    # seen before the loss the segment comes twice; seen behind it a hole is filled a round trip later
    (talk(*OPENED, flight(AT, 10, 6), *DUPLICATES, flight(AGAIN_S, 11, 1)), {"fast": 1}),
    (talk(*OPENED, flight(AT, 10, 6, skip=(1,)), *DUPLICATES, flight(AGAIN_S, 11, 1)), {"fast": 1, "hole": 1}),
    # an overtaken segment is no repeat, however late where an older stamp shows it
    (talk(flight(AT, 0, 6, skip=(2,)), flight(AT + 0.01, 2, 1), stamps=False), {"hole": 1, "reordered": 1}),
    (talk(*OPENED, flight(AT, 10, 6, skip=(2,)), says(1, AT - 0.01, ACK, 1 + 12 * FULL, 101, FULL),
          lambda c: c.delay(AT + 0.3)), {"hole": 1, "reordered": 1}),
    # what was acknowledged needs no repeat
    (talk(*OPENED, flight(AT, 10, 4), acked(14, AT + 0.01), flight(AT + 0.4, 10, 1)), {"unneeded": 1}),
    # keep-alives and window probes are no repeats, nor are closings data, nor is a FIN sent again
    (talk(*OPENED, *(says(1, AT + s, ACK, 10 * FULL, 101, n) for s, n in ((5, 1), (10, 0)))), {"keep_alives": 1}),
    (talk(*OPENED, lambda c: c.end(AT, 10), says(1, AT + 0.4, ACK | FIN, 1 + 10 * FULL, 101)), {}),
    # of two SYN-ACKs the acknowledged one counts
    (talk(*(says(1, 0.05 - n / 1e11, SYN | ACK, n, 1) for n in (1_500_000_000, -1_000_000_000)), *OPENED), {}),
    (talk(flight(AT, 0, 5), window=3 * FULL), {"out_of_window": 2}),
])  # fmt: skip
def test_causes_of_repeats(conversation: Conversation, found: dict[str, int], tmp_path: Path) -> None:
    names = (*KINDS, "keep_alives", "out_of_window")
    assert {name: n for name, n in seen(conversation.batch(tmp_path)).items() if name in names} == found


def test_idle_restarts(tmp_path: Path) -> None:
    batch = talk(*OPENED, says(0, AT + 3, ACK, 101, 1 + 10 * FULL, 50), flight(AT + 3 + RTT_S, 10, 4)).batch(tmp_path)
    assert seen(batch, "client")["idle_restarts"] == 1 and "idle_restarts" not in seen(batch)


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


# A hundred segments, each acknowledged 50 ms after it was sent, one each ms: 988 bytes a millisecond.
STEADY = [step for n in range(300) for step in (
    says(1, 1.0 + n / 1000, ACK, 1 + n * FULL, 101, FULL), acked(n + 1, 1.05 + n / 1000))]  # fmt: skip
# A sample spans the round trip: the segments acknowledged from when one is sent to its own ACK.
RATE, FLIGHTS_RATE = pytest.approx(FULL * 8_000, rel=0.025), pytest.approx(40 * FULL * 8 / 0.104, rel=0.01)


def about(ms: int, off_ns: int = 3) -> object:
    return pytest.approx(ms * MS, abs=off_ns)


@pytest.mark.parametrize(("conversation", "side", "found"), [
    # from the last byte covered to its ACK: flights whose last segments wait 80 and 120 ms; the capture stands at the
    # client, whose ACK of the SYN-ACK follows at once
    (talk(flight(1.0, 0, 4), acked(4, 1.0803), flight(2.0, 4, 4), acked(8, 2.1203)), "server",
     {"trips": 3, "trip_least": 0, "trip_sum": about(200), "trip_steps": 2, "trip_change": about(80 + 40)}),
    (talk(flight(1.0, 0, 2)), "client", {"trips": 2, "trip_least": 100 * MS, "trip_sum": about(100 + 1000 - 101)}),
    # Karn: the ACK of a repeated flight says nothing; that of the next one does
    (talk(flight(1.0, 0, 3), flight(1.3, 0, 1), acked(3, 1.4), flight(2.0, 3, 1), acked(4, 2.05)), "server",
     {"trips": 2, "trip_sum": about(50)}),
    # an ACK within a merged frame times it
    (talk(says(1, 1.0, ACK, 1, 101, 40 * FULL), *(acked(n, 1.05 + n / 1000) for n in range(1, 41))), "server",
     {"trips": 41, "trip_least": 0, "trip_sum": about(sum(50 + n for n in range(1, 41)), 50)}),
    # a rate is what was delivered over the longer of two times; a trickle after a flight is none
    (talk(*STEADY), "server", {"rate_last": RATE, "rate_most": RATE}),
    (talk(flight(1.0, 0, 40), acked(40, 1.104), says(1, 5.0, ACK, 1 + 40 * FULL, 101, 10),
          says(0, 5.1, ACK, 101, 11 + 40 * FULL)), "server", {"rate_last": FLIGHTS_RATE, "rate_most": FLIGHTS_RATE}),
    (talk(opened=False), "server", {"trips": 0, "trip_least": -1, "rate_most": -1, "rate_last": -1}),
])  # fmt: skip
def test_round_trips_and_rates(conversation: Conversation, side: str, found: dict[str, object], tmp_path: Path) -> None:
    ((_, columns),) = by_frame(written(conversation.frames, tmp_path))
    assert {name: columns[f"{side}_{name}"] for name in found} == found


def test_the_handshake_ends_at_the_first_segment_that_acknowledges_it(tmp_path: Path) -> None:
    """At a server: the bare ACK and the first data are lost, and sent again 80 ms after the second data arrived."""
    options = syn_options(1000, timestamps=True, wscale=None, sack=True)
    conversation = talk(
        says(0, 0.0, SYN, 0, 0, options=options), says(1, 0.0001, SYN | ACK, 0, 1, options=options),
        says(0, 0.041, ACK | PSH, 1001, 1, 345), says(0, 0.118, ACK, 1, 1, 1000), opened=False, asked=False,
    )  # fmt: skip
    assert int(conversation.batch(tmp_path).summary.columns["rtt"][0]) == 41 * MS


@pytest.mark.slow
def test_parts_add_up_to_the_whole(tmp_path: Path) -> None:
    """Every column, the trips' too, is the same whether connections are looked at once or in each half second."""
    path = tmp_path / "c.pcap"
    write_capture(path, 20_000, snap=128, seed=5, pace_us=200)
    whole = by_frame(path)
    assert by_frame(path, lapse_every=3) == whole
    assert sum(one["client_trips"] + one["server_trips"] for _, one in whole) > 1000


@pytest.mark.parametrize("seed", range(20))
def test_any_rows_are_read(tmp_path: Path, seed: int) -> None:
    """Random numbers, flags and lengths: columns come back, none of them raises, counts are not negative."""
    random = np.random.default_rng(seed)
    conversation = Conversation()
    for n in range(200):
        flags = int(random.choice([16, 24, 17, 2, 18, 4, 20, 0]))
        way, seq, ack, size = random.integers([0, -(1 << 31), -(1 << 31), 0], [2, 1 << 31, 1 << 31, 3]).tolist()
        conversation.send(way, 1 + n / 100, flags, seq, ack, size * 700)
    for _, columns in by_frame(written(conversation.frames, tmp_path), lapse_every=1, most=50):
        assert all(columns[f"{side}_{name}"] >= -1 for side in ("client", "server") for name in TRIPS)


def test_the_synack_that_the_client_acknowledges_counts(tmp_path: Path) -> None:
    """Before it comes one with another number (a full backlog), MSS and scale."""
    conversation = Conversation()
    options = ((2, b"\x02\x18"), (3, b"\x02"))
    conversation.send(1, RTT_S / 2, SYN | ACK, 77_777, 1, options=options)
    assert seen(conversation.batch(tmp_path))["mss"] == 1000
