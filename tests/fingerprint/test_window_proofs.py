# SPDX-License-Identifier: MIT
"""Windows: what proves that one stopped the server, and what only looks like it; each proof and doubt decides."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from configtron.fingerprint import data_rto, icw, icw_tls
from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.window import read_window
from configtron.fingerprint.window_proofs import DOUBTS, PROOFS
from configtron.model import nouns
from configtron.probe import PROBES
from configtron.probe.play import play
from configtron.probe.wire.evidence_reader import read_located
from tests.support import ROOT
from tests.support.fake_server import TARGET, FakeServer, probed

MSS, RTT_S, ASK = 536, 0.02, 80
OFFER = ((nouns.OPT_MSS, MSS.to_bytes(2, "big")),)
Rows = list[tuple[float, str, nouns.Segment]]


def told(rows: Rows, probe: str = "icw", mss: int = MSS) -> nouns.Trace:
    packets = tuple(nouns.Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(rows))
    return nouns.Trace("t", nouns.Target("a.example"), "here", probe, (("mss", mss),), 0, packets, ending="done")


def request(seq: int = 1, ack: int = 1, letter: bytes = b"x") -> nouns.Segment:
    return nouns.Segment(nouns.ACK | nouns.PSH, seq, ack, payload=letter * ASK, length=ASK)


def opening(rtt_s: float = RTT_S, offer: tuple[tuple[int, bytes], ...] = OFFER) -> Rows:
    synack = nouns.Segment(nouns.SYN | nouns.ACK, ack=1, window=29200, options=offer)
    return [
        (0.0, "out", nouns.Segment(nouns.SYN, options=offer)),
        (rtt_s, "in", synack),
        (rtt_s, "out", nouns.Segment(nouns.ACK, 1, 1)),
    ]


def trace_of(sizes: list[int], fresh: list[tuple[float, int, int]], offer: Any = OFFER) -> nouns.Trace:
    """A flight of those sizes, an ACK 80 ms later, and what comes after the ACK: (seconds later, bytes, flags)."""
    rows, at, seq = [*opening(offer=offer), (RTT_S, "out", request())], 2 * RTT_S, 1
    for size in sizes:
        rows.append((at, "in", nouns.Segment(nouns.ACK, seq, 1 + ASK, length=size)))
        seq += size
    at += 0.08
    rows.append((at, "out", nouns.Segment(nouns.ACK, 1 + ASK, seq, 2 * MSS)))
    for later_s, size, flags in fresh:
        rows.append((at + later_s, "in", nouns.Segment(nouns.ACK | flags, seq, 1 + ASK, length=size)))
        seq += size
    return told(rows)


def seen(trace: nouns.Trace) -> nouns.Observation:
    (one,) = icw.infer(trace)
    return one


@pytest.mark.parametrize(("sizes", "fresh", "spoken", "wait_s", "proof", "captured"), [
    ([MSS] * 4, [(RTT_S, MSS, 0)], 0, 0.08, "before-timer", (4, "before-timer")),
    ([MSS] * 4, [(RTT_S, 7, nouns.FIN)], 0, 0.08, "before-timer", (4, "before-timer")),
    # a head by itself, and a server that stayed silent until a late ACK
    ([200, MSS, MSS, MSS], [(RTT_S, MSS, 0)], 0, 0.08, "before-timer", (4, "before-timer")),
    ([200, MSS, MSS, MSS], [(RTT_S, MSS, 0)], 0, 0.04, "short-end", (4, "short-segment")),
    # more segments than bytes would fill, of a stack that may count either: a probe asks again at another size
    ([200, 200, MSS, MSS], [(RTT_S, MSS, 0)], 0, 0.08, "before-timer", (3, "short-segment")),
    # Nagle's algorithm kept less than a segment back until the ACK, and what stood behind it
    ([MSS] * 4, [(RTT_S, MSS - 1, 0)], 0, 0.08, "short-end", (4, "short-segment")),
    ([MSS] * 4, [(RTT_S, 7, 0), (RTT_S, MSS, 0)], 0, 0.08, "short-end", (4, "short-segment")),
    # a head, and its page when fresh data is due
    ([101], [(RTT_S, MSS, 0), (RTT_S, MSS, 0)], 0, 0.08, "short-end", (1, "short-segment")),
    # what a server lets fall when it pleases
    ([40] * 3, [(RTT_S, 40, 0), (RTT_S + 0.1, 40, 0)], 0, 0.08, "short-end", (1, "short-segment")),
    # what comes may answer what the client sent
    ([MSS] * 4, [(RTT_S, MSS, 0)], 300, 0.08, "client-data", (4, "client-data")),
    ([MSS] * 4, [(0.2, MSS, 0)], 0, 0.08, "server-paced", (4, "server-paced")),
])  # fmt: skip
def test_a_stopped_server_has_a_queue_and_sends_full_segments(
    sizes: list[int], fresh: list[Any], spoken: int, wait_s: float, proof: str, captured: tuple[int, str]
) -> None:
    """The same packets as a probe's and as a stranger's: one table of proofs."""
    trace = trace_of(sizes, fresh)
    before, (ack, *after) = trace.packets[: -len(fresh) - 1], trace.packets[-len(fresh) - 1 :]
    ack = ack._replace(segment=ack.segment._replace(length=spoken))
    packets = (*before, *(p._replace(at=p.at - 0.08 + wait_s) for p in (ack, *after)))
    for vantage, expected in (("here", (len(sizes), proof)), ("capture", captured)):
        found = seen(replace(trace, packets=packets, vantage=vantage))
        assert (found.value, found.detail("proof")) == expected
        assert found.grade == ("C" if expected[1] == "before-timer" else "L")


@pytest.mark.parametrize(("sizes", "early_s", "proof"), [
    ([30, 9, MSS, MSS], 0.004, "before-timer"), ([MSS] * 4, 0.012, "before-timer"),
    ([30, 9, MSS, MSS], 0.012, "held-back"),
])  # fmt: skip
def test_a_segment_held_back_behind_an_old_head_is_no_end(sizes: list[int], early_s: float, proof: str) -> None:
    """A head in pieces leaves half a round trip before the body: the kernel keeps the last part."""
    trace = trace_of(sizes, [(RTT_S, MSS, 0)])
    packets = (*trace.packets[:4], trace.packets[4]._replace(at=2 * RTT_S - early_s), *trace.packets[5:])
    packets = tuple(p._replace(at=p.at - early_s) if n < 4 else p for n, p in enumerate(packets))
    found = seen(replace(trace, packets=packets))
    assert (found.value, found.detail("proof")) == (4, proof)


@pytest.mark.parametrize(("handshake", "proof"), [
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
])  # fmt: skip
def test_a_window_that_a_loss_or_silence_shrank_is_a_bound(handshake: list[tuple[float, int, int]], proof: str) -> None:
    """A server says something first: (seconds since our first word, sequence, bytes; 0: an ACK only). Then comes our
    request, four segments, an ACK 80 ms later and fresh data."""
    rows, base = [*opening(), (RTT_S, "out", request(letter=b"h"))], 1
    for at, seq, size in handshake:
        base = max(base, seq + size)
        rows.append((RTT_S + at, "in", nouns.Segment(nouns.ACK, seq, 1 + ASK, length=size)))
        rows.append((RTT_S + at, "out", nouns.Segment(nouns.ACK, 1 + ASK, base)))
    start, asked_s, edge = len(rows), rows[-1][0] + 0.05, base + 4 * MSS
    rows.append((asked_s, "out", request(1 + ASK, base)))
    rows += [
        (asked_s + RTT_S, "in", nouns.Segment(nouns.ACK, base + n * MSS, 1 + 2 * ASK, length=MSS)) for n in range(4)
    ]
    rows.append((asked_s + RTT_S + 0.08, "out", nouns.Segment(nouns.ACK, 1 + 2 * ASK, edge, 2 * MSS)))
    rows.append((asked_s + 2 * RTT_S + 0.08, "in", nouns.Segment(nouns.ACK, edge, 1 + 2 * ASK, length=MSS)))
    trace = told(rows, "cwnd_at_request")
    found = read_window("cwnd_at_request", trace, handshake_of(trace.packets), start, base, initial=False)
    assert (found.value, found.detail("proof")) == (4, proof)
    assert found.grade == ("C" if proof == "before-timer" else "L")


@pytest.mark.parametrize(("sizes", "lone_s", "lone", "proof"), [
    ([MSS] * 4, 0.05, MSS, "edge"),
    ([MSS] * 4, 0.2, MSS, "edge"),
    # a head, and its body a while later: a probe of a single segment comes when the retransmission timer would
    ([101], 0.15, MSS, "short-end"),
    ([101], 0.23, MSS, "edge"),
    ([101], 0.4, MSS, "short-end"),
    # a head of several segments; probes come after two round trips
    ([MSS, 101], 0.045, MSS, "edge"),
    ([MSS, 101], 0.15, MSS, "short-end"),
    # a status line, and the rest of the head, which Nagle's algorithm held back until the probe
    ([17], 0.23, 26, "short-end"),
    ([MSS] * 4, 0.05, 26, "short-end"),
])  # fmt: skip
def test_a_lone_segment_may_be_the_next_word(sizes: list[int], lone_s: float, lone: int, proof: str) -> None:
    """The ACK goes out after the lone segment here, and lets fresh data out."""
    trace = trace_of(sizes, [(lone_s - 0.08, lone, 0)])
    offer = (*OFFER, (nouns.OPT_SACK_PERMITTED, b""))
    first, second = (p._replace(segment=p.segment._replace(options=offer)) for p in trace.packets[:2])
    *flight, ack, probe = trace.packets[2:]
    edge, acked_at = probe.segment.end, probe.at + 0.08
    late = nouns.Packet(acked_at, "out", ack.segment._replace(ack=edge), ack.frame + 1)
    fresh = nouns.Packet(acked_at + RTT_S, "in", probe.segment._replace(seq=edge, length=MSS), ack.frame + 2)
    found = seen(replace(trace, packets=(first, second, *flight, probe, late, fresh)))
    assert (found.value, found.detail("proof")) == (len(sizes), proof)


@pytest.mark.parametrize(("sizes", "fresh", "lost", "again", "value", "grade", "mss"), [
    # the lost part of a flight is not counted in its short tail
    ([MSS, 24], [], {1}, False, 2, "L", 24),
    # a short first segment that is sent again is not the segment size; a server may send more than was offered
    ([238, 1220, 1220, 1220], [], {1 + 238 + 1220}, True, 4, "L", 1220),
    # a head of 101 bytes was lost, and nine drips of 40 were heard: ten segments, and not twelve
    ([101] + [40] * 9, [(0.2, 40, 0)], {1}, False, 10, "L", 40),
    # of a server that exceeds our offer, lost segments are as large as can be
    ([1400, 1400, 700], [], {1, 1401}, False, 3, "L", 700),
])  # fmt: skip
def test_a_bound_counts_what_was_lost_once(
    sizes: list[int], fresh: list[Any], lost: set[int], again: bool, value: int, grade: str, mss: int
) -> None:
    trace = trace_of(sizes, fresh)
    packets = [p for p in trace.packets if p.way == "out" or p.segment.seq not in lost]
    if again:
        packets[-1:] = [trace.packets[4]._replace(at=0.5)]
    found = seen(replace(trace, packets=tuple(packets)))
    assert (found.value, found.grade, found.detail("mss")) == (value, grade, mss)
    assert found.detail("stop") == "rto" or not again


@pytest.mark.parametrize(("sizes", "value", "proof"), [([MSS], 1, "before-timer"), ([MSS] * 3, 2, "uneven")])
def test_one_segment_that_is_not_the_first_may_be_a_probe_of_a_flight_that_was_lost(
    sizes: list[int], value: int, proof: str
) -> None:
    trace = trace_of(sizes, [(RTT_S, MSS, 0)], (*OFFER, (nouns.OPT_SACK_PERMITTED, b"")))
    *before, last, ack, fresh = trace.packets
    found = seen(
        replace(trace, packets=(*(p for p in before if not p.segment.length or p.way == "out"), last, ack, fresh))
    )
    assert (found.value, found.detail("proof")) == (value, proof)


class Doubling:
    """A wire that delivers each packet of the server twice, the copy so much later."""

    def __init__(self, server: FakeServer, late_s: float) -> None:
        self.server, self.late_s = server, late_s
        self.copies: list[nouns.Packet] = []

    def send(self, segment: nouns.Segment, tos: int = 0) -> nouns.Packet:
        return self.server.send(segment)

    def receive(self, until: float) -> nouns.Packet | None:
        copied = bool(self.copies) and self.copies[0].at <= until
        following = self.server.receive(self.copies[0].at if copied else until)
        if following is not None:
            self.copies.append(following._replace(at=following.at + self.late_s))
        return self.copies.pop(0) if following is None and copied else following


@pytest.mark.parametrize("late_s", [0.0, 0.00002, 0.004])
@pytest.mark.parametrize("number", [1, 10, 24])
@pytest.mark.parametrize("sack", [False, True])
def test_packets_that_the_network_doubles_are_no_repeats_and_no_timeout(late_s: float, number: int, sack: bool) -> None:
    server = FakeServer(icw=number, sack=sack)
    found = seen(probed(Doubling(server, late_s), mss=MSS, sack=sack, early=not sack))
    assert (found.value, found.grade) == (number, "C"), found.details
    timer, *_ = data_rto.infer(probed(Doubling(FakeServer(), 0.00002), repeats=2))
    assert timer.value == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize(("gap_s", "value", "grade"), [(0.003, 10, "L"), (0.0, 11, "C")])
def test_a_probe_that_comes_within_the_burst_is_no_part_of_the_window(gap_s: float, value: int, grade: str) -> None:
    """Acknowledgements of a TLS handshake bring the server's round trip down to the path's 0.1 ms, so its tail loss
    probe comes after two ticks; a busy host takes some of the gap away, and the burst seems even."""
    small, rtt_s, asked_s, asked = 64, 0.0001, 0.0205, 1 + 2 * ASK
    rows = opening(rtt_s, ((nouns.OPT_MSS, b"\0@"), (nouns.OPT_SACK_PERMITTED, b"")))[:2] + [
        (0.02, "out", request()),
        (0.02 + rtt_s, "in", nouns.Segment(nouns.ACK, 1, 1 + ASK, length=small)),
        (asked_s, "out", request(1 + ASK, 1 + small)),
    ]
    burst = [nouns.Segment(nouns.ACK, 1 + n * small, asked, length=small) for n in range(1, 14)]
    rows += [(asked_s + rtt_s + (gap_s if n == 10 else 0.0), "in", one) for n, one in enumerate(burst[:11])]
    acked_s = asked_s + rtt_s + gap_s + 0.08
    rows.append((acked_s, "out", nouns.Segment(nouns.ACK, asked, burst[11].seq, 2 * small)))
    rows += [(acked_s + rtt_s, "in", one) for one in burst[11:]]
    trace = told(rows, "cwnd_at_request", small)
    found = read_window("cwnd_at_request", trace, handshake_of(trace.packets), 4, 1 + small, initial=False)
    assert (found.value, found.grade) == (value, grade), found.details


@pytest.mark.parametrize(("payload", "reason"), [
    (bytes.fromhex("15030300020228"), "tls:alert-handshake-failure"),
    (bytes.fromhex("150303000202fe"), "tls:alert-254"),
    (b"HTTP/1.1 400 Bad Request", "tls:not-tls"),
])  # fmt: skip
def test_refusals_of_a_certificate_are_named(payload: bytes, reason: str) -> None:
    answer = (0.2, "in", nouns.Segment(nouns.ACK, 1, 1 + ASK, payload=payload, length=len(payload)))
    (found,) = icw_tls.infer(told([*opening(), (RTT_S, "out", request()), answer], "icw_tls"))
    assert found.reason == reason


@pytest.mark.parametrize(("icw", "text"), [(4, "4"), (10, "10"), (20, ">= 20"), (24, ">= 21")])
def test_a_chain_shorter_than_the_window_gives_a_bound(icw: int, text: str) -> None:
    """1343 bytes of certificate are 21 segments of 64."""
    server = FakeServer(icw=icw, page=1343, closes=False, greeting=b"\x16\x03\x03")
    script: Any = PROBES["icw_tls"].script(TARGET, "agent", mss=64, early=True)
    packets, ending = play(script, server)
    (found,) = icw_tls.infer(nouns.Trace("t", TARGET, "here", "icw_tls", packets=packets, ending=ending))
    assert found.text == text


def mutated(trace: nouns.Trace, rng: random.Random) -> nouns.Trace:
    """The trace with one packet lost, late, shorter, or of the client, as another capture or a slower clock."""
    packets = list(trace.packets)
    place = rng.randrange(len(packets))
    one, kind = packets[place], rng.choice(("lose", "delay", "cut", "slow", "ask", "none"))
    if kind == "lose":
        del packets[place]
    elif kind == "delay":
        late_s = rng.choice((0.02, 0.1, 0.3, 1.0, 4.0))
        packets[place:] = [p._replace(at=p.at + late_s) for p in packets[place:]]
    elif kind == "cut":
        packets[place] = one._replace(segment=one.segment._replace(length=rng.randrange(one.segment.length + 1)))
    elif kind == "slow":
        factor = rng.choice((0.1, 0.5, 2.0, 10.0))
        packets = [p._replace(at=p.at * factor) for p in packets]
    elif kind == "ask":
        packets[place] = one._replace(way="out")
    return replace(trace, packets=tuple(packets), vantage=rng.choice((trace.vantage, "capture")))


@pytest.fixture(scope="module")
def recorded() -> list[nouns.Trace]:
    files = sorted((ROOT / "fixtures").rglob("*.gz"))
    return [t for file in files for t, _ in read_located(file) if t.probe.startswith(("icw", "cwnd")) and t.packets]


@pytest.mark.slow
def test_each_row_decides_some_conversation(recorded: list[nouns.Trace]) -> None:
    rng, found = random.Random(7), set()
    for _ in range(4000):
        trace = mutated(rng.choice(recorded), rng)
        start = rng.choice((0, 0, rng.randrange(len(trace.packets) or 1)))
        found.add(read_window("icw", trace, handshake_of(trace.packets), start).detail("proof", ""))
    assert {row.name for row in (*PROOFS, *DOUBTS)} - found == set()


def test_a_clients_numbers_below_its_syns_are_compared_as_they_are() -> None:
    (trace, _), *_ = read_located(ROOT / "fixtures/icw/4/trace.pcapng.gz")

    def below(packet: nouns.Packet) -> nouns.Packet:
        segment, field = packet.segment, "seq" if packet.way == "out" else "ack"
        number = getattr(segment, field) - (0 if segment.flags & nouns.SYN else 335_544_319)
        return packet._replace(segment=segment._replace(**{field: number}))

    other = replace(trace, packets=tuple(map(below, trace.packets)))
    found = [read_window("icw", one, handshake_of(one.packets), 0).detail("proof") for one in (trace, other)]
    assert found[0] == found[1] != "client-data"
