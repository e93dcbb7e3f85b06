# SPDX-License-Identifier: MIT
"""Receive window: the bytes that the server lets us send, before and after it grows.

Question   How many bytes may we have in flight towards the server, when the connection opens and once it has our
           request?
Method     Read the SYN-ACK's window with and without timestamps offered (it is never scaled), its scale, and the window
           of the first segment that acknowledges our request.
Stop when  the SYN-ACK, or the request's acknowledgement, is there.
Reads as   rwin (MSS 1460 offered, no timestamps: the paper's), rwin_ts (timestamps agreed), wscale, rwin_first_ack:
           bytes, the last one scaled.
Fails as   no-synack, refused, unclear:no-ack.
Differs    from ConfigTron Table 2, which has one number: 29200 = 20 x 1460 is a SYN without timestamps; with them the
           same server shows 28960 = 20 x 1448.
Source     RFC 7323 2.2; net/ipv4/tcp_output.c (tcp_select_initial_window), tcp_minisocks.c (tcp_openreq_init_rwin).
"""

from __future__ import annotations

from configtron.fingerprint.stream import Handshake, handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.model.nouns import ACK, OPT_TIMESTAMPS, SYN, Observation, Segment, Trace, Value

UNIT = "bytes"
PROBES = ("rto", "icw", "rwin", "signature")
KNOBS = ("rwin", "rwin_ts", "wscale", "rwin_first_ack")
# The MSS that the paper's numbers are multiples of; a window read under another offer is another number.
REFERENCE_MSS = 1460


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read whatever of the four numbers this trace can show."""
    opening = handshake_of(trace.packets)
    if not opening.synacks or not opening.syns:
        knob = "rwin_first_ack" if trace.probe == "rwin" else "rwin"
        return (no(knob, "refused" if opening.reset else "no-synack", trace, UNIT),)
    syn = trace.packets[opening.syns[0]].segment
    if syn.mss != REFERENCE_MSS:
        return ()
    found = [_announced(trace, opening, syn)]
    if syn.wscale is not None:
        found.append(_scale(trace, opening))
    if trace.probe == "rwin":
        found.append(_first_ack(trace, opening, syn))
    return tuple(found)


def _announced(trace: Trace, opening: Handshake, syn: Segment) -> Observation:
    packet = trace.packets[opening.synacks[0]]
    stamped = syn.option(OPT_TIMESTAMPS) is not None
    details: dict[str, Value] = {"server_mss": packet.segment.mss or 0}
    unit = (packet.segment.mss or REFERENCE_MSS) - (12 if packet.segment.timestamps else 0)
    if unit > 0 and packet.segment.window % unit == 0:
        details["segments"] = packet.segment.window // unit
    knob = "rwin_ts" if stamped else "rwin"
    return yes(knob, packet.segment.window, trace, UNIT, "window of the SYN-ACK", "C", (packet.frame,), details)


def _scale(trace: Trace, opening: Handshake) -> Observation:
    packet = trace.packets[opening.synacks[0]]
    shift = packet.segment.wscale
    if shift is None:
        return yes("wscale", "absent", trace, "", "no window scale option in the SYN-ACK", "C", (packet.frame,))
    return yes("wscale", shift, trace, "", "window scale option of the SYN-ACK", "C", (packet.frame,))


def _first_ack(trace: Trace, opening: Handshake, syn: Segment) -> Observation:
    shift = trace.packets[opening.synacks[0]].segment.wscale
    scale = shift if shift is not None and syn.wscale is not None else 0
    for _, packet in trace.heard():
        segment = packet.segment
        if segment.flags & ACK and not segment.flags & SYN and segment.ack > 1:
            value = segment.window << min(scale, 14)
            return yes("rwin_first_ack", value, trace, UNIT, "window of the request's first ACK", "C", (packet.frame,))
    return no("rwin_first_ack", "unclear:no-ack", trace, UNIT)
