# SPDX-License-Identifier: MIT
"""Explicit congestion notification: agreed to, and lived by.

Question   Does the server agree to ECN, and does it report a mark of congestion back?
Method     A SYN with ECE and CWR; if the SYN-ACK agrees, a request marked "congestion experienced".
Stop when  the request is acknowledged.
Reads as   "no" (the SYN-ACK does not carry ECE alone; a SYN-ACK that mirrors both flags does not understand them),
           "yes" (the mark came back as ECE), "negotiated" (agreed to, but the mark was not reported, or was wiped on
           the way).
Fails as   no-synack, refused, reset, no-data (the request was never acknowledged).
Differs    from scamper's tbit: it reads the same three states; here the request itself carries the mark.
Source     RFC 3168 sections 6.1.1 and 6.1.3; net/ipv4/tcp_input.c (tcp_ecn_check_ce).
"""

from __future__ import annotations

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.model.nouns import ACK, CWR, ECE, SYN, Observation, Trace, Value

PROBES = ("ecn", "signature")
KNOBS = ("ecn",)


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read a conversation that offered ECN; a signature run that was refused it says "no" as well."""
    opening = handshake_of(trace.packets)
    if not opening.syns or not trace.packets[opening.syns[0]].segment.flags & ECE:
        return ()
    if not opening.synacks:
        return (no("ecn", "refused" if opening.reset else "no-synack", trace),)
    synack = trace.packets[opening.synacks[0]]
    if synack.segment.flags & (ECE | CWR) != ECE:
        details: dict[str, Value] = {"mirrored": bool(synack.segment.flags & CWR)}
        return (yes("ecn", "no", trace, "", "flags of the SYN-ACK", "C", (synack.frame,), details),)
    if trace.probe != "ecn":
        return ()
    for _, packet in trace.heard():
        flags = packet.segment.flags
        if flags & ACK and not flags & SYN and packet.segment.ack > 1:
            value = "yes" if flags & ECE else "negotiated"
            frames = (synack.frame, packet.frame)
            return (yes("ecn", value, trace, "", "flags of the marked request's acknowledgement", "C", frames),)
    return (no("ecn", "reset" if trace.ending == "reset" else "no-data", trace),)
