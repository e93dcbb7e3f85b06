# SPDX-License-Identifier: MIT
"""Provoke delayed acknowledgements: a few short requests, then one that never ends, two bytes at a time.

Read in `fingerprint/delayed_ack.py`. The first requests make it an interactive connection, on which the server waits
for
something to send its acknowledgements with; on a young one they are prompt.
"""

from __future__ import annotations

from collections.abc import Generator

from configtron.model.nouns import ACK, FIN, PSH, RST, Packet, Segment, Target
from configtron.probe.script import Script, Send, Wait, get, handshake, reset, syn_options

PIECE_BYTES = 2
# Linux takes a connection for interactive after three answers that came soon (TCP_PINGPONG_THRESH).
ANSWERS = 3
# So many pieces, if none is delayed: more than Linux acknowledges at once after a loss (TCP_MAX_QUICKACKS).
SINGLE_MOST = 24
# One delay is enough, after which Linux is prompt again (tcp_delack_timer_handler); a piece that takes longer than
# this beyond the path was delayed: prompt ones take less than a tick of a 100 Hz kernel, the shortest delay in use is
# 40 ms (TCP_DELACK_MIN).
LATE_ENOUGH, LATE_S = 1, 0.02
# RFC 1122 4.2.3.2: no acknowledgement waits longer than half a second. Then the piece is sent again, so often.
PATIENCE_S, SENT = 1.0, 3
# The head of an answer comes in one burst; so long after it nothing more does.
QUIET_S = 0.05


def delayed_ack(target: Target, agent: str) -> Script:
    """Connect, ask for heads, then say another request in small pieces, each once the one before is acknowledged."""
    opening = yield from handshake(syn_options(1460))
    if opening.synack is None:
        return opening.reason
    yield Send(Segment(ACK, seq=1, ack=1))
    short = get(target.host, target.path, agent, close=False).replace(b"GET", b"HEAD", 1)
    seq, ack, ending = 1, 1, ""
    for _ in range(ANSWERS):
        ack, ending = yield from _answered(Segment(ACK | PSH, seq, ack, payload=short, length=len(short)))
        seq += len(short)
        if ending:
            break
    shortest_s, late = opening.rtt_s, 0
    for n in range(0 if ending else SINGLE_MOST):
        part = short[:-2].ljust(PIECE_BYTES * SINGLE_MOST, b".")[n * PIECE_BYTES :][:PIECE_BYTES]
        took_s, ending = yield from _sent(Segment(ACK | PSH, seq, ack, payload=part, length=len(part)))
        seq += len(part)
        if took_s is not None:
            late += shortest_s is not None and took_s - shortest_s > LATE_S
            shortest_s = took_s if shortest_s is None else min(took_s, shortest_s)
        if ending or late == LATE_ENOUGH:
            break
    if ending != "reset":
        yield Send(reset(seq))
    return ending or "done"


def _answered(ask: Segment) -> Generator[Send | Wait, Packet | None, tuple[int, str]]:
    """Ask, and acknowledge the answer: where it ends, and why it failed, if it did."""
    edge = ask.ack
    for _ in range(SENT):
        sent = yield Send(ask)
        assert sent is not None
        until = sent.at + PATIENCE_S
        while (packet := (yield Wait(until))) is not None:
            if packet.segment.flags & RST:
                return edge, "reset"
            if packet.segment.flags & FIN:
                return edge, "closed"
            if packet.segment.length and packet.segment.end > edge:
                edge, until = packet.segment.end, packet.at + QUIET_S
        if edge > ask.ack:
            yield Send(Segment(ACK, ask.end, edge))
            return edge, ""
    return edge, "no-data"


def _sent(piece: Segment) -> Generator[Send | Wait, Packet | None, tuple[float | None, str]]:
    """Send it until it is acknowledged; return the s that took if sent once, and why it failed if it did."""
    for repeats in range(SENT):
        sent = yield Send(piece)
        assert sent is not None
        while (packet := (yield Wait(sent.at + PATIENCE_S))) is not None:
            if packet.segment.flags & RST:
                return None, "reset"
            if packet.segment.flags & ACK and packet.segment.ack >= piece.end:
                return (packet.at - sent.at if repeats == 0 else None), ""
    return None, "no-data"
