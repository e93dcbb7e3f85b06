# SPDX-License-Identifier: MIT
"""The first flight: exact only where the window ended it; a bound that holds elsewhere; else a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.fingerprint.passive.connection_report import report_connections
from configtron.model.nouns import ACK, FIN, SYN, Observation
from tests.support.made_capture import FULL, MSS, RTT_S, Conversation

ASKED = RTT_S + 0.001
FLIGHT = ASKED + RTT_S
SECOND = FLIGHT + RTT_S


def icw(conversation: Conversation, folder: Path, knob: str = "icw") -> Observation:
    (one,) = report_connections(conversation.batch(folder), ["x"])
    return next(o for o in one.observations if o.knob == knob)


def proven(count: int = 10, **more: bool) -> Conversation:
    conversation = Conversation(**more)
    conversation.flight(FLIGHT, 0, count, echo_s=ASKED)
    conversation.ack(FLIGHT + 0.002, 2)
    conversation.flight(SECOND + 0.002, count, 4)
    return conversation


@pytest.mark.parametrize("stamps", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 10, 16, 30, 64])
def test_an_ack_clocked_flight_is_exact(count: int, stamps: bool, tmp_path: Path) -> None:
    conversation = Conversation(stamps=stamps, window=65535)
    size = FULL if stamps else FULL + 12
    for n in range(count):
        conversation.send(1, FLIGHT + n / 10_000, ACK, 1 + n * size, 101, size, echo_s=ASKED)
    conversation.ack(FLIGHT + 0.008, count, size=size)
    conversation.send(1, SECOND + 0.008, ACK, 1 + count * size, 101, size)
    found = icw(conversation, tmp_path)
    assert (found.grade, found.value, found.detail("proof")) == ("C", count, "ack-clocked")
    assert found.detail("timestamps") == stamps and found.detail("bytes") == count * size
    assert len(found.evidence) == count


def test_acks_within_the_flight_do_not_end_it(tmp_path: Path) -> None:
    """The capture stands at the client, which acknowledges while half of the flight is on its way."""
    conversation = Conversation()
    for n in range(5):
        conversation.flight(FLIGHT + n * 0.004, 2 * n, 2, echo_s=ASKED)
        conversation.ack(FLIGHT + n * 0.004 + 0.002, 2 * n + 2)
    for n in range(5):
        conversation.flight(SECOND + n * 0.004 + 0.002, 10 + 4 * n, 4, echo_s=FLIGHT + n * 0.004 + 0.002)
    assert icw(conversation, tmp_path).value == 10


def test_an_overtaken_ack_of_the_handshake_ends_nothing(tmp_path: Path) -> None:
    conversation = proven()
    late = Conversation()
    late.frames.clear()
    late.send(0, RTT_S, ACK, 1, 1)
    conversation.frames.append((round((conversation.start_s + FLIGHT + 0.0005) * 1e9), late.frames[0][1]))
    assert (icw(conversation, tmp_path).value, icw(conversation, tmp_path).grade) == (10, "C")


def test_merged_frames_count_as_segments(tmp_path: Path) -> None:
    conversation = Conversation()
    for n in range(5):
        conversation.send(1, FLIGHT + n / 10_000, ACK, 1 + n * 2 * FULL, 101, 2 * FULL, echo_s=ASKED)
    conversation.ack(FLIGHT + 0.001, 10)
    conversation.flight(SECOND + 0.001, 10, 4)
    found = icw(conversation, tmp_path)
    assert (found.grade, found.value, found.detail("merged")) == ("C", 10, True)


def short(conversation: Conversation) -> None:
    conversation.flight(FLIGHT, 0, 3, echo_s=ASKED, last=500)
    conversation.send(1, FLIGHT + 0.001, ACK | FIN, 1 + 2 * FULL + 500, 101)


def ends_at_once(conversation: Conversation) -> None:
    conversation.flight(FLIGHT, 0, 2, echo_s=ASKED)
    conversation.send(1, FLIGHT + 0.001, ACK | FIN, 1 + 2 * FULL, 101, 300, echo_s=ASKED)


def thinks(conversation: Conversation) -> None:
    conversation.flight(FLIGHT, 0, 3, echo_s=ASKED)
    conversation.ack(FLIGHT + 0.001, 3)
    conversation.flight(SECOND + 0.5, 3, 4, echo_s=FLIGHT + 0.001)


def unasked(conversation: Conversation) -> None:
    conversation.flight(FLIGHT, 0, 4, echo_s=ASKED)


def tail_lost(conversation: Conversation) -> None:
    conversation.flight(FLIGHT, 0, 10, echo_s=ASKED, skip=(9,))
    conversation.ack(FLIGHT + 0.002, 9)
    conversation.flight(SECOND + 0.002, 10, 4)


def hole(conversation: Conversation) -> None:
    conversation.flight(FLIGHT, 0, 10, echo_s=ASKED, skip=(4,))
    conversation.ack(FLIGHT + 0.002, 4, sack=(1 + 5 * FULL, 1 + 10 * FULL))
    conversation.flight(SECOND + 0.002, 10, 2)


def repeated(conversation: Conversation) -> None:
    conversation.flight(FLIGHT, 0, 4, echo_s=ASKED)
    conversation.flight(FLIGHT + 0.001, 1, 1, echo_s=ASKED)
    conversation.ack(FLIGHT + 0.002, 4)
    conversation.flight(SECOND + 0.002, 4, 2)


def small_writes(conversation: Conversation) -> None:
    """Segments of one size, but none that was full: the server's writes, and not its window, may have ended it.

    Stacks that count bytes have room for more short segments than full ones, so the bound is in full ones.
    """
    conversation.flight(FLIGHT, 0, 10, echo_s=ASKED, size=FULL // 2)
    conversation.ack(FLIGHT + 0.002, 10, size=FULL // 2)
    conversation.flight(SECOND + 0.002, 10, 4, size=FULL // 2)


def one_short_segment(conversation: Conversation) -> None:
    """A certificate in one segment that is not full, the client's turn, then a ticket a round trip later."""
    conversation.flight(FLIGHT, 0, 1, echo_s=ASKED, size=900)
    conversation.send(0, FLIGHT + 0.002, ACK, 101, 901, 126)
    conversation.send(1, SECOND + 0.002, ACK, 901, 227, 242, echo_s=FLIGHT + 0.002)


