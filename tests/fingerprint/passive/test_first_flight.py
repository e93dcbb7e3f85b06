# SPDX-License-Identifier: MIT
"""The first flight: exact only where the window ended it; a bound that holds elsewhere; else a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from configtron.fingerprint import icw
from configtron.fingerprint.passive.connection_report import report_connections
from configtron.fingerprint.passive.traces import packets_of
from configtron.model.nouns import ACK, FIN, PSH, SYN, Observation, Target, Trace
from tests.support.made_capture import FULL, MSS, RTT_S, Conversation, Step, acked, flight, says, talk

ASKED = RTT_S + 0.001
FLIGHT = ASKED + RTT_S
SECOND = FLIGHT + RTT_S
HALF = FULL // 2
AFTER = FLIGHT + 0.002


def verdicts(conversation: Conversation, folder: Path, *, tainted: bool = False) -> dict[str, Observation]:
    (one,) = report_connections(conversation.batch(folder), ["x"], tainted=tainted)
    return {o.knob: o for o in one.observations}


def first(count: int, at_s: float = FLIGHT, **how: Any) -> Step:
    """What answers the request."""
    return flight(at_s, 0, count, echo_s=ASKED, **how)


def then(first: int, count: int, **how: Any) -> Step:
    """What the ACK lets out, a round trip later."""
    return flight(SECOND + 0.002, first, count, **how)


def row(*sizes: int) -> Step:
    """Segments of these sizes, and the client's ACK of all."""

    def speak(conversation: Conversation) -> None:
        for n, size in enumerate(sizes):
            conversation.send(1, FLIGHT + n / 10_000, ACK, 1 + sum(sizes[:n]), 101, size, echo_s=ASKED)
        conversation.send(0, AFTER, ACK, 101, 1 + sum(sizes))

    return speak


def rounds(*counts: int) -> list[Step]:
    """Flights of so many segments, each a round trip after the ACK of the one before."""
    starts, steps = [FLIGHT + n * (RTT_S + 0.002) for n in range(len(counts))], list[Step]()
    for n, (at, count) in enumerate(zip(starts, counts, strict=True)):
        steps += [flight(at, sum(counts[:n]), count, echo_s=at - RTT_S), acked(sum(counts[: n + 1]), at + 0.002)]
    return steps


def overtaken(conversation: Conversation) -> None:
    """The handshake's ACK comes after the request, within the flight."""
    conversation.send(0, RTT_S, ACK, 1, 1)
    conversation.delay(FLIGHT + 0.0005)


def bottleneck(released: int) -> list[Step]:
    """The ACKs of a flight of ten take longer than a round trip, and each lets so many go."""
    starts = [(n, AFTER + n * 0.4 * RTT_S) for n in range(4)]
    return [
        step for n, at in starts
        for step in (acked(2 * n + 2, at), flight(at + RTT_S, 10 + n * released, released, echo_s=at))
    ]  # fmt: skip


def slow_handshake(at_s: float, rtt_s: float, size: int = MSS) -> list[Step]:
    """Windows of 2, 4 and 8 segments over a path of `rtt_s`, after a handshake of 0.1 s."""
    starts = [(2, 0, at_s), (4, 2, at_s + rtt_s + 0.001), (8, 6, at_s + 2 * rtt_s + 0.002)]
    return [
        step for count, n, at in starts
        for step in (flight(at, n, count, size=size), acked(n + count, at + 0.001, size=size))
    ]  # fmt: skip


LATE_S = (0, 0.004, 0.005, 0.01)
PROVEN = [first(10), acked(2, AFTER), then(10, 4)]
# At the client, which acknowledges while half of the flight is on its way.
WITHIN = [step for n in range(5) for step in (
    flight(FLIGHT + n * 0.004, 2 * n, 2, echo_s=ASKED), acked(2 * n + 2, FLIGHT + n * 0.004 + 0.002))]  # fmt: skip
REPEATED_SYNACK = says(1, 0.9 * RTT_S, SYN | ACK, 0, 1, options=((2, b"\x03\xe8"),))


