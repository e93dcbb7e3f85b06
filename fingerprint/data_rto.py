"""Retransmission timeout of data, before any round trip of data was sampled.

Question   How long does the server wait for an ACK of its first data before it sends it again?
Method     The withheld-ACK conversation without SACK: from the first copy of the first byte to its second.
Stop when  the first byte came twice.
Reads as   the time between the two copies, in s. Linux: RTT + max(min RTO, 2 RTT), from the handshake's round trip.
Fails as   no-synack, refused, no-data, no-repeat (the response ended or the server gave up), first-segment-lost (its
           first copy never came), synack-repeated (without timestamps RFC 6298 5.7 falls back to 3 s), sack (a tail
           loss probe re-arms the timer).
Differs    from ConfigTron Table 2, whose RTO mixes this with the SYN-ACK's (`synack_rto`): the two are named apart.
Source     RFC 6298 2.2, 5.7; net/ipv4/tcp_input.c (tcp_rtt_estimator), net/ipv4/tcp_timer.c (tcp_retransmit_timer).
"""

from __future__ import annotations

from configtron.fingerprint.icw import read_flight
from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.nouns import Observation, Trace, Value

UNIT = "s"
PROBES = ("icw",)


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one withheld-ACK trace. None at all from an edge run (SACK offered): it is not meant to answer this."""
    if trace.param("sack", False):
        return ()
    return (_infer(trace),)


def _infer(trace: Trace) -> Observation:
    packets = trace.packets
    opening = handshake_of(packets)
    if not opening.synacks:
        return no("data_rto", "refused" if opening.reset else "no-synack", trace, UNIT)
    if opening.repeats(packets) and packets[opening.synacks[0]].segment.timestamps is None:
        return no("data_rto", "synack-repeated", trace, UNIT)
    flight, stop, at = read_flight(packets, opening)
    if not flight.pieces:
        return no("data_rto", "reset" if stop == "rst" else "no-data", trace, UNIT)
    if stop != "rto":
        return no("data_rto", "no-repeat", trace, UNIT)
    first = next((p for p in packets if p.way == "in" and p.segment.length > 0 and p.segment.seq == 1), None)
    if first is None or first is packets[at]:
        return no("data_rto", "first-segment-lost", trace, UNIT)
    details: dict[str, Value] = {}
    if opening.rtt_s is not None:
        details["rtt"] = round(opening.rtt_s, 6)
    value = round(packets[at].at - first.at, 6)
    return yes("data_rto", value, trace, UNIT, "first byte sent again", "C", (first.frame, packets[at].frame), details)
