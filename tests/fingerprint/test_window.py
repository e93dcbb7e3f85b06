# SPDX-License-Identifier: MIT
"""Windows: what proves that one stopped the server, and what only looks like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configtron.fingerprint import data_rto, icw
from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.window import read_window
from configtron.model.nouns import ACK, FIN, OPT_MSS, OPT_SACK_PERMITTED, PSH, SYN, Packet, Segment, Target, Trace
from configtron.probe.icw import icw as icw_script
from configtron.probe.play import play
from tests.support.fake_server import FakeServer

TARGET = Target("a.example")
MSS, RTT_S, ASK = 536, 0.02, 80
OFFER = ((OPT_MSS, MSS.to_bytes(2, "big")),)


def trace_of(sizes: list[int], fresh: list[tuple[float, int, int]]) -> Trace:
    """A flight of those sizes, an ACK 80 ms later, and what comes after the ACK: (seconds later, bytes, flags)."""
    rows: list[tuple[float, str, Segment]] = [
        (0.0, "out", Segment(SYN, options=OFFER)),
        (RTT_S, "in", Segment(SYN | ACK, ack=1, window=29200, options=OFFER)),
        (RTT_S, "out", Segment(ACK, seq=1, ack=1)),
        (RTT_S, "out", Segment(ACK | PSH, seq=1, ack=1, payload=b"x" * ASK, length=ASK)),
    ]
    at, seq = 2 * RTT_S, 1
    for size in sizes:
        rows.append((at, "in", Segment(ACK, seq=seq, ack=1 + ASK, length=size)))
        seq += size
    acked_at = at + 0.08
    rows.append((acked_at, "out", Segment(ACK, seq=1 + ASK, ack=seq, window=2 * MSS)))
    for later_s, size, flags in fresh:
        rows.append((acked_at + later_s, "in", Segment(ACK | flags, seq=seq, ack=1 + ASK, length=size)))
        seq += size
    packets = tuple(Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(rows))
    return Trace("t", Target("a.example"), "here", "icw", (("mss", MSS),), 0, packets, ending="done")


@pytest.mark.parametrize(
    ("sizes", "fresh", "grade", "proof"),
    [
        ([MSS] * 4, [(RTT_S, MSS, 0)], "C", "before-timer"),
        ([MSS] * 4, [(RTT_S, 7, FIN)], "C", "before-timer"),
        ([MSS] * 4, [(RTT_S, 7, 0), (RTT_S, MSS, 0)], "C", "before-timer"),
        # what a server lets fall when it pleases: a head, then a few bytes that happen to come when fresh data is due
        ([101], [(RTT_S + 0.005, 40, 0)], "L", "no-queue"),
        ([40] * 3, [(RTT_S, 40, 0), (RTT_S + 0.1, 40, 0)], "L", "no-queue"),
        ([MSS] * 4, [(RTT_S, 7, 0), (RTT_S + 0.1, 0, FIN)], "L", "no-queue"),
        ([MSS] * 4, [(0.2, MSS, 0)], "L", "server-paced"),
    ],
)
def test_a_stopped_server_has_a_queue(
    sizes: list[int], fresh: list[tuple[float, int, int]], grade: str, proof: str
) -> None:
    (seen,) = icw.infer(trace_of(sizes, fresh))
    assert (seen.value, seen.grade, seen.detail("proof")) == (len(sizes), grade, proof)


def asked_later(handshake: list[tuple[float, int, int]]) -> Trace:
    """A server that says something before we ask: (seconds since our first word, sequence, bytes; 0: an ACK only).

    Then our request, four segments, an ACK 80 ms later and fresh data.
    """
    rows: list[tuple[float, str, Segment]] = [
        (0.0, "out", Segment(SYN, options=OFFER)),
        (RTT_S, "in", Segment(SYN | ACK, ack=1, window=29200, options=OFFER)),
        (RTT_S, "out", Segment(ACK | PSH, seq=1, ack=1, payload=b"h" * ASK, length=ASK)),
    ]
    base = 1
    for at, seq, size in handshake:
        base = max(base, seq + size)
        rows.append((RTT_S + at, "in", Segment(ACK, seq=seq, ack=1 + ASK, length=size)))
        rows.append((RTT_S + at, "out", Segment(ACK, seq=1 + ASK, ack=base)))
    at = rows[-1][0] + 0.05
    rows.append((at, "out", Segment(ACK | PSH, seq=1 + ASK, ack=base, payload=b"x" * ASK, length=ASK)))
    for n in range(4):
        rows.append((at + RTT_S, "in", Segment(ACK, seq=base + n * MSS, ack=1 + 2 * ASK, length=MSS)))
    edge, at = base + 4 * MSS, at + RTT_S
    rows.append((at + 0.08, "out", Segment(ACK, seq=1 + 2 * ASK, ack=edge, window=2 * MSS)))
    rows.append((at + 0.08 + RTT_S, "in", Segment(ACK, seq=edge, ack=1 + 2 * ASK, length=MSS)))
    packets = tuple(Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(rows))
    return Trace("t", Target("a.example"), "here", "cwnd_at_request", (("mss", MSS),), 0, packets, ending="done")


@pytest.mark.parametrize(
    ("handshake", "proof"),
    [
        ([(RTT_S, 1, MSS), (RTT_S, 1 + MSS, 300)], "before-timer"),
        # the network turned two round
        ([(RTT_S, 1 + MSS, 300), (RTT_S + 0.002, 1, MSS)], "before-timer"),
        # one was lost, and came a timer later; a tail was lost; the same came twice
        ([(RTT_S, 1 + MSS, 300), (RTT_S + 0.15, 1, MSS)], "after-loss"),
        ([(RTT_S, 1, MSS), (RTT_S + 0.15, 1 + MSS, 300)], "after-loss"),
        ([(RTT_S, 1, MSS), (RTT_S + 0.15, 1, MSS)], "after-loss"),
        # an acknowledgement stands beyond what was heard
        ([(RTT_S, 1, MSS), (2 * RTT_S, 1 + MSS + 51, 0), (2 * RTT_S + 0.004, 1 + MSS, 51)], "after-loss"),
        # silent for longer than a timeout, before the last word
        ([(RTT_S, 1, MSS), (RTT_S + 0.4, 1 + MSS, 300)], "after-idle"),
    ],
)
def test_a_window_that_a_loss_or_silence_shrank_is_a_bound(handshake: list[tuple[float, int, int]], proof: str) -> None:
    trace = asked_later(handshake)
    start = next(n for n, p in enumerate(trace.packets) if p.segment.payload[:1] == b"x")
    base = trace.packets[start].segment.ack
    seen = read_window("cwnd_at_request", trace, handshake_of(trace.packets), start, base, initial=False)
    assert (seen.value, seen.detail("proof")) == (4, proof)
    assert seen.grade == ("C" if proof == "before-timer" else "L")


@pytest.mark.parametrize(
    ("sizes", "lone_s", "proof"),
    [
        ([MSS] * 4, 0.05, "edge"),
        ([MSS] * 4, 0.2, "edge"),
        # a head, and its body a while later: a probe of a single segment comes when the retransmission timer would
        ([101], 0.15, "short-end"),
        ([101], 0.23, "edge"),
        # a head of several segments; probes come after two round trips
        ([MSS, 101], 0.045, "edge"),
        ([MSS, 101], 0.15, "short-end"),
    ],
)
def test_a_lone_segment_may_be_the_next_word(sizes: list[int], lone_s: float, proof: str) -> None:
    trace = trace_of(sizes, [(lone_s - 0.08, MSS, 0)])
    offer = (*OFFER, (OPT_SACK_PERMITTED, b""))
    first, second = (p._replace(segment=p.segment._replace(options=offer)) for p in trace.packets[:2])
    *flight, ack, lone = trace.packets[2:]
    # the ACK goes out after the lone segment here, and lets fresh data out
    edge = lone.segment.seq + MSS
    acked_at = lone.at + 0.08
    late = Packet(acked_at, "out", ack.segment._replace(ack=edge), ack.frame + 1)
    fresh = Packet(acked_at + RTT_S, "in", lone.segment._replace(seq=edge), ack.frame + 2)
    (seen,) = icw.infer(replace(trace, packets=(first, second, *flight, lone, late, fresh)))
    assert (seen.value, seen.detail("proof")) == (len(sizes), proof)


def test_the_lost_part_of_a_flight_is_not_counted_in_its_short_tail() -> None:
    trace = trace_of([MSS, 24], [])
    packets = tuple(p for p in trace.packets if p.segment.length != MSS)
    (seen,) = icw.infer(replace(trace, packets=packets))
    assert (seen.value, seen.grade) == (2, "L")


def test_a_short_first_segment_sent_again_is_not_the_segment_size() -> None:
    trace = trace_of([238, 1220, 1220, 1220], [])
    again = trace.packets[4]._replace(at=0.5)
    # the third was lost; a server may send more than was offered, as cookies over IPv6 have it
    packets = tuple(p for p in trace.packets[:-1] if p.segment.seq != 1 + 238 + 1220)
    (seen,) = icw.infer(replace(trace, packets=(*packets, again)))
    assert (seen.value, seen.detail("mss"), seen.detail("stop")) == (4, 1220, "rto")


def test_a_bound_counts_a_lost_head_once() -> None:
    """A head of 101 bytes was lost, and nine drips of 40 were heard: ten segments, and not twelve."""
    trace = trace_of([101] + [40] * 9, [(0.2, 40, 0)])
    lost = next(p for p in trace.packets if p.way == "in" and p.segment.length == 101)
    (seen,) = icw.infer(replace(trace, packets=tuple(p for p in trace.packets if p is not lost)))
    assert (seen.value, seen.grade) == (10, "L")


def test_a_bound_counts_lost_segments_of_a_server_that_exceeds_our_offer_as_large_as_can_be() -> None:
    trace = trace_of([1400, 1400, 700], [])
    (seen,) = icw.infer(replace(trace, packets=tuple(p for p in trace.packets if p.segment.length != 1400)))
    assert (seen.value, seen.grade, seen.detail("mss")) == (3, "L", 700)


@pytest.mark.parametrize(
    ("sizes", "wait_s", "fresh", "spoken", "value", "grade", "proof"),
    [
        ([MSS] * 4, 0.08, MSS, 0, 4, "C", "before-timer"),
        # a head by itself, and a server that stayed silent until a late ACK
        ([200, MSS, MSS, MSS], 0.08, MSS, 0, 4, "C", "before-timer"),
        ([200, MSS, MSS, MSS], 0.04, MSS, 0, 4, "L", "short-segment"),
        # more segments than bytes would fill, of a stack that may count either
        ([200, 200, MSS, MSS], 0.08, MSS, 0, 3, "L", "short-segment"),
        # less than a segment was held back until the ACK
        ([MSS] * 4, 0.08, MSS - 1, 0, 4, "L", "short-segment"),
        # what comes may answer what the client sent
        ([MSS] * 4, 0.08, MSS, 300, 4, "L", "client-data"),
    ],
)
def test_of_a_strangers_conversation_only_full_segments_prove_a_window(
    sizes: list[int], wait_s: float, fresh: int, spoken: int, value: int, grade: str, proof: str
) -> None:
    trace = trace_of(sizes, [(RTT_S, fresh, 0), (RTT_S, MSS, 0)])
    *before, ack, first, second = trace.packets
    moved = [p._replace(at=p.at - 0.08 + wait_s) for p in (ack, first, second)]
    moved[0] = moved[0]._replace(segment=moved[0].segment._replace(length=spoken))
    (seen,) = icw.infer(replace(trace, packets=(*before, *moved), vantage="capture"))
    assert (seen.value, seen.grade, seen.detail("proof")) == (value, grade, proof)


class Doubling:
    """A wire that delivers each packet of the server twice, the copy so much later."""

    def __init__(self, server: FakeServer, late_s: float) -> None:
        self.server, self.late_s = server, late_s
        self.copies: list[Packet] = []

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        return self.server.send(segment)

    def receive(self, until: float) -> Packet | None:
        if self.copies and self.copies[0].at <= until:
            following = self.server.receive(self.copies[0].at)
            if following is None:
                return self.copies.pop(0)
        else:
            following = self.server.receive(until)
        if following is not None:
            self.copies.append(following._replace(at=following.at + self.late_s))
        return following


@pytest.mark.parametrize("late_s", [0.0, 0.00002, 0.004])
@pytest.mark.parametrize("number", [1, 10, 24])
@pytest.mark.parametrize("sack", [False, True])
def test_packets_that_the_network_doubles_are_no_repeats(late_s: float, number: int, sack: bool) -> None:
    server = FakeServer(icw=number, sack=sack)
    script = icw_script(TARGET, "agent", mss=MSS, sack=sack, early=not sack)
    packets, ending = play(script, Doubling(server, late_s))
    trace = Trace("t", TARGET, "here", "icw", (("mss", MSS), ("sack", sack)), 0, packets, ending=ending)
    (seen,) = icw.infer(trace)
    assert (seen.value, seen.grade) == (number, "C"), seen.details


def test_a_doubled_first_segment_is_no_timeout() -> None:
    packets, ending = play(icw_script(TARGET, "agent", repeats=2), Doubling(FakeServer(), 0.00002))
    trace = Trace("t", TARGET, "here", "icw", (("mss", MSS), ("repeats", 2)), 0, packets, ending=ending)
    assert data_rto.infer(trace)[0].value == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize(("gap_s", "value", "grade"), [(0.003, 10, "L"), (0.0, 11, "C")])
def test_a_probe_that_comes_within_the_burst_is_no_part_of_the_window(gap_s: float, value: int, grade: str) -> None:
    """Acknowledgements of a TLS handshake bring the server's round trip down to the path's 0.1 ms, so its tail loss
    probe comes after two ticks; a busy host takes some of the gap away, and the burst seems even."""
    small, rtt_s, offer = 64, 0.0001, (*OFFER, (OPT_SACK_PERMITTED, b""))
    rows: list[tuple[float, str, Segment]] = [
        (0.0, "out", Segment(SYN, options=offer)),
        (rtt_s, "in", Segment(SYN | ACK, ack=1, window=29200, options=offer)),
        (0.02, "out", Segment(ACK | PSH, seq=1, ack=1, payload=b"x" * ASK, length=ASK)),
        (0.02 + rtt_s, "in", Segment(ACK, seq=1, ack=1 + ASK, length=small)),
        (0.0205, "out", Segment(ACK | PSH, seq=1 + ASK, ack=1 + small, payload=b"x" * ASK, length=ASK)),
    ]
    at, seq, asked = 0.0205 + rtt_s, 1 + small, 1 + 2 * ASK
    for n in range(11):
        late_s = gap_s if n == 10 else 0.0
        rows.append((at + late_s, "in", Segment(ACK, seq=seq, ack=asked, length=small)))
        seq += small
    acked_at = at + gap_s + 0.08
    rows.append((acked_at, "out", Segment(ACK, seq=asked, ack=seq, window=2 * small)))
    rows += [(acked_at + rtt_s, "in", Segment(ACK, seq + n * small, asked, length=small)) for n in range(2)]
    packets = tuple(Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(rows))
    trace = Trace("t", TARGET, "here", "cwnd_at_request", (("mss", small),), 0, packets, ending="done")
    seen = read_window("cwnd_at_request", trace, handshake_of(packets), 4, 1 + small, initial=False)
    assert (seen.value, seen.grade) == (value, grade), seen.details