def takes_turns(conversation: Conversation) -> None:
    """Full segments, but what comes next answers what the client sent meanwhile."""
    conversation.flight(FLIGHT, 0, 3, echo_s=ASKED)
    conversation.send(0, FLIGHT + 0.002, ACK, 101, 1 + 3 * FULL, 126)
    conversation.send(1, SECOND + 0.002, ACK, 1 + 3 * FULL, 227, FULL, echo_s=FLIGHT + 0.002)


def nagle(conversation: Conversation) -> None:
    """A TLS library's buffer of 4096 bytes: two full segments, the rest, a full one; its tail waits for the ACK."""
    seq = 1
    for n, size in enumerate((FULL, FULL, 600, FULL)):
        conversation.send(1, FLIGHT + n / 10_000, ACK, seq, 101, size, echo_s=ASKED)
        seq += size
    conversation.send(0, FLIGHT + 0.002, ACK, 101, seq)
    conversation.send(1, SECOND + 0.002, ACK, seq, 101, 700, echo_s=FLIGHT + 0.002)


def short_within(conversation: Conversation) -> None:
    """A head written by itself, full segments, and a queue behind them."""
    seq = 1
    for n, size in enumerate((300, FULL, FULL, FULL)):
        conversation.send(1, FLIGHT + n / 10_000, ACK, seq, 101, size, echo_s=ASKED)
        seq += size
    conversation.send(0, FLIGHT + 0.002, ACK, 101, seq)
    conversation.send(1, SECOND + 0.002, ACK, seq, 101, FULL, echo_s=FLIGHT + 0.002)


def tail_held_back(conversation: Conversation) -> None:
    """Nagle's algorithm keeps less than a segment back until all is acknowledged."""
    conversation.flight(FLIGHT, 0, 2, echo_s=ASKED)
    conversation.ack(FLIGHT + 0.002, 2)
    conversation.send(1, SECOND + 0.002, ACK, 1 + 2 * FULL, 101, 700, echo_s=FLIGHT + 0.002)


