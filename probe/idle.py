# SPDX-License-Identifier: MIT
"""Provoke a restart after idleness: let the window grow on one page, be silent, ask for the page once more.

Read in `fingerprint/idle.py`. Growth goes by rounds: all that one window holds, then one acknowledgement for it. Losses
are acknowledged like everything else, because the page is not needed: so they do not shrink the window.
"""

from __future__ import annotations

from collections.abc import Generator

from configtron.fingerprint.stream import Flight
from configtron.model.nouns import ACK, FIN, RST, Packet, Segment, Target
from configtron.probe.script import Script, Send, Wait, get, handshake, request, reset, syn_options

MSS, WINDOW, WSCALE = 1460, 65535, 7
# Twenty rounds from a window of one segment: a thousand times the need of any page here.
ROUNDS = 20
# Apache and Node close a silent connection after 5 s. Linux halves its window for each timeout that passed (at least
# 0.2 s each, tcp_cwnd_restart), down to the initial one.
IDLE_S = 4.0
# Without more data for so many round trips, at least so long, the page is over: retransmissions would come later.
OVER_RTTS, OVER_MIN_S = 3.0, 0.5
ASK_AT_S, PATIENCE_S = (0.0, 1.0, 2.0), 3.0

Steps = Generator[Send | Wait, Packet | None, str]


def idle(target: Target, agent: str) -> Script:
    """Ask for the page, acknowledge window by window, be silent, ask again, acknowledge nothing."""
    opening = yield from handshake(syn_options(MSS, wscale=WSCALE), WINDOW)
    if opening.synack is None:
        return opening.reason
    data = get(target.host, target.path, agent, close=False)
    yield Send(Segment(ACK, seq=1, ack=1, window=WINDOW))
    flight = Flight(opening.rtt_s)
    ending = yield from _asked(flight, request(data, WINDOW))
    for _ in range(ROUNDS):
        if ending != "window":
            break
        flight = Flight(flight.rtt_s, flight.end)
        # Sent twice, since a lost acknowledgement would cost the window; the other window makes it no duplicate.
        for window in (WINDOW, WINDOW - 1):
            sent = yield Send(Segment(ACK, 1 + len(data), flight.base, window))
        assert sent is not None
        ending = yield from _round(flight, sent.at + max(OVER_RTTS * (flight.rtt_s or 0.0), OVER_MIN_S))
    position = 1 + len(data)
    if ending == "over":
        ending = yield from _silent(Segment(ACK, position, flight.end, WINDOW))
    if ending == "over":
        again = request(data, WINDOW)._replace(seq=position, ack=flight.end)
        position += len(data)
        ending = yield from _asked(Flight(flight.rtt_s, flight.end), again)
    if ending != "reset":
        yield Send(reset(position))
    return "done" if ending == "window" else ending


def _asked(flight: Flight, ask: Segment) -> Steps:
    """Ask, repeat the request if no answer arrives, and receive one window."""
    began = None
    for until in (*ASK_AT_S[1:], ASK_AT_S[-1] + PATIENCE_S):
        sent = yield Send(ask)
        assert sent is not None
        began = began or sent
        ending = yield from _round(flight, began.at + until)
        if ending != "over":
            return ending
    return "no-data"


def _round(flight: Flight, until: float) -> Steps:
    """Receive data until the burst is over: "window"; "over" if none came, "closed" or "reset" if the server ended."""
    while True:
        packet = yield Wait(until if flight.began_at is None else flight.last_at + flight.burst_gap_s)
        if packet is None:
            return "over" if flight.began_at is None else "window"
        if packet.segment.flags & RST:
            return "reset"
        flight.hear(packet)
        if packet.segment.flags & FIN:
            return "closed"


def _silent(ack: Segment) -> Steps:
    """Say nothing for a while; the server may close meanwhile."""
    began = yield Send(ack)
    assert began is not None
    while (packet := (yield Wait(began.at + IDLE_S))) is not None:
        if packet.segment.flags & RST:
            return "reset"
        if packet.segment.flags & FIN:
            return "closed"
    return "over"
