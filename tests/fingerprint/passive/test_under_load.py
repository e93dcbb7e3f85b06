# SPDX-License-Identifier: MIT
"""What a path shows under load: exact on conversations of known queue, window and losses, as the testbed has it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from configtron.fingerprint.features import LOADED, AddressFacts, Sighting
from configtron.fingerprint.passive.connection_report import ConnectionReport, report_connections
from configtron.fingerprint.passive.gathering import Gathering
from configtron.fingerprint.passive.local import path_of, sighted
from configtron.lab.testbed import pathview
from configtron.lab.testbed.tap import PACKET, Seen
from configtron.model.nouns import ACK
from tests.support import capture_bytes as write
from tests.support.made_capture import FULL, RTT_S, Conversation
from tests.support.read_capture import gathered

SERVER = "198.51.100.2"


class Tapped(Conversation):
    """A conversation that the testbed's tap saw too, at the server."""

    def __init__(self, **how: object) -> None:
        self.seen: list[tuple[int, ...]] = []
        super().__init__(port=40000, **how)  # type: ignore[arg-type]

    def send(self, way: int, at_s: float, flags: int, seq: int, ack: int, length: int = 0, **more: object) -> None:
        super().send(way, at_s, flags, seq, ack, length, **more)  # type: ignore[arg-type]
        ports = (40000, pathview.HTTPS)
        numbers = (seq + self.base[way]) & 0xFFFFFFFF, (ack + self.base[1 - way]) & 0xFFFFFFFF if flags & ACK else 0
        at_ns = round((self.start_s + at_s) * 1e9)
        self.seen.append((at_ns, 0, 0, ports[way], numbers[0], length, 0, 0, ports[1 - way], numbers[1], flags))

    def tapped(self) -> Seen:
        return np.array(sorted(self.seen), dtype=PACKET)


def connection(folder: Path, conversation: Conversation) -> ConnectionReport:
    path = folder / "conversation.pcap"
    path.write_bytes(write.pcap(sorted(conversation.frames, key=lambda frame: frame[0]), nano=True))
    (batch,) = gathered(path, Gathering(trips=True))
    (one,) = report_connections(batch, [str(path)])
    return one


def context(folder: Path, conversation: Conversation, *, tainted: bool = False) -> Sighting:
    return sighted(connection(folder, conversation), frozenset((SERVER,)), lambda _: AddressFacts(), tainted=tainted)


def transfer(conversation: Conversation, segments: int, *, queue_s: float, apart_s: float = 0.005) -> float:
    """The server sends steadily; ACKs come a round trip, and a queue that grows to that length, later."""
    for n in range(segments):
        conversation.send(1, 1 + n * apart_s, ACK, 1 + n * FULL, 101, FULL)
        conversation.ack(1 + n * apart_s + 0.02 + queue_s * n / segments, n + 1)
    return 1 + segments * apart_s


def test_a_queue_is_the_smoothed_round_trip_less_the_least(tmp_path: Path) -> None:
    conversation = Tapped()
    transfer(conversation, 60, queue_s=0.3)
    smoothed = 0.0
    for trip in (0.0, *(20 + 300 * n / 60 for n in range(60))):  # the handshake at the client's side takes no time
        smoothed = smoothed + (trip - smoothed) / 8 if smoothed else trip
    found = context(tmp_path, conversation).context
    assert found.min_rtt_ms == 0.0
    assert found.queue_ms == pytest.approx(smoothed, rel=0.02)


def test_a_gathered_ack_is_smoothed_from_its_oldest_segment(tmp_path: Path) -> None:
    """As tcp_clean_rtx_queue does: four segments 10 ms apart, one ACK 20 ms after the last."""
    conversation = Tapped()
    for n in range(80):
        conversation.send(1, 1 + n / 100, ACK, 1 + n * FULL, 101, FULL)
        if n % 4 == 3:
            conversation.ack(1 + n / 100 + 0.02, n + 1)
    assert context(tmp_path, conversation).context.queue_ms == pytest.approx(50 * (1 - (7 / 8) ** 20), rel=0.02)


