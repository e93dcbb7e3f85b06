# SPDX-License-Identifier: MIT
"""Delayed acknowledgements: how long a lone small segment waits for its ACK.

Question   For how long does the server hold an acknowledgement back, hoping for something to send it with?
Method     Send three HEAD requests, so that the server takes the connection for an interactive one; then send another
           in pieces of two bytes, each after the ACK of the one before.
Stop when  the server delayed one ACK, or sent two dozen without delay.
Reads as   delay of the delayed ACK beyond the quickest one, in s.
Fails as   no-synack, refused, reset, closed, no-data (nothing was acknowledged), unclear:no-ack (none waited: the
           server never delays, or did not take the connection for interactive).
Differs    from timing a request's ACK: that is prompt on a young connection, or rides on the answer.
Source     RFC 1122 4.2.3.2; net/ipv4/tcp_input.c (__tcp_ack_snd_check), tcp_output.c (tcp_send_delayed_ack).
"""

from __future__ import annotations

from collections.abc import Sequence

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.model.nouns import ACK, Observation, Packet, Trace, Value

UNIT = "s"
PROBES = ("delayed_ack",)
KNOBS = ("delayed_ack",)
# As in the probe: a tick of a 100 Hz kernel, twice; half of the shortest delay in use.
LATE_S = 0.02
# A piece of the request; whole requests are acknowledged by their answers.
SMALL_BYTES = 16


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one request in pieces."""
    opening = handshake_of(trace.packets)
    if not opening.synacks:
        return (no("delayed_ack", "refused" if opening.reset else "no-synack", trace, UNIT),)
    if trace.tainted:
        return (no("delayed_ack", trace.tainted[0], trace, UNIT),)
    took = _took(trace.packets)
    trips = [s for s, _ in took] + ([opening.rtt_s] if opening.rtt_s is not None else [])
    quickest = min(trips, default=0.0)
    delays = [(s - quickest, frame) for s, frame in took if s - quickest > LATE_S]
    details: dict[str, Value] = {"delayed": len(delays), "prompt": len(took) - len(delays)}
    if trips:
        details["rtt"] = round(quickest, 6)
    frames = tuple(frame for _, frame in delays)
    if delays:
        # Captures of others show none, and it loads fractions and decimals.
        from statistics import median

        value = round(median(s for s, _ in delays), 6)
        return (yes("delayed_ack", value, trace, UNIT, "wait of a lone segment", "C", frames, details),)
    reason = trace.ending if trace.ending in ("reset", "closed", "no-data") else "unclear:no-ack"
    return (no("delayed_ack", reason, trace, UNIT, details=details),)


def _took(packets: Sequence[Packet]) -> list[tuple[float, int]]:
    """Return (seconds until the ACK, its frame) of each segment that was sent once, while nothing else was
    unacknowledged."""
    found: list[tuple[float, int]] = []
    alone: Packet | None = None
    acked, sent = 1, 1
    for packet in packets:
        segment = packet.segment
        if packet.way == "out" and segment.length:
            alone = packet if acked == sent == segment.seq and segment.length <= SMALL_BYTES else None
            sent = max(sent, segment.end)
        elif packet.way == "in" and segment.flags & ACK and segment.ack > acked:
            acked = segment.ack
            if alone is not None and acked == alone.segment.end:
                found.append((packet.at - alone.at, packet.frame))
            alone = None
    return found
