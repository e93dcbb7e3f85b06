"""Slow start after idle: whether the window shrinks again while nothing is sent.

Question   Does a connection that was silent begin anew with its initial window?
Method     A page, acknowledged window by window, so that the window doubles and each round shows it; four seconds of
           silence; the same request again, and how much comes before an acknowledgement.
Stop when  the second answer's first window is there.
Reads as   "off" if it is about as large as the largest round before, "on" if it is clearly smaller.
Fails as   no-synack, refused, reset, closed (the server keeps no connection open), no-data, unclear:no-growth (the page
           is too short for the window to grow, or it grew too little), unclear:retransmitted (a timeout shrank it).
Differs    from setting the knob: BBR never restarts, whatever is set, and reads "off".
Source     RFC 5681 section 4.1; RFC 2861; net/ipv4/tcp_output.c (tcp_cwnd_restart), tcp.h
(tcp_slow_start_after_idle_check).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.nouns import SYN, Observation, Packet, Trace, Value

PROBES = ("idle",)
KNOBS = ("slow_start_after_idle",)
# The window must have doubled before the silence, or nothing is seen to shrink.
GROWTH = 2.0
# A kept window shows at least this share of the largest round (a lost tail hides some), a restarted one at most that:
# it was halved once or more.
KEPT, RESTARTED = 0.8, 0.6


class Rounds(NamedTuple):
    """Segments of each window before the silence, those of the first after it, and whether old data came again."""

    before: tuple[int, ...]
    after: int
    again: bool
    frames: tuple[int, ...]


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Compare the first window after a silence with the largest before."""
    knob = KNOBS[0]
    opening = handshake_of(trace.packets)
    if not opening.synacks:
        return (no(knob, "refused" if opening.reset else "no-synack", trace),)
    if trace.tainted:
        return (no(knob, trace.tainted[0], trace),)
    rounds = _rounds(trace.packets)
    details: dict[str, Value] = {"before": rounds.before, "after": rounds.after}
    if trace.ending in ("closed", "reset"):
        return (no(knob, trace.ending, trace, details=details),)
    if not rounds.before or not rounds.after:
        return (no(knob, "no-data", trace, details=details),)
    largest = max(rounds.before)
    if rounds.again:
        return (no(knob, "unclear:retransmitted", trace, details=details),)
    if largest < GROWTH * rounds.before[0]:
        return (no(knob, "unclear:no-growth", trace, details=details),)
    method = "first window after a silence, beside the largest before"
    if rounds.after >= KEPT * largest:
        return (yes(knob, "off", trace, "", method, "C", rounds.frames, details),)
    if rounds.after <= RESTARTED * largest:
        return (yes(knob, "on", trace, "", method, "C", rounds.frames, details),)
    return (no(knob, "unclear:no-growth", trace, details=details),)


def _rounds(packets: Sequence[Packet]) -> Rounds:
    """Fresh segments between one word of ours and the next; the second request begins the last round."""
    asks = sorted({p.segment.seq for p in packets if p.way == "out" and p.segment.length and not p.segment.flags & SYN})
    before: list[int] = []
    edge, fresh, again = 1, set[int](), False
    second = False
    frames: list[int] = []
    for packet in packets:
        segment = packet.segment
        if packet.way == "out":
            if fresh and not second:
                before.append(len(fresh))
                fresh = set()
            if len(asks) > 1 and segment.length and segment.seq == asks[1]:
                second = True
        elif segment.length > 0 and not segment.flags & SYN:
            if segment.seq >= edge or segment.seq in fresh:
                again = again or (second and segment.seq in fresh)
                fresh.add(segment.seq)
                frames += [packet.frame] * second
            else:
                again = True
        if packet.way == "out" and segment.ack > edge:
            edge = segment.ack
    return Rounds(tuple(before), len(fresh) if second else 0, again, tuple(frames))
