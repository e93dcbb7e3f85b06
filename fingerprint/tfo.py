"""TCP Fast Open: whether a request may ride in the SYN.

Question   Does the server hand out Fast Open cookies, and does it take the data of a SYN that carries one?
Method     A SYN with an empty Fast Open option; RST; the same with the cookie and a request inside.
Stop when  the second SYN-ACK is there, or the first has no cookie.
Reads as   "no" (no cookie), "yes" (the second SYN-ACK acknowledges the request), "cookie" (only the SYN).
Fails as   no-synack, refused, no-data (no answer to the SYN with data, or only to its repeat, whose data a server may
           leave out though it took the first).
Differs    from scamper's tbit: the cookie is used, not only asked for.
Source     RFC 7413 sections 3.1 and 4.1; net/ipv4/tcp_fastopen.c (tcp_try_fastopen).
"""

from __future__ import annotations

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.nouns import ACK, OPT_FASTOPEN, RST, SYN, Observation, Trace, Value

PROBES = ("tfo",)


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one asking for a cookie, and what came of it."""
    packets = trace.packets
    opening = handshake_of(packets)
    if not opening.synacks:
        return (no("tfo", "refused" if opening.reset else "no-synack", trace),)
    first = packets[opening.synacks[0]]
    cookie = first.segment.option(OPT_FASTOPEN)
    if not cookie:
        return (yes("tfo", "no", trace, "", "no cookie in the SYN-ACK", "C", (first.frame,)),)
    asked = next((i for i in opening.syns if packets[i].segment.length), None)
    once = sum(packets[i].segment.length > 0 for i in opening.syns) == 1
    details: dict[str, Value] = {"cookie_bytes": len(cookie)}
    for packet in packets[asked:] if asked is not None else ():
        if packet.way == "in" and packet.segment.flags & (SYN | ACK | RST) == SYN | ACK:
            value = "yes" if packet.segment.ack > 1 else "cookie"
            if value == "cookie" and not once:
                break
            method = "what the SYN-ACK to a request in a SYN acknowledges"
            return (yes("tfo", value, trace, "", method, "C", (first.frame, packet.frame), details),)
    return (no("tfo", "no-data", trace, details=details),)
