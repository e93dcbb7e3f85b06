"""Provoke the initial congestion window: ask, acknowledge nothing, count; then open the gate once.

The reading, and the essay, are in `fingerprint/icw.py`. The same conversation shows the data RTO
(`fingerprint/data_rto.py`).
"""

from __future__ import annotations

from collections.abc import Generator

from configtron.fingerprint.stream import Flight
from configtron.nouns import ACK, RST, Packet, Segment, Target
from configtron.probe.script import Opening, Script, Send, Wait, echo, get, handshake, request, reset, syn_options

# Longest silence before the first data byte and after the last: above 3 s, the largest RTO in the paper's Table 2,
# plus the timer wheel's eighth, plus two long round trips.
PATIENCE_S = 6.0
# Never hold a connection longer than this after its first data byte.
HOLD_LIMIT_S = 12.0
# After the gate is opened: three round trips, at least this long.
VERIFY_MIN_S = 1.0
# The window while holding. 65535 is all an unscaled window can say; with scale 7 it is 8 MB.
WINDOW = 65535
# Linux defers the tail of a window while it expects an ACK within min(1 ms, half a round trip)
# (net/ipv4/tcp_output.c, tcp_tso_should_defer): on a 0.1 ms path 10 shows as 9, 4 as 3. A server that was made to wait
# this long for our handshake's ACK expects the next one as late, and sends all it may.
SETTLE_S = 0.02
# An early ACK waits at least this long after the last segment: a server's scheduler may pause a burst for tens of ms.
EARLY_MIN_S = 0.08
# Our request is repeated at these times (s) while nothing is heard, as a TCP would.
ASK_AGAIN_AFTER_S = (1.0, 2.0)


def icw(
    target: Target,
    agent: str,
    *,
    mss: int = 536,
    sack: bool = False,
    timestamps: bool = False,
    wscale: int | None = None,
    early: bool = False,
) -> Script:
    """Withhold every ACK until the server's retransmission timer, tail loss probe or end shows; then ACK once.

    mss         bytes; timestamps cost 12 of them in every segment
    sack        lets a Linux server send a tail loss probe (the edge run)
    timestamps  let the server tell its round trip though its SYN-ACK was repeated
    early       do not wait for a timer: ACK as soon as the burst is surely over (the strongest proof, but no data RTO)
    """
    opening = yield from handshake(syn_options(mss, sack=sack, timestamps=timestamps, wscale=wscale), WINDOW)
    if opening.synack is None:
        return opening.reason
    yield from _settle(opening)
    options = echo(opening.synack.segment)
    yield Send(Segment(ACK, seq=1, ack=1, window=WINDOW, options=options))
    ask = request(get(target.host, target.path, agent), WINDOW, options)
    flight, ending = yield from _hold(ask, opening.rtt_s, sack, early)
    if ending in ("rto", "last", "quiet", "edge") and flight.fin_at_seq is None:
        room = 2 * max(mss, *flight.sizes()) >> (wscale or 0)
        ack = Segment(ACK, seq=ask.end, ack=flight.end, window=max(room, 1), options=options)
        ending = yield from _verify(flight, ack)
    if ending != "rst":
        yield Send(reset(ask.end))
    return "done" if flight.pieces else ending


def _settle(opening: Opening) -> Generator[Send | Wait, Packet | None, None]:
    """Hold the final ACK back on short paths, so that the server believes in a round trip of `SETTLE_S`."""
    if opening.synack is None or opening.rtt_s is None:
        return
    until = opening.synack.at + SETTLE_S - opening.rtt_s
    while until > opening.synack.at and (yield Wait(until)) is not None:
        pass


def _hold(
    ask: Segment, rtt_s: float | None, sack: bool, early: bool
) -> Generator[Send | Wait, Packet | None, tuple[Flight, str]]:
    flight = Flight(rtt_s)
    asked = yield Send(ask)
    assert asked is not None
    again = [asked.at + s for s in ASK_AGAIN_AFTER_S]
    while True:
        packet = yield Wait(_patience(flight, asked.at, again, early))
        if packet is None:
            if flight.lone is not None:
                return flight, "edge"
            if flight.began_at is None and again:
                again.pop(0)
                yield Send(ask)
                continue
            return flight, "no-data" if flight.began_at is None else "quiet"
        kind = flight.hear(packet)
        if kind == "ack" and again and packet.segment.ack > 1:
            again.clear()
        if kind in ("rto", "last", "rst"):
            return flight, kind
        if kind == "late" and sack:
            flight.suspect(packet)
        elif kind == "late":
            flight.extend(packet)


def _patience(flight: Flight, asked_at: float, again: list[float], early: bool) -> float:
    """How long to wait for the next packet."""
    first = flight.began_at
    if first is None:
        return again[0] if again else asked_at + PATIENCE_S
    quiet = flight.last_at + (max(flight.burst_gap_s, EARLY_MIN_S) if early else PATIENCE_S)
    return min(quiet, first + HOLD_LIMIT_S, flight.probed_at)


def _verify(flight: Flight, ack: Segment) -> Generator[Send | Wait, Packet | None, str]:
    """ACK all that came, offering room for two segments: a window that was full now lets fresh data out."""
    acked = yield Send(ack)
    assert acked is not None
    until = acked.at + max(3 * (flight.rtt_s or 0.0), VERIFY_MIN_S)
    while (packet := (yield Wait(until))) is not None:
        if packet.segment.flags & RST:
            return "rst"
        if packet.segment.end > ack.ack and packet.segment.seq >= ack.ack:
            return "verified"
    return "unverified"