def test_losses_in_runs_of_known_length(tmp_path: Path) -> None:
    """Runs of 3 and 1, of which one segment was lost twice: (3 + 1) / 2 segments."""
    conversation = Tapped()
    end = transfer(conversation, 40, queue_s=0.0)
    for at, n in ((0.1, 5), (0.2, 6), (0.3, 7), (0.6, 6), (0.7, 20)):
        conversation.send(1, end + at, ACK, 1 + n * FULL, 101, FULL)
    found = context(tmp_path, conversation).context
    assert found.loss_run == 2.0 == pathview.of_load([], conversation.tapped(), RTT_S)["loss_run"]


@pytest.mark.parametrize(("gathered_", "slow"), [(1, False), (4, False), (1, True)])
def test_spacing_and_late_rate_are_the_testbeds(tmp_path: Path, gathered_: int, slow: bool) -> None:
    """ACKs alone or for four segments at once; after a third of the transfer a policer lets a quarter through."""
    conversation, at = Tapped(), 1.0
    for n in range(240):
        at += 0.004 * (4 if slow and n > 80 else 1)
        conversation.send(1, at, ACK, 1 + n * FULL, 101, FULL)
        if n % gathered_ == gathered_ - 1:
            conversation.ack(at + 0.05, n + 1)
    found = context(tmp_path, conversation).context
    # the tap's first ACK is the handshake's, which acknowledges no data
    seen = conversation.tapped()
    testbed = pathview.of_load([], seen[(seen["at_ns"] > (conversation.start_s + 0.5) * 1e9)], RTT_S)
    assert found.ack_gap_ms == pytest.approx(testbed["ack_gap_ms"], rel=0.02)
    assert found.ack_gap_ms == pytest.approx(4.0 * gathered_, rel=0.02) or slow
    assert found.delivery_share == pytest.approx(testbed["delivery_share"], rel=0.03)
    assert found.delivery_share == pytest.approx(0.25 if slow else 1.0, abs=0.05)


def test_the_latest_open_window_counts(tmp_path: Path) -> None:
    conversation = Tapped()
    transfer(conversation, 30, queue_s=0.0)
    for at, window in ((3.0, 32_768), (3.1, 0)):
        conversation.window = window
        conversation.ack(at, 30)
    assert context(tmp_path, conversation).context.window_bytes == 32_768


def test_what_a_capture_cannot_show_is_unknown_and_never_0(tmp_path: Path) -> None:
    conversation = Tapped()
    transfer(conversation, 40, queue_s=0.1)
    found = context(tmp_path, conversation)
    reasons = dict(found.unknown)
    assert found.context.loss_run is None and reasons["loss_run"] == "no-loss"
    assert found.context.reordering is None and reasons["reordering"] == "kernel-only"
    short = Tapped()
    transfer(short, 4, queue_s=0.1)
    found = context(tmp_path, short)
    assert {name: value for name in LOADED if (value := getattr(found.context, name)) is not None} == {
        "window_bytes": 65535.0
    }
    assert {dict(found.unknown)[name] for name in ("queue_ms", "ack_gap_ms", "delivery_share")} == {"too-short"}
    late = context(tmp_path, Tapped(opened=False))
    assert late.context.window_bytes is None and dict(late.unknown)["window_bytes"] == "no-handshake"
    tainted = context(tmp_path, conversation, tainted=True)
    assert {dict(tainted.unknown)[name] for name in ("loss_run", "ack_gap_ms", "delivery_share")} == {"drops"}
    assert tainted.context.queue_ms is not None


def test_a_side_that_receives_loads_nothing(tmp_path: Path) -> None:
    conversation = Tapped()
    transfer(conversation, 40, queue_s=0.1)
    path = path_of(connection(tmp_path, conversation), "client", "in", tainted=False)
    assert {dict(path.unknown)[name] for name in ("queue_ms", "loss_run", "ack_gap_ms")} == {"receives"}


def test_merged_frames_count_as_their_segments(tmp_path: Path) -> None:
    """A repeat that offloading merged of four segments is a run of four."""
    conversation = Tapped()
    end = transfer(conversation, 40, queue_s=0.0)
    conversation.send(1, end + 0.1, ACK, 1 + 5 * FULL, 101, 4 * FULL)
    assert context(tmp_path, conversation).context.loss_run == 4.0


def test_numbers_without_a_handshake_time_are_read(tmp_path: Path) -> None:
    one = connection(tmp_path, Tapped())._replace(numbers=defaultdict(lambda: None))
    assert path_of(one, "server", "out", tainted=False).loaded == ()
