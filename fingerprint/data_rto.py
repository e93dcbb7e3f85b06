"""Retransmission timeout of data, before any round trip of data was sampled.

Question   How long does the server wait for an ACK of its first data before it sends it again?
Method     The withheld-ACK conversation without SACK: from the first copy of the first byte to its second.
Stop when  the first byte came twice.
Reads as   the time between the two copies, in s. Linux: RTT + max(min RTO, 2 RTT), from the handshake's round trip.
Fails as   no-synack, refused, no-data, no-repeat (the response ended or the server gave up),
           unclear:first-segment-lost (its first copy never came), synack-repeated (without timestamps RFC 6298 5.7
           falls back to 3 s), sack (a tail loss probe re-arms the timer).
Differs    from ConfigTron Table 2, whose RTO mixes this with the SYN-ACK's (`synack_rto`): the two are named apart.
Source     RFC 6298 2.2, 5.7; net/ipv4/tcp_input.c (tcp_rtt_estimator), net/ipv4/tcp_timer.c (tcp_retransmit_timer).
"""

from __future__ import annotations

from collections.abc import Sequence

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.fingerprint.window import hold
from configtron.nouns import Observation, Packet, Trace, Value

UNIT = "s"
PROBES = ("icw",)
# Below the smallest minimum RTO in use (Linux's is 0.2 s, tuned hosts set 0.1): a copy that was lost is later than
# this.
SLOW_ANSWER_S = 0.09


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one withheld-ACK trace; none at all from an edge run (SACK) or an early ACK: they cannot answer this."""
    if trace.param("sack", False) or trace.param("early", False):
        return ()
    return (_infer(trace),)


def _infer(trace: Trace) -> Observation:
    packets = trace.packets
    opening = handshake_of(packets)
    if not opening.synacks:
        return no("data_rto", "refused" if opening.reset else "no-synack", trace, UNIT)
    if opening.repeats(packets) and packets[opening.synacks[0]].segment.timestamps is None:
        return no("data_rto", "synack-repeated", trace, UNIT)
    flight, stop, at = hold(packets, opening)
    if not flight.pieces:
        return no("data_rto", "reset" if stop == "rst" else "no-data", trace, UNIT)
    if trace.tainted:
        return no("data_rto", trace.tainted[0], trace, UNIT)
    if stop != "rto":
        return no("data_rto", "no-repeat", trace, UNIT)
    first = next((p for p in packets if p.way == "in" and p.segment.length > 0 and p.segment.seq == 1), None)
    if first is None or first is packets[at]:
        return no("data_rto", "unclear:first-segment-lost", trace, UNIT)
    if len(flight.pieces) == 1 and _delayed(packets, first.at, opening.rtt_s):
        return no("data_rto", "unclear:slow-answer", trace, UNIT)
    details: dict[str, Value] = {}
    if opening.rtt_s is not None:
        details["rtt"] = round(opening.rtt_s, 6)
    value = round(packets[at].at - first.at, 6)
    return yes("data_rto", value, trace, UNIT, "first byte sent again", "C", (first.frame, packets[at].frame), details)


def _delayed(packets: Sequence[Packet], first_at: float, rtt_s: float | None) -> bool:
    """Whether a single segment came so late after the request that it may itself be a retransmission."""
    asked = next((p.at for p in packets if p.way == "out" and p.segment.length > 0), first_at)
    return rtt_s is None or first_at - asked > rtt_s + SLOW_ANSWER_S