def probe(pause_s: float) -> list[Step]:
    """The first ACK is late, so the server sends one segment more than its window (RFC 8985 7.3); see its clock."""
    return [
        first(10), says(1, FLIGHT + pause_s, ACK, 1 + 10 * FULL, 101, FULL, echo_s=ASKED),
        acked(11, FLIGHT + pause_s + 0.001), flight(FLIGHT + pause_s + RTT_S, 11, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(("conversation", "value", "proof"), [
    (talk(*PROVEN), 10, ""),
    (talk(*WITHIN, *(flight(SECOND + n * 0.004 + 0.002, 10 + 4 * n, 4, echo_s=FLIGHT + n * 0.004 + 0.002)
                     for n in range(5))), 10, ""),
    (talk(*PROVEN, overtaken), 10, ""),
    # a loss ends the growth and not the proof: segment 14 is missing, what follows for long comes one by one
    (talk(*PROVEN, *(flight(SECOND + 0.2 + n * RTT_S, 15 + n, 1) for n in range(40))), 10, ""),
    # the ACK that let four out is missing from the capture
    (talk(first(5), first(10, FLIGHT + 0.06, skip=range(5)), flight(SECOND, 10, 4, echo_s=FLIGHT + 0.001),
          acked(14, SECOND + 0.002), flight(SECOND + RTT_S, 14, 8, echo_s=SECOND + 0.002)), 10, "server-paced"),
    # segments of one size, but none that was full: the server's writes, and not its window, may have ended it; stacks
    # that count bytes have room for more short segments than full ones, so the bound is in full ones
    (talk(first(10, size=HALF), acked(10, AFTER, size=HALF), then(10, 4, size=HALF)), 5, "short-segment"),
    # a certificate in one segment that is not full, the client's turn, then a ticket a round trip later
    (talk(first(1, size=900), says(0, AFTER, ACK, 101, 901, 126),
          says(1, SECOND + 0.002, ACK, 901, 227, 242, echo_s=AFTER)), 1, "short-segment"),
    # full segments, but what comes next answers what the client sent meanwhile
    (talk(first(3), says(0, AFTER, ACK, 101, 1 + 3 * FULL, 126),
          says(1, SECOND + 0.002, ACK, 1 + 3 * FULL, 227, FULL, echo_s=AFTER)), 3, "client-data"),
    # a TLS library's buffer of 4096 bytes: two full segments, the rest, a full one; its tail waits for the ACK (Nagle)
    (talk(row(FULL, FULL, 600, FULL),
          says(1, SECOND + 0.002, ACK, 1 + 3 * FULL + 600, 101, 700, echo_s=AFTER)), 4, "short-segment"),
    # a head written by itself takes a segment of the window, if full segments and a queue stand behind it
    (talk(row(300, FULL, FULL, FULL), says(1, SECOND + 0.002, ACK, 301 + 3 * FULL, 101, FULL, echo_s=AFTER)), 4, ""),
    # without timestamps: the handshake took longer than the path, by the request's answer, or by a pause alone
    (talk(*slow_handshake(0.17, 0.07), stamps=False), 2, ""),
    (talk(*slow_handshake(0.4, 0.02), stamps=False), 2, "server-paced"),
    (talk(*slow_handshake(0.11, 0.009), stamps=False), 2, ""),
    # an accept that takes two seconds; a proxy that connects first and then fetches; jitter of a tenth of a round trip
    (talk(first(10, 2.0), acked(2, 2.002), flight(2.002 + RTT_S, 10, 4, echo_s=2.002)), 10, ""),
    (talk(*slow_handshake(0.4, 0.02, FULL)), 2, "server-paced"),
    (talk(*(flight(FLIGHT + late, n, 1, echo_s=ASKED) for n, late in enumerate(LATE_S)), acked(4, FLIGHT + 0.012),
          *(flight(SECOND + 0.022 + late, 4 + n, 1, echo_s=FLIGHT + 0.012) for n, late in enumerate(LATE_S))), 4, ""),
    # the server thinks, so nothing confirms the handshake, and its segments come slower than the path is long
    (talk(*(step for n in range(9) for step in (flight(0.4 + n * 0.006, n, 1, size=MSS),
            acked(n + 1, 0.4 + n * 0.006 + 0.001, size=MSS))[: 1 + n % 2]), stamps=False), 2, "unverified"),
    (talk(row(300), says(1, SECOND + 0.002, ACK, 301, 101, FULL, echo_s=AFTER)), 1, "short-segment"),
    # Nagle's algorithm keeps less than a segment back until all is acknowledged
    (talk(first(2), acked(2, AFTER), says(1, SECOND + 0.002, ACK, 1 + 2 * FULL, 101, 700, echo_s=AFTER)),
     2, "short-segment"),
    (talk(first(3, last=500), says(1, FLIGHT + 0.001, ACK | FIN, 1 + 2 * FULL + 500, 101)), 3, "response-ended"),
    (talk(first(2), says(1, FLIGHT + 0.001, ACK | FIN, 1 + 2 * FULL, 101, 300, echo_s=ASKED)), 3, "response-ended"),
    (talk(first(3), acked(3, FLIGHT + 0.001), flight(SECOND + 0.5, 3, 4, echo_s=FLIGHT + 0.001)), 3, "server-paced"),
    (talk(*probe(0.02)), 10, "server-paced"),
    (talk(*probe(1.2 * RTT_S)), 10, "server-paced"),
    (talk(first(4)), 4, "unverified"),
    (talk(first(10, skip=(9,)), acked(9, AFTER), then(10, 4)), 9, "lost"),
    (talk(first(10, skip=(4,)), acked(4, AFTER, sack=(1 + 5 * FULL, 1 + 10 * FULL)), then(10, 2)), 10, "lost"),
    (talk(first(4), flight(FLIGHT + 0.001, 1, 1, echo_s=ASKED), acked(4, AFTER), then(4, 2)), 4, "repeated"),
    (talk(first(5), acked(5, AFTER), then(5, 5), window=5 * FULL), 5, "window-limited"),
    # after a repeat the window may be one segment, whatever the initial one is; a longer flight is no shorter than it
    (talk(*PROVEN, REPEATED_SYNACK), 10, "synack-repeated"),
    # a send buffer is no window, which would have grown: full segments, let out by ACKs, but never more at a time
    (talk(*rounds(3, 3, 3, 3, 3, 3)), 3, "no-growth"),
    (talk(*rounds(3, 6, 12, 24, 48, 96)), 3, ""),
    # ACKs of 4 full segments let 4 go at least: who sends fewer, and the rest a round trip later, writes so
    (talk(*rounds(4, 1, 1, 1)), 4, "no-growth"),
    (talk(*rounds(4, 4, 4)), 4, "no-growth"),
    (talk(*rounds(4, 4)), 4, ""),
    (talk(first(10), *bottleneck(4)), 10, ""),
    # an ACK of 2 lets 4 go from a window of 3, one of nothing new none; a queue sends no short segment amid others
    (talk(first(3), acked(2, AFTER), then(3, 4)), 3, ""),
    (talk(first(3), acked(2, AFTER), then(3, 5)), 3, "no-growth"),
    (talk(first(2), acked(0, AFTER), then(2, 2)), 2, "no-growth"),
    # by what it echoes the server had not heard the second ACK, with which it may send six, or it had
    *((talk(first(3), acked(2, AFTER), acked(3, AFTER + 0.002), flight(SECOND + 0.004, 3, 6, echo_s=echo)), 3, proof)
      for echo, proof in ((AFTER, "no-growth"), (AFTER + 0.002, ""))),
    (talk(first(3), acked(3, AFTER), then(3, 2), says(1, SECOND + 0.0022, ACK, 1 + 5 * FULL, 101, 700),
          says(1, SECOND + 0.0023, ACK, 701 + 5 * FULL, 101, FULL)), 3, "no-growth"),
    (talk(first(10), *bottleneck(2)), 10, "no-growth"),
    # a program that writes every 90 ms keeps back what the ACKs let out; so does one whose next piece was lost
    (talk(first(4), acked(4, AFTER), then(4, 3), flight(SECOND + 0.09, 7, 3), acked(7, SECOND + 0.095),
          *(flight(SECOND + 0.09 * n, 4 + 3 * n, 3) for n in (2, 3))), 4, "no-growth"),
    (talk(first(10), acked(2, AFTER), acked(8, AFTER + 0.001), then(10, 7), flight(SECOND + 0.003, 18, 1),
          flight(SECOND + RTT_S, 17, 1), flight(SECOND + 2 * RTT_S, 19, 9)), 10, "no-growth"),
    # the stream's last bytes may wait (Nagle); one short segment amid full ones takes a segment of the window
    (talk(*rounds(3, 6), says(1, SECOND + 2 * RTT_S + 0.01, ACK, 1 + 9 * FULL, 101, 97)), 3, ""),
    (talk(row(FULL, 300, FULL, FULL), says(1, SECOND + 0.002, ACK, 301 + 3 * FULL, 101, FULL, echo_s=AFTER)), 4, ""),
    (talk(row(FULL, 300, 300, FULL), says(1, SECOND + 0.002, ACK, 601 + 2 * FULL, 101, FULL, echo_s=AFTER)),
     3, "short-segment"),
    # a probe that comes sooner than the handshake took: the server had held its answer back
    (talk(first(4), says(1, FLIGHT + 0.0057, ACK | FIN, 1 + 4 * FULL, 101, 191, echo_s=ASKED)), 4, "short-segment"),
    # timestamps were agreed on and not sent: a segment holds twelve bytes more
    (talk(*(says(1, FLIGHT + n / 10_000, ACK, 1 + n * MSS, 101, MSS, options=()) for n in range(3))), 3, "unverified"),
    # a segment is as large as was agreed; less may be a narrower path's, or a library's buffer
    (talk(first(10, size=1448), acked(2, AFTER, size=1448), then(10, 4, size=1448), mss=1460), 10, ""),
    (talk(first(10, size=1228), acked(2, AFTER, size=1228), then(10, 4, size=1228), mss=1460), 9, "short-segment"),
])  # fmt: skip
def test_what_the_window_did_not_end_is_a_bound(
    conversation: Conversation, value: int, proof: str, tmp_path: Path
) -> None:
    found = verdicts(conversation, tmp_path)["icw"]
    assert (found.value, found.detail("proof")) == (value, proof or "ack-clocked")
    assert found.grade == ("L" if proof else "C")
    # the reader of probes is not surer of the same packets
    packets = packets_of(conversation.batch(tmp_path), 0)
    (probed,) = icw.infer(Trace("t", Target("a.example"), "here", "icw", packets=packets))
    assert probed.grade == "L" or proof in ("", "repeated", "no-growth")


@pytest.mark.parametrize(("flags", "grade"), [(ACK | PSH, "L"), (ACK, "C")])
def test_a_flight_whose_last_segment_pushes_is_a_bound(flags: int, grade: str, tmp_path: Path) -> None:
    """A server that writes three full segments by chance, and the rest as late as an ACK would let it out."""
    last = says(1, FLIGHT + 0.0002, flags, 1 + 2 * FULL, 101, FULL, echo_s=ASKED)
    found = verdicts(talk(first(2), last, acked(3, AFTER), then(3, 4)), tmp_path)["icw"]
    assert (found.value, found.grade) == (3, grade)


LATER = SECOND + 0.05
ASKS = says(0, LATER, ACK, 101, 1 + 14 * FULL, 100)


def anew(count: int, at_s: float = LATER + RTT_S, ack: int = 201, more: int = 4, since: int = 14) -> list[Step]:
    """A flight behind `since` segments, the ACK of two, and what that lets out, and the ACK of all."""
    done, last = at_s + 0.003, since + count
    ranges = [(at_s, since, count, at_s - RTT_S), (done + RTT_S, last, more, done)]
    data = [says(1, at + n / 10_000, ACK, 1 + (first + n) * FULL, ack, FULL, echo_s=echo)
            for at, first, many, echo in ranges for n in range(many)]  # fmt: skip
    ends = zip((done, done + RTT_S + 0.003), (since + 2, last + more), strict=True)
    return [*data, *(says(0, at, ACK, ack, 1 + end * FULL) for at, end in ends)]


def hello(kind: int) -> bytes:
    body = b"\3\3" + bytes(32) + (b"\0\0\2\x13\1\1\0" if kind == 1 else b"\0\x13\1\0")
    return b"\x16\3\3" + (len(body) + 4).to_bytes(2, "big") + bytes((kind, 0, 0, len(body))) + body


@pytest.mark.parametrize(("steps", "windows", "restart"), [
    ([acked(14, LATER), ASKS, *anew(20)], [(20, "C", "request")], None),
    ([ASKS, *anew(20)], [(20, "C", "request")], None),
    ([ASKS, *anew(20, more=0)], [(20, "L", "request")], None),
    ([ASKS, *anew(1)], [], None),
    # a second passed: with a request, or without
    ([acked(14, LATER), says(0, LATER + 1, ACK, 101, 1 + 14 * FULL, 100), *anew(5, LATER + 1 + RTT_S)],
     [(5, "C", "idle")], None),
    ([acked(14, LATER), *anew(5, LATER + 1, 101)], [(5, "C", "idle")], None),
    # the window restarted, or not
    ([ASKS, *anew(20), *anew(5, LATER + 4, since=38)], [(20, "C", "request"), (5, "C", "idle")], "on"),
    ([ASKS, *anew(20), *anew(40, LATER + 13, since=38)], [(20, "C", "request"), (40, "C", "idle")], "off"),
    ([ASKS, *anew(20), *anew(60, LATER + 3, since=38)], [(20, "C", "request"), (60, "C", "idle")], None),
    ([ASKS, *anew(20), *anew(5, LATER + 4, more=0, since=38)], [(20, "C", "request"), (5, "L", "idle")], None),
    # the path was not quiet; the server had not heard the request; the capture lacks it
    ([acked(13, LATER), says(0, LATER, ACK, 101, 1 + 13 * FULL, 100), *anew(20)], [], None),
    ([ASKS, *anew(20, ack=101)], [], None),
    ([says(0, LATER, ACK, 201, 1 + 14 * FULL), *anew(20)], [], None),
    # two requests, the second while the first answer is on its way
    ([ASKS, *anew(20), says(0, LATER + RTT_S + 0.002, ACK, 201, 1 + 14 * FULL, 50)], [(20, "L", "request")], None),
])  # fmt: skip
def test_a_later_flight_is_read_like_the_first(
    steps: list[Step], windows: list[tuple[int, str, str]], restart: str | None, tmp_path: Path
) -> None:
    conversation = talk(*PROVEN, *steps)
    (one,) = report_connections(conversation.batch(tmp_path), ["x"])
    assert [(w.segments, w.grade, w.why) for w in one.windows] == windows
    # the first flight is that of the connection; inside TLS the first later one is that at a request
    for way, kind in enumerate((1, 2)):
        at = next(n for n, (_, frame) in enumerate(conversation.frames) if len(frame) > 140 + 800 * way)
        when, frame = conversation.frames[at]
        conversation.frames[at] = when, frame[: -(100, FULL)[way]] + hello(kind).ljust((100, FULL)[way], b"\0")
    found = verdicts(conversation, tmp_path)
    asked = found.get("cwnd_at_request")
    idle = found.get("slow_start_after_idle")
    assert (idle and idle.value) == restart
    shown = [(segments, "L" if why == "idle" else grade) for segments, grade, why in windows]
    assert [found["icw"].value, asked and (asked.value, asked.grade)] == [10, shown[0] if shown else None]


@pytest.mark.parametrize("stamps", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 10, 16, 30, 64])
def test_an_ack_clocked_flight_is_exact(count: int, stamps: bool, tmp_path: Path) -> None:
    conversation = Conversation(stamps=stamps, window=65535)
    size = FULL if stamps else FULL + 12
    conversation.flight(FLIGHT, 0, count, echo_s=ASKED, size=size)
    conversation.ack(FLIGHT + 0.008, count, size=size)
    conversation.flight(SECOND + 0.008, count, 2, size=size)
    found = verdicts(conversation, tmp_path)["icw"]
    assert (found.grade, found.value, found.detail("proof")) == ("C", count, "ack-clocked")
    assert found.detail("timestamps") == stamps and found.detail("bytes") == count * size
    assert len(found.evidence) == count


def test_merged_frames_count_as_segments(tmp_path: Path) -> None:
    merged = talk(first(5, size=2 * FULL), acked(10, FLIGHT + 0.001), flight(SECOND + 0.001, 10, 4))
    found = verdicts(merged, tmp_path)["icw"]
    assert (found.grade, found.value, found.detail("merged")) == ("C", 10, True)


@pytest.mark.parametrize(("conversation", "reason"), [
    (talk(flight(FLIGHT, 0, 5), acked(5, FLIGHT + 0.01), opened=False), "unclear:no-handshake"),
    (talk(says(1, FLIGHT, ACK, 1, 101)), "no-data"),
    (talk(REPEATED_SYNACK, says(1, FLIGHT, ACK, 1, 101, 500)), "synack-repeated"),
    (talk(says(1, FLIGHT, ACK, 0, 101, 1)), "unclear:first-segment-lost"),
])  # fmt: skip
def test_reasons(conversation: Conversation, reason: str, tmp_path: Path) -> None:
    assert verdicts(conversation, tmp_path)["icw"].reason == reason


@pytest.mark.parametrize("tainted", [False, True])
def test_a_capture_that_lost_frames_proves_nothing(tainted: bool, tmp_path: Path) -> None:
    unanswered = talk(
        says(0, 0, SYN, 0, 0, options=()),
        *(says(1, at, SYN | ACK, 0, 1, options=()) for at in (0.1, 1.1, 3.1, 7.1)),
        opened=False, asked=False,
    )  # fmt: skip
    found = [verdicts(talk(*PROVEN), tmp_path, tainted=tainted)["icw"]]
    timers = verdicts(unanswered, tmp_path, tainted=tainted)
    found += [timers[knob] for knob in ("synack_rto", "synack_retries", "synack_backoff")]
    assert [o.reason == "drops" and o.value is None for o in found] == [tainted] * 4
    assert tainted or None not in {o.value for o in found}


@pytest.mark.parametrize(("apart_s", "grade"), [(0.01, "C"), (1.0, "L")])
def test_a_repeated_synack_leaves_the_window_at_the_request(apart_s: float, grade: str, tmp_path: Path) -> None:
    """A duplicate within 10 ms hides neither the round trip nor the flight; after a timer's repeat it is unknown."""
    later = FLIGHT + apart_s
    conversation = talk(first(16, later), acked(2, later + 0.002), flight(later + RTT_S + 0.002, 16, 4))
    synack = conversation.frames[1]
    conversation.frames.append((synack[0] + round(apart_s * 1e9), synack[1]))
    conversation.frames[2:4] = [(at + round(apart_s * 1e9), frame) for at, frame in conversation.frames[2:4]]
    found = verdicts(conversation, tmp_path)
    initial, asked = found["icw"], found["cwnd_at_request"]
    assert (initial.grade, initial.value, initial.detail("proof")) == ("L", 16, "synack-repeated")
    assert (asked.grade, asked.value) == (grade, 16)


@pytest.mark.parametrize(("sizes", "count"), [((1022,), 1), ((948, 948), 2), ((1896, 948), 3), ((2896, 1448), 3)])
def test_a_server_may_send_more_than_it_takes(sizes: tuple[int, ...], count: int, tmp_path: Path) -> None:
    """A server that announces 960 bytes, and a client 1460: whether 1022 bytes were one segment is not known."""
    conversation = talk(row(*sizes), mss=1460)
    (at, data) = conversation.frames[1]
    conversation.frames[1] = (at, data.replace(b"\x02\x04\x05\xb4", b"\x02\x04" + (960).to_bytes(2, "big")))
    assert verdicts(conversation, tmp_path)["icw"].value == count


def test_on_a_short_path_an_ack_proves_nothing(tmp_path: Path) -> None:
    """A server's writes 40 us apart, over a path of 100 us: fresh data after the ACK may be its next write."""
    conversation = talk(
        *(says(1, FLIGHT + n / 100, ACK, 1 + n * MSS, 101, MSS) for n in range(4)),
        says(0, FLIGHT + 0.03, ACK, 101, 1 + 4 * MSS), says(1, SECOND + 0.03, ACK, 1 + 4 * MSS, 101, MSS),
        stamps=False,
    )  # fmt: skip
    conversation.frames = [(round(1e12 + (at - 1e12) / 1000), frame) for at, frame in conversation.frames]
    found = verdicts(conversation, tmp_path)["icw"]
    assert (found.grade, found.detail("proof")) == ("L", "short-path")
