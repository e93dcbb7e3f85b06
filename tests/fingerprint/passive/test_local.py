# SPDX-License-Identifier: MIT
"""Which end of a connection is here, what is kept of those that are not, and what a path shows under load: exact on
conversations of known queue, window and losses, as the testbed has it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from configtron.db.rows import context_row
from configtron.fingerprint.features import LOADED, AddressFacts, Sighting
from configtron.fingerprint.passive.connection_report import ConnectionReport, report_connections
from configtron.fingerprint.passive.gathering import Gathering
from configtron.fingerprint.passive.local import lost, path_of, sighted
from configtron.lab.testbed import pathview
from configtron.lab.testbed.tap import PACKET, Seen
from configtron.model.nouns import ACK
from configtron.report.contexts import form
from tests.fingerprint.passive.test_foreign import proven
from tests.support.made_capture import FULL, RTT_S, Conversation, written
from tests.support.read_capture import gathered

CLIENT, SERVER = "192.0.2.1", "198.51.100.2"


def connection(folder: Path, conversation: Conversation) -> ConnectionReport:
    path = written(conversation.frames, folder)
    (batch,) = gathered(path, Gathering(trips=True))
    (one,) = report_connections(batch, [str(path)])
    return one


def seen(folder: Path, *here: str, opened: bool = True) -> Sighting:
    """The client's port is below the server's, so without a SYN the client may be taken for the server."""
    return sighted(connection(folder, proven(port=22, opened=opened)), frozenset(here), lambda _: AddressFacts())


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize(("here", "other"), [(CLIENT, "198.51.100.0/24"), (SERVER, "192.0.2.0/24")])
def test_the_end_that_is_here_is_reported(tmp_path: Path, here: str, other: str, opened: bool) -> None:
    found = seen(tmp_path, here, opened=opened)
    assert (found.local, found.context.prefix) == (here, other)
    assert form(found)["local"] == {"address": here, "port": found.local_port}


@pytest.mark.parametrize("opened", [True, False])
def test_a_router_keeps_nobodys_address(tmp_path: Path, opened: bool) -> None:
    """Neither end is here: both are clients of other hosts, and the server's side may be a guess."""
    found = seen(tmp_path, "203.0.113.1", opened=opened)
    assert found.context.prefix in ("192.0.2.0/24", "198.51.100.0/24")
    kept = " ".join(map(str, context_row(found)))
    assert CLIENT not in kept and SERVER not in kept
    assert form(found)["local"] == {"port": found.local_port}


def test_where_both_ends_are_here_the_server_is_tuned(tmp_path: Path) -> None:
    assert seen(tmp_path, CLIENT, SERVER).local == SERVER


@pytest.mark.parametrize(("data", "tainted", "share", "reason"), [
    (40, False, 4 / 40, None), (40, True, None, "drops"), (0, True, None, "no-data"),
])  # fmt: skip
def test_every_repeat_is_a_loss_unless_the_capture_lost_frames(
    tmp_path: Path, data: int, tainted: bool, share: float | None, reason: str | None
) -> None:
    """Repeats after a timeout, after duplicate ACKs, and those of unknown cause."""
    numbers = {"server_data": data, "server_payload": 0, "server_rto": 1, "server_fast": 2, "server_other": 1}
    one = connection(tmp_path, proven())._replace(numbers=defaultdict(lambda: None, numbers))
    path = path_of(one, "server", "out", tainted=tainted)
    assert (path.loss, dict(path.unknown).get("loss")) == (share, reason)
    assert not data or lost(one, "server") == 4 / 40


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

    def data(self, at_s: float, segment: int, count: int = 1) -> None:
        """The server sends this segment; `count`: with those after it, which offloading merged."""
        self.send(1, at_s, ACK, 1 + segment * FULL, 101, count * FULL)

    def tapped(self) -> Seen:
        return np.array(sorted(self.seen), dtype=PACKET)


def context(folder: Path, conversation: Conversation, *, tainted: bool = False) -> Sighting:
    return sighted(connection(folder, conversation), frozenset((SERVER,)), lambda _: AddressFacts(), tainted=tainted)


def transfer(segments: int, queue_s: float) -> Tapped:
    """The server sends steadily; ACKs come a round trip, and a queue that grows to that length, later."""
    conversation = Tapped()
    for n in range(segments):
        conversation.data(1 + n * 0.005, n)
        conversation.ack(1 + n * 0.005 + 0.02 + queue_s * n / segments, n + 1)
    return conversation


def test_a_queue_is_the_smoothed_round_trip_less_the_least(tmp_path: Path) -> None:
    smoothed = 0.0
    for trip in (0.0, *(20 + 300 * n / 60 for n in range(60))):  # the handshake at the client's side takes no time
        smoothed = smoothed + (trip - smoothed) / 8 if smoothed else trip
    found = context(tmp_path, transfer(60, 0.3)).context
    assert found.min_rtt_ms == 0.0
    assert found.queue_ms == pytest.approx(smoothed, rel=0.02)