BOUNDS = {
    "short-segment": (small_writes, 5),
    "short-segment once": (one_short_segment, 1),
    "client-data": (takes_turns, 3),
    "short-segment behind Nagle": (nagle, 4),
    "short-segment within": (short_within, 4),
    "short-segment after a full flight": (tail_held_back, 2),
    "response-ended": (short, 3),
    "response-ended with its last byte": (ends_at_once, 3),
    "server-paced": (thinks, 3),
    "unverified": (unasked, 4),
    "lost": (tail_lost, 9),
    "lost within": (hole, 10),
    "repeated": (repeated, 4),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_what_is_not_proven_is_a_bound(name: str, tmp_path: Path) -> None:
    report_conversation, least = BOUNDS[name]
    conversation = Conversation()
    report_conversation(conversation)
    found = icw(conversation, tmp_path)
    assert found.grade == "L" and found.value == least
    assert name.startswith(str(found.detail("proof")))


def test_the_clients_window_may_be_what_stopped_it(tmp_path: Path) -> None:
    conversation = Conversation(window=5 * FULL)
    conversation.flight(FLIGHT, 0, 5, echo_s=ASKED)
    conversation.ack(FLIGHT + 0.002, 5)
    conversation.flight(SECOND + 0.002, 5, 5)
    found = icw(conversation, tmp_path)
    assert (found.grade, found.detail("proof")) == ("L", "window-limited")


def test_reasons(tmp_path: Path) -> None:
    late = Conversation(opened=False)
    late.flight(FLIGHT, 0, 5)
    late.ack(FLIGHT + 0.01, 5)
    assert icw(late, tmp_path).reason == "unclear:no-handshake"
    silent = Conversation()
    silent.send(1, FLIGHT, ACK, 1, 101)
    assert icw(silent, tmp_path).reason == "no-data"
    twice = proven()
    twice.send(1, 0.9 * RTT_S, SYN | ACK, 0, 1, options=((2, b"\x03\xe8"),))
    # After a repeat the window may be one segment, whatever the initial one is; a longer flight is no shorter than it.
    single = Conversation()
    single.send(1, 0.9 * RTT_S, SYN | ACK, 0, 1, options=((2, b"\x03\xe8"),))
    single.send(1, FLIGHT, ACK, 1, 101, 500)
    assert icw(single, tmp_path).reason == "synack-repeated"
    assert (icw(twice, tmp_path).grade, icw(twice, tmp_path).detail("proof")) == ("L", "synack-repeated")


def test_a_capture_that_lost_frames_proves_nothing(tmp_path: Path) -> None:
    (one,) = report_connections(proven().batch(tmp_path), ["x"], tainted=True)
    assert next(o for o in one.observations if o.knob == "icw").reason == "drops"
    unanswered = Conversation(opened=False)
    unanswered.frames.clear()
    unanswered.send(0, 0, SYN, 0, 0, options=())
    for at in (0.1, 1.1, 3.1, 7.1):
        unanswered.send(1, at, SYN | ACK, 0, 1, options=())
    timers = {"synack_rto", "synack_retries", "synack_backoff"}
    for tainted in (False, True):
        (one,) = report_connections(unanswered.batch(tmp_path), ["x"], tainted=tainted)
        reported = {o.knob: o for o in one.observations if o.knob in timers}
        assert set(reported) == timers
        assert all((o.reason == "drops") == tainted and (o.value is None) == tainted for o in reported.values())


@pytest.mark.parametrize("pause_s", [0.02, 1.2 * RTT_S])
def test_a_probe_with_new_data_is_none_of_the_flight(pause_s: float, tmp_path: Path) -> None:
    """The first ACK is late, so the server sends one segment more than its window (RFC 8985 7.3); see its clock."""
    conversation = Conversation()
    conversation.flight(FLIGHT, 0, 10, echo_s=ASKED)
    conversation.send(1, FLIGHT + pause_s, ACK, 1 + 10 * FULL, 101, FULL, echo_s=ASKED)
    conversation.ack(FLIGHT + pause_s + 0.001, 11)
    conversation.flight(FLIGHT + pause_s + RTT_S, 11, 4)
    found = icw(conversation, tmp_path)
    assert (found.grade, found.value, found.detail("proof")) == ("L", 10, "server-paced")


@pytest.mark.parametrize(("apart_s", "grade"), [(0.01, "C"), (1.0, "L")])
def test_a_repeated_synack_leaves_the_window_at_the_request(apart_s: float, grade: str, tmp_path: Path) -> None:
    """A duplicate within 10 ms hides neither the round trip nor the flight; after a timer's repeat it is unknown."""
    conversation = Conversation()
    conversation.flight(FLIGHT + apart_s, 0, 16, echo_s=ASKED)
    conversation.ack(FLIGHT + apart_s + 0.002, 2)
    conversation.flight(SECOND + apart_s + 0.002, 16, 4)
    synack = conversation.frames[1]
    conversation.frames.append((synack[0] + round(apart_s * 1e9), synack[1]))
    conversation.frames[2:4] = [(at + round(apart_s * 1e9), frame) for at, frame in conversation.frames[2:4]]
    initial, asked = (icw(conversation, tmp_path, knob) for knob in ("icw", "cwnd_at_request"))
    assert (initial.grade, initial.value, initial.detail("proof")) == ("L", 16, "synack-repeated")
    assert (asked.grade, asked.value) == (grade, 16)


@pytest.mark.parametrize(("size", "grade", "count"), [(1448, "C", 10), (1228, "L", 9)])
def test_a_segment_is_as_large_as_was_agreed(size: int, grade: str, count: int, tmp_path: Path) -> None:
    """Segments of one size that are not full: a narrower path's, or a library's buffer; the window is not shown."""
    conversation = Conversation(mss=1460)
    conversation.flight(FLIGHT, 0, 10, echo_s=ASKED, size=size)
    conversation.ack(FLIGHT + 0.002, 2, size=size)
    conversation.flight(SECOND + 0.002, 10, 4, size=size)
    found = icw(conversation, tmp_path)
    assert (found.value, found.grade) == (count, grade)


@pytest.mark.parametrize(("sizes", "count"), [((1022,), 1), ((948, 948), 2), ((1896, 948), 3), ((2896, 1448), 3)])
def test_a_server_may_send_more_than_it_takes(sizes: tuple[int, ...], count: int, tmp_path: Path) -> None:
    """A server that announces 960 bytes, and a client 1460: whether 1022 bytes were one segment is not known."""
    conversation = Conversation(mss=1460)
    (at, data) = conversation.frames[1]
    place = data.index(b"\x02\x04\x05\xb4")
    conversation.frames[1] = (at, data[: place + 2] + (960).to_bytes(2, "big") + data[place + 4 :])
    seq = 1
    for n, size in enumerate(sizes):
        conversation.send(1, FLIGHT + n / 10_000, ACK, seq, 101, size, echo_s=ASKED)
        seq += size
    conversation.send(0, FLIGHT + 0.002, ACK, 101, seq)
    assert icw(conversation, tmp_path).value == count


def test_on_a_short_path_an_ack_proves_nothing(tmp_path: Path) -> None:
    """A server's writes 40 us apart, over a path of 100 us: fresh data after the ACK may be its next write."""
    conversation = Conversation(stamps=False)
    conversation.frames = [(round(1e12 + (at - 1e12) / 1000), frame) for at, frame in conversation.frames]
    for n in range(4):
        conversation.send(1, (FLIGHT + n / 100) / 1000, ACK, 1 + n * MSS, 101, MSS)
    conversation.send(0, (FLIGHT + 0.03) / 1000, ACK, 101, 1 + 4 * MSS)
    conversation.send(1, (SECOND + 0.03) / 1000, ACK, 1 + 4 * MSS, 101, MSS)
    assert (icw(conversation, tmp_path).grade, icw(conversation, tmp_path).detail("proof")) == ("L", "short-path")


@pytest.mark.parametrize(("growth", "proof"), [(1, "no-growth"), (2, "ack-clocked")])
def test_a_send_buffer_is_no_window(growth: int, proof: str, tmp_path: Path) -> None:
    """Full segments, let out by ACKs, but never more of them at a time; a window would have grown."""
    conversation = Conversation()
    at, first, count = FLIGHT, 0, 3
    for _ in range(6):
        conversation.flight(at, first, count, echo_s=at - RTT_S)
        first, count = first + count, count * growth
        conversation.ack(at + 0.002, first)
        at += RTT_S + 0.002
    found = icw(conversation, tmp_path)
    assert (found.value, found.detail("proof")) == (3, proof)
    assert found.grade == ("C" if growth > 1 else "L")


@pytest.mark.parametrize(("released", "grade"), [(4, "C"), (2, "L")])
def test_acks_of_a_bottleneck_take_longer_than_a_round_trip(released: int, grade: str, tmp_path: Path) -> None:
    """The capture stands at the server: each ACK of two segments lets four go while a window grows, else two."""
    conversation = Conversation()
    conversation.flight(FLIGHT, 0, 10, echo_s=ASKED)
    first = 10
    for n in range(4):
        at = SECOND + n * 0.4 * RTT_S
        conversation.ack(at, 2 * n + 2)
        conversation.flight(at + 0.0001, first, released, echo_s=at)
        first += released
    found = icw(conversation, tmp_path)
    assert (found.value, found.grade) == (10, grade)


def test_a_loss_ends_the_growth_and_not_the_proof(tmp_path: Path) -> None:
    """Segment 14 is missing; what follows for long comes one by one."""
    conversation = proven()
    for n in range(40):
        conversation.flight(SECOND + 0.2 + n * RTT_S, 15 + n, 1)
    assert icw(conversation, tmp_path).grade == "C"


@pytest.mark.parametrize(("then", "proof"), [((1, 1, 1), "no-growth"), ((4, 4), "no-growth"), ((4,), "ack-clocked")])
def test_what_acks_let_out_comes_at_once(then: tuple[int, ...], proof: str, tmp_path: Path) -> None:
    """ACKs of 4 full segments let 4 go at least: who sends fewer, and the rest a round trip later, writes so."""
    conversation = Conversation()
    at, first = FLIGHT, 0
    for count in (4, *then):
        conversation.flight(at, first, count, echo_s=at - RTT_S)
        first += count
        conversation.ack(at + 0.002, first)
        at += RTT_S + 0.002
    found = icw(conversation, tmp_path)
    assert (found.value, found.detail("proof"), found.grade) == (4, proof, "C" if proof == "ack-clocked" else "L")
