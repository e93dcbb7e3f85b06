"""Initial retransmission timeout: of the SYN-ACK, with its back-off and the number of retries.

Question   How long does the server wait for the handshake's ACK, how does the wait grow, when does it give up?
Method     Send a SYN, withhold the ACK, log every SYN-ACK.
Stop when  a RST comes, the silence is longer than 2.5 times the last gap plus 3 s, or patience ends.
Reads as   RTO: the first gap, in s, with the nearest class of {0.2, 0.25, 0.3, 0.5, 1, 1.5, 2, 3} within the timer
           wheel's eighth; where the doubling shows that copies were lost, the gap without the loss. Back-off: how the
           gaps grow. Retries: how many repeats, exact only if the end was seen.
Fails as   no-synack, refused, no-repeat (a SYN cookie or a proxy answers exactly once), drops.
Differs    from JA4TScan: ms instead of s; duplicates within 0.1 s are merged; the end is told from impatience.
Source     RFC 6298 section 2 and 5.5; ConfigTron Table 2 (RTO); net/ipv4/inet_connection_sock.c (reqsk_timer_handler).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.nouns import RST, Observation, Trace, Value

PROBES = ("rto",)
KNOBS = ("synack_rto", "synack_backoff", "synack_retries")
# Initial timeouts seen in kernels and tables, s: Linux 1 (3 before RFC 6298), Table 2's 0.3, tuned hosts' others.
CLASSES_S = (0.2, 0.25, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0)
# Linux's timer wheel rounds up by at most an eighth (kernel/time/timer.c, LVL_GRAN).
WHEEL = 0.125
# Ratio of successive gaps of a timer that does not grow, within the wheel's eighth on both.
CONSTANT = (0.85, 1.15)
# As many copies lost before the first that was heard are still told from a longer timer.
LOST_FIRST_MAX = 2
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
    schedule = schedule_of([gap for _, gap in repeats])
    return (
        _rto(trace, schedule, frames, opening.duplicates(trace.packets)),
        _backoff(trace, schedule, frames),
        _retries(trace, schedule, frames),
    )


class Schedule(NamedTuple):
    """What the gaps say: the first timeout (s), how it grows, how many copies were lost on the way, and the gaps."""

    first_s: float
    kind: str
    missed: int
    gaps: tuple[float, ...]


def schedule_of(gaps: Sequence[float]) -> Schedule:
    """The timer behind the gaps (s). A lost copy merges two gaps; with two gaps or more the doubling shows it."""
    seen = tuple(round(gap, 6) for gap in gaps)
    if len(gaps) == 1:
        return Schedule(gaps[0], "", 0, seen)
    if all(CONSTANT[0] <= b / a <= CONSTANT[1] for a, b in zip(gaps, gaps[1:], strict=False)):
        return Schedule(gaps[0], "linear", 0, seen)
    fits = [_fit(gaps[0] / (2**first - 1), first, list(accumulate(gaps))) for first in range(1, 2 + LOST_FIRST_MAX)]
    best = min((fit for fit in fits if fit is not None), default=None)
    if best is None:
        return Schedule(gaps[0], "irregular", 0, seen)
    _, last, base_s = best
    return Schedule(base_s, "exponential", last - len(gaps), seen)


def _fit(base_s: float, first: int, times_s: Sequence[float]) -> tuple[float, int, float] | None:
    """If every time lies on base x (2^n - 1), within the wheel's eighth: (largest misfit, last n, base)."""
    n, misfit = first, 0.0
    for at in times_s[1:]:
        n += 1
        while base_s * (2**n - 1) * (1 + WHEEL) < at:
            n += 1
        misfit = max(misfit, abs(at / (base_s * (2**n - 1)) - 1))
    return (misfit, n, base_s) if misfit <= WHEEL else None


def rto_class(seconds: float) -> Value:
    """The nearest class within the timer wheel's eighth (and as much below, for clocks), or "other"."""
    near = min(CLASSES_S, key=lambda c: abs(c - seconds))
    return near if abs(seconds - near) <= WHEEL * near else "other"


def _rto(trace: Trace, schedule: Schedule, frames: tuple[int, ...], duplicates: int) -> Observation:
    details: dict[str, Value] = {
        "class": rto_class(schedule.first_s),
        "gaps": schedule.gaps,
        "duplicates": duplicates,
        "missed": schedule.missed,
        "regular": schedule.kind in ("exponential", "linear"),
    }
    value = round(schedule.first_s, 6)
    return yes("synack_rto", value, trace, "s", "first gap between SYN-ACKs", "C", frames[:2], details)


def _backoff(trace: Trace, schedule: Schedule, frames: tuple[int, ...]) -> Observation:
    if not schedule.kind:
        return no("synack_backoff", "unclear:one-repeat", trace)
    details: dict[str, Value] = {"gaps": schedule.gaps, "missed": schedule.missed}
    return yes("synack_backoff", schedule.kind, trace, "", "growth of the gaps", "C", frames, details)


def _retries(trace: Trace, schedule: Schedule, frames: tuple[int, ...]) -> Observation:
    """Exact only if the server said it ended (RST) or stayed silent longer than its next gap could be."""
    last = max(p.at for p in trace.packets if p.way == "in")
    ended = any(p.way == "in" and p.segment.flags & RST for p in trace.packets)
    farewell = next((p.at for p in trace.packets if p.way == "out" and p.segment.flags & RST), last)
    grade = "C" if ended or farewell - last > END_FACTOR * schedule.gaps[-1] else "L"
    value = len(schedule.gaps) + schedule.missed
    return yes("synack_retries", value, trace, "", "SYN-ACKs after the first", grade, frames, {"reset": ended})