def test_a_gathered_ack_is_smoothed_from_its_oldest_segment(tmp_path: Path) -> None:
    """As tcp_clean_rtx_queue does: four segments 10 ms apart, one ACK 20 ms after the last."""
    conversation = Tapped()
    for n in range(80):
        conversation.data(1 + n / 100, n)
        if n % 4 == 3:
            conversation.ack(1 + n / 100 + 0.02, n + 1)
    assert context(tmp_path, conversation).context.queue_ms == pytest.approx(50 * (1 - (7 / 8) ** 20), rel=0.02)


def test_losses_in_runs_of_known_length(tmp_path: Path) -> None:
    """Runs of 3 and 1, of which one segment was lost twice: (3 + 1) / 2 segments; and a repeat of four, merged."""
    conversation, merged = transfer(40, 0.0), transfer(40, 0.0)
    for at, n in ((1.3, 5), (1.4, 6), (1.5, 7), (1.8, 6), (1.9, 20)):
        conversation.data(at, n)
    found = context(tmp_path, conversation).context
    assert found.loss_run == 2.0 == pathview.of_load([], conversation.tapped(), RTT_S)["loss_run"]
    merged.data(1.3, 5, 4)
    assert context(tmp_path, merged).context.loss_run == 4.0


@pytest.mark.parametrize(("gathered_", "slow"), [(1, False), (4, False), (1, True)])
def test_spacing_and_late_rate_are_the_testbeds(tmp_path: Path, gathered_: int, slow: bool) -> None:
    """ACKs alone or for four segments at once; after a third of the transfer a policer lets a quarter through."""
    conversation, at = Tapped(), 1.0
    for n in range(240):
        at += 0.004 * (4 if slow and n > 80 else 1)
        conversation.data(at, n)
        if n % gathered_ == gathered_ - 1:
            conversation.ack(at + 0.05, n + 1)
    found = context(tmp_path, conversation).context
    # the tap's first ACK is the handshake's, which acknowledges no data
    tapped = conversation.tapped()
    testbed = pathview.of_load([], tapped[(tapped["at_ns"] > (conversation.start_s + 0.5) * 1e9)], RTT_S)
    assert found.ack_gap_ms == pytest.approx(testbed["ack_gap_ms"], rel=0.02)
    assert found.ack_gap_ms == pytest.approx(4.0 * gathered_, rel=0.02) or slow
    assert found.delivery_share == pytest.approx(testbed["delivery_share"], rel=0.03)
    assert found.delivery_share == pytest.approx(0.25 if slow else 1.0, abs=0.05)


def test_the_latest_open_window_counts(tmp_path: Path) -> None:
    conversation = transfer(30, 0.0)
    for at, window in ((3.0, 32_768), (3.1, 0)):
        conversation.window = window
        conversation.ack(at, 30)
    assert context(tmp_path, conversation).context.window_bytes == 32_768


LOAD = ("loss_run", "ack_gap_ms", "delivery_share")


@pytest.mark.parametrize(("conversation", "tainted", "known", "reasons"), [
    (transfer(40, 0.1), False, {"queue_ms", "window_bytes", "ack_gap_ms", "delivery_share"},
     {"loss_run": "no-loss", "reordering": "kernel-only"}),
    (transfer(4, 0.1), False, {"window_bytes"}, dict.fromkeys(("queue_ms", *LOAD[1:]), "too-short")),
    (Tapped(opened=False), False, set(), {"window_bytes": "no-handshake"}),
    (transfer(40, 0.1), True, {"queue_ms", "window_bytes"}, dict.fromkeys(LOAD, "drops")),
])  # fmt: skip
def test_what_a_capture_cannot_show_is_unknown_and_never_0(
    tmp_path: Path, conversation: Tapped, tainted: bool, known: set[str], reasons: dict[str, str]
) -> None:
    found = context(tmp_path, conversation, tainted=tainted)
    assert {name for name in LOADED if getattr(found.context, name) is not None} == known
    assert found.context.window_bytes in (None, 65535.0)
    assert reasons.items() <= dict(found.unknown).items()


def test_a_side_that_receives_loads_nothing_and_one_without_a_handshakes_time_shows_nothing(tmp_path: Path) -> None:
    one = connection(tmp_path, transfer(40, 0.1))
    unknown = dict(path_of(one, "client", "in", tainted=False).unknown)
    assert {unknown[name] for name in ("queue_ms", "loss_run", "ack_gap_ms")} == {"receives"}
    one = connection(tmp_path, Tapped())._replace(numbers=defaultdict(lambda: None))
    assert path_of(one, "server", "out", tainted=False).loaded == ()
