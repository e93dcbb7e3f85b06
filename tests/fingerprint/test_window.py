"""Windows: what proves that one stopped the server, and what only looks like it."""

from __future__ import annotations

import pytest

from configtron.fingerprint import icw
from configtron.nouns import ACK, FIN, OPT_MSS, PSH, SYN, Packet, Segment, Target, Trace

MSS, RTT_S, ASK = 536, 0.02, 80
OFFER = ((OPT_MSS, MSS.to_bytes(2, "big")),)


def told(sizes: list[int], fresh: list[tuple[float, int, int]]) -> Trace:
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
    (seen,) = icw.infer(told(sizes, fresh))
    assert (seen.value, seen.grade, seen.detail("proof")) == (len(sizes), grade, proof)
