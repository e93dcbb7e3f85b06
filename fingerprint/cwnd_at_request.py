# SPDX-License-Identifier: MIT
"""Congestion window at the time of a request inside TLS.

Question   How many segments may the server have in flight at the request, after a TLS handshake?
Method     Shake hands as usual, with ACKs, at a chosen MSS; wait until the connection is quiet (session tickets have
           come); ask for a page; withhold every ACK from there on as for `icw`.
Stop when  as for `icw`.
Reads as   as for `icw`, from the request on. It is the initial window, or more: each acknowledged segment of the
           handshake adds one where the handshake filled more than half of the window (Linux, tcp_is_cwnd_limited).
Fails as   as for `icw`, and whatever ends a TLS handshake.
Differs    from scamper's tbit, which calls this the initial window.
Source     RFC 5681 3.1; net/ipv4/tcp_cong.c (tcp_slow_start), include/net/tcp.h (tcp_is_cwnd_limited).
"""

from __future__ import annotations

import math

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no
from configtron.fingerprint.window import UNIT, read_window
from configtron.model.nouns import Observation, Trace

PROBES = ("cwnd_at_request",)
KNOBS = ("cwnd_at_request",)
# Times of messages are kept in whole nanoseconds, those of packets are not.
ROUNDING_S = 1e-8


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one trace; exactly one observation."""
    failed = trace.session.error if trace.session is not None else trace.ending
    if failed and failed != "done":
        return (no("cwnd_at_request", failed, trace, UNIT),)
    since_s = next((m.at for m in reversed(trace.messages) if m.way == "out"), math.inf) - ROUNDING_S
    asked = (n for n, p in enumerate(trace.packets) if p.way == "out" and p.segment.length and p.at >= since_s)
    start = next(asked, None)
    if start is None:
        return (no("cwnd_at_request", "closed", trace, UNIT),)
    base = max(trace.packets[start].segment.ack, 1)
    return (read_window("cwnd_at_request", trace, handshake_of(trace.packets), start, base, initial=False),)
