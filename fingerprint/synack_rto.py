"""Initial retransmission timeout: of the SYN-ACK, with its back-off and the number of retries.

Question   How long does the server wait for the handshake's ACK, how does the wait grow, when does it give up?
Method     Send a SYN, withhold the ACK, log every SYN-ACK.
Stop when  a RST comes, the silence is longer than 2.5 times the last gap plus 3 s, or patience ends.
Reads as   RTO: the first gap, in s, with the nearest class of {0.2, 0.25, 0.3, 0.5, 1, 1.5, 2, 3} within the timer
           wheel's eighth. Back-off: the ratios of the gaps. Retries: how many repeats, exact only if the end was seen.
Fails as   no-synack, refused, no-repeat (a SYN cookie or a proxy answers exactly once), drops.
Differs    from JA4TScan: ms instead of s; duplicates within 0.1 s are merged; the end is told from impatience.
Source     RFC 6298 section 2 and 5.5; ConfigTron Table 2 (RTO); net/ipv4/inet_connection_sock.c (reqsk_timer_handler).
"""

from __future__ import annotations

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.nouns import RST, Observation, Trace, Value

PROBES = ("rto",)
KNOBS = ("synack_rto", "synack_backoff", "synack_retries")
# Initial timeouts seen in kernels and tables, s: Linux 1 (3 before RFC 6298), Table 2's 0.3, tuned hosts' others.
CLASSES_S = (0.2, 0.25, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0)
# Linux's timer wheel rounds up by at most an eighth (kernel/time/timer.c, LVL_GRAN).
WHEEL = 0.125
# Ratio of successive gaps: doubling within the wheel's eighth on both gaps; constant likewise.
DOUBLING, CONSTANT = (1.7, 2.3), (0.85, 1.15)
# The next repeat would have come within twice the last gap plus the wheel's eighth: silence longer than this is the
# end.
END_FACTOR = 2.3


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one withheld handshake: the three observations of `KNOBS`."""
    opening = handshake_of(trace.packets)
    reason = trace.tainted[0] if trace.tainted else ""
    if not opening.synacks:
        reason = "refused" if opening.reset else "no-synack"
    repeats = opening.repeats(trace.packets)
    if not reason and not repeats:
        reason = "no-repeat"
    if reason:
        return tuple(no(knob, reason, trace, "s" if knob == "synack_rto" else "") for knob in KNOBS)
    frames = (trace.packets[opening.synacks[0]].frame, *(trace.packets[i].frame for i, _ in repeats))
    gaps = [gap for _, gap in repeats]
    return (
        _rto(trace, gaps, frames, opening.duplicates(trace.packets)),
        _backoff(trace, gaps, frames),
        _retries(trace, gaps, frames),
    )


def rto_class(seconds: float) -> Value:
    """The nearest class within the timer wheel's eighth (and as much below, for clocks), or "other"."""
    near = min(CLASSES_S, key=lambda c: abs(c - seconds))
    return near if abs(seconds - near) <= WHEEL * near else "other"


def _rto(trace: Trace, gaps: list[float], frames: tuple[int, ...], duplicates: int) -> Observation:
    details: dict[str, Value] = {
        "class": rto_class(gaps[0]),
        "gaps": tuple(round(gap, 6) for gap in gaps),
        "duplicates": duplicates,
    }
    return yes("synack_rto", round(gaps[0], 6), trace, "s", "first gap between SYN-ACKs", "C", frames[:2], details)


def _backoff(trace: Trace, gaps: list[float], frames: tuple[int, ...]) -> Observation:
    ratios = [b / a for a, b in zip(gaps, gaps[1:], strict=False)]
    if not ratios:
        return no("synack_backoff", "one-repeat", trace)
    if all(DOUBLING[0] <= r <= DOUBLING[1] for r in ratios):
        kind = "exponential"
    elif all(CONSTANT[0] <= r <= CONSTANT[1] for r in ratios):
        kind = "linear"
    else:
        kind = "irregular"
    return yes(
        "synack_backoff",
        kind,
        trace,
        "",
        "ratios of the gaps",
        "C",
        frames,
        {"ratios": tuple(round(r, 3) for r in ratios)},
    )


def _retries(trace: Trace, gaps: list[float], frames: tuple[int, ...]) -> Observation:
    """Exact only if the server said it ended (RST) or stayed silent longer than its next gap could be."""
    last = max(p.at for p in trace.packets if p.way == "in")
    ended = any(p.way == "in" and p.segment.flags & RST for p in trace.packets)
    farewell = next((p.at for p in trace.packets if p.way == "out" and p.segment.flags & RST), last)
    grade = "C" if ended or farewell - last > END_FACTOR * gaps[-1] else "L"
    return yes("synack_retries", len(gaps), trace, "", "SYN-ACKs after the first", grade, frames, {"reset": ended})
