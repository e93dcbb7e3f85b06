# SPDX-License-Identifier: MIT
"""TCP Fast Open: whether a request may ride in the SYN.

Question   Does the server hand out Fast Open cookies, and does it take the data of a SYN that carries one?
Method     A SYN with an empty Fast Open option; RST; the same with the cookie and a request inside.
Stop when  the second SYN-ACK is there, or the first has no cookie.
Reads as   "no" (no cookie), "yes" (the second SYN-ACK acknowledges the request), "cookie" (only the SYN).
Fails as   no-synack, refused, no-data (no answer to the SYN with data, or only to its repeat, whose data a server may
           leave out though it took the first; a copy of the first SYN-ACK is none), synack-repeated (no cookie, and no
           SYN-ACK that is surely the server's first: Linux hands out none in a copy).
Differs    from scamper's tbit: the cookie is used, not only asked for.
Source     RFC 7413 sections 3.1 and 4.1; net/ipv4/tcp_fastopen.c (tcp_try_fastopen), tcp_output.c
           (tcp_synack_options: a copy has no cookie to give).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.synack_rto import shortest_trip
from configtron.fingerprint.verdict import count_grade, no, over, seen, shared, yes
from configtron.fingerprint.window_proofs import SYNACK_LOST_S
from configtron.model.nouns import ACK, OPT_FASTOPEN, RST, SYN, Observation, Trace, Value

PROBES = ("tfo",)
KNOBS = ("tfo",)


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one request for a cookie and its answer."""
    packets = trace.packets
    opening = handshake_of(packets)
    if not opening.synacks:
        return (no("tfo", "refused" if opening.reset else "no-synack", trace),)
    first = packets[opening.synacks[0]]
    cookie = first.segment.option(OPT_FASTOPEN)
    if not cookie:
        took: dict[str, Value] = {} if opening.rtt_s is None else {"arrival": round(opening.rtt_s, 6)}
        return (yes("tfo", "no", trace, "", "no cookie in the SYN-ACK", "C", (first.frame,), took),)
    asked = next((i for i in opening.syns if packets[i].segment.length), None)
    once = sum(packets[i].segment.length > 0 for i in opening.syns) == 1
    details: dict[str, Value] = {"cookie_bytes": len(cookie)}
    for packet in packets[asked:] if asked is not None else ():
        if packet.way == "in" and packet.segment.flags & (SYN | ACK | RST) == SYN | ACK:
            if packet.segment.seq == first.segment.seq:
                # Asked anew, a server draws a new number: this is a copy of its first SYN-ACK.
                continue
            value = "yes" if packet.segment.ack > 1 else "cookie"
            if value == "cookie" and not once:
                break
            method = "what the SYN-ACK to a request in a SYN acknowledges"
            return (yes("tfo", value, trace, "", method, "C", (first.frame, packet.frame), details),)
    return (no("tfo", "no-data", trace, details=details),)


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """A cookie that was handed out once is one; without any, one SYN-ACK at least must be the server's first."""
    every = trials.get("tfo", ())
    exact = [t for t in every if t.grade == "C"]
    if not exact:
        return None
    trip_s = shortest_trip(trials)
    handed = [t for t in exact if t.value != "no"]
    same = handed or [t for t in exact if _is_first(t, trip_s)]
    if not same:
        return over("tfo", every, None, "N", "", exact[0].method, reason="synack-repeated", details=seen(exact))
    values = [t.value for t in same]
    value = "yes" if "yes" in values else values[0]
    # A copy of a SYN-ACK has no cookie whatever the server hands out: it supports no "no".
    agreeing = [t for t in same if t.value == value]
    return shared(every, exact, agreeing, count_grade(len(agreeing)))


def _is_first(trial: Observation, trip_s: float | None) -> bool:
    """Return whether one SYN was answered within the path's round trip."""
    arrival = trial.detail("arrival")
    return isinstance(arrival, int | float) and (trip_s is None or arrival - trip_s < SYNACK_LOST_S)
