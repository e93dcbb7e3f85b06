# SPDX-License-Identifier: MIT
"""Signature of the SYN-ACK: which stack, and how it is set, as its first answer shows.

Question   Which fields and options does the server's first segment have when every option is offered?
Method     Offer MSS 1460, SACK, timestamps and scale 7; take the first SYN-ACK (retransmissions differ).
Stop when  the SYN-ACK is there.
Reads as   p0f's raw form ver:ittl:olen:mss:wsize,scale:olayout:quirks:pclass.
Fails as   no-synack, refused.
Differs    from p0f: the window is the raw number, the initial TTL the next of {32, 64, 128, 255}; from JA4TS: option
           order and quirks are kept apart. Only traces that offered everything are read: servers echo only offered
           options.
Source     p0f v3 README section 5; RFC 9293 3.2; RFC 3168 (ecn); FoxIO/ja4 issue 75 (first SYN-ACK only).
"""

from __future__ import annotations

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.model.nouns import ECE, OPT_TIMESTAMPS, PSH, URG, Observation, Packet, Trace

PROBES = ("signature", "rto", "rwin")
KNOBS = ("signature",)
# Initial TTLs in use (RFC 1700 recommended 64; Windows 128; routers and Solaris 255; old stacks 32).
INITIAL_TTLS = (32, 64, 128, 255)
# p0f's names of the option kinds.
LAYOUT = {0: "eol+0", 1: "nop", 2: "mss", 3: "ws", 4: "sok", 5: "sack", 8: "ts"}


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read the first SYN-ACK of a trace whose SYN offered everything (and no ECN)."""
    opening = handshake_of(trace.packets)
    if not opening.syns:
        return ()
    syn = trace.packets[opening.syns[0]].segment
    if syn.option(OPT_TIMESTAMPS) is None or syn.wscale is None or syn.flags & ECE:
        return ()
    if not opening.synacks:
        return (no("signature", "refused" if opening.reset else "no-synack", trace),)
    packet = trace.packets[opening.synacks[0]]
    return (yes("signature", raw(packet), trace, "", "p0f raw form of the first SYN-ACK", "C", (packet.frame,)),)


def raw(packet: Packet) -> str:
    """Return p0f's raw signature of a SYN-ACK."""
    segment = packet.segment
    ittl = next((t for t in INITIAL_TTLS if packet.ttl <= t), 255)
    scale = "*" if segment.wscale is None else str(segment.wscale)
    layout = ",".join(LAYOUT.get(kind, f"?{kind}") for kind, _ in segment.options)
    mss = "*" if segment.mss is None else str(segment.mss)
    payload = "0" if segment.length == 0 else "+"
    return f"{packet.version}:{ittl}:0:{mss}:{segment.window},{scale}:{layout}:{_quirks(packet)}:{payload}"


def _quirks(packet: Packet) -> str:
    segment = packet.segment
    found = []
    if packet.version == 4:
        if packet.df:
            found.append("df")
            if packet.ident:
                found.append("id+")
        elif not packet.ident:
            found.append("id-")
    if segment.flags & ECE or packet.tos & 3:
        found.append("ecn")
    if segment.flags & URG:
        found.append("urgf+")
    if segment.flags & PSH:
        found.append("pushf+")
    if segment.timestamps is not None and segment.timestamps[0] == 0:
        found.append("ts1-")
    return ",".join(found)
