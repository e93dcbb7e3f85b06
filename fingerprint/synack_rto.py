# SPDX-License-Identifier: MIT
"""Initial retransmission timeout: of the SYN-ACK, with its back-off, the number of retries, and how they end.

Question   How long does the server wait for the handshake's ACK, how does the wait grow, when and how does it give up?
Method     Send a SYN, withhold the ACK, log every SYN-ACK; then send the SYN once more (the echo, `halfopen.py`).
Stop when  a RST comes, the echo finds the connection forgotten, or patience ends.
Reads as   RTO: the first gap, in s, with the nearest class of {0.2, 0.25, 0.3, 0.5, 1, 1.5, 2, 3} within the timer
           wheel's eighth; where the doubling shows that copies were lost, the gap without the loss. If the first
           answer came later than a round trip, by as much as a timer, it was a copy itself, and the timer is shorter.
           Back-off: how the gaps grow. Retries: how many repeats, exact only if the end was seen: a RST, or an echo
           that finds the connection forgotten; one that finds it remembered shows a lost copy. End: "reset" or
           "silence".
Fails as   no-synack, refused, no-repeat (a SYN cookie or a proxy answers exactly once), unclear:one-repeat,
           unclear:no-end, unclear:irregular (the runs' gaps are no one timer's), drops.
Differs    from JA4TScan: ms instead of s; duplicates within 0.1 s are merged; the end is kept apart from
           impatience, a lost copy from a longer timer.
Source     RFC 6298 section 2 and 5.5; ConfigTron Table 2 (RTO); net/ipv4/inet_connection_sock.c (reqsk_timer_handler).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from configtron.fingerprint.halfopen import HalfOpen, half_open
from configtron.fingerprint.schedule import WHEEL, Schedule, copies, schedule_of, spans, with_lost_first
from configtron.fingerprint.stream import DUPLICATE_GAP_S
from configtron.fingerprint.verdict import AGREE_B, as_number, count_grade, no, over, seen, shared, yes
from configtron.model.nouns import Observation, Trace, Value

PROBES = ("rto",)
KNOBS = ("synack_rto", "synack_backoff", "synack_retries", "synack_end")
# Vantage of a trace that comes from a capture, not from a probe (`passive/traces.py`).
CAPTURE = "capture"
# Initial timeouts seen in kernels and tables, s: Linux 1 (3 before RFC 6298), Table 2's 0.3, tuned hosts' others.
CLASSES_S = (0.2, 0.25, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0)
# The reason for no timer where runs disagree and losses do not explain it.
IRREGULAR = "unclear:irregular"
# Round trips of one path agree within this share and time (queues, schedulers).
SAME_TRIP, SAME_TRIP_S = 0.1, 0.01


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one withheld handshake: the observations of `KNOBS`."""
    opening = half_open(trace.packets)
    reason = trace.tainted[0] if trace.tainted else ""
    if not opening.answers:
        reason = "refused" if opening.refused else "no-synack"
    elif not reason and len(opening.answers) == 1:
        reason = "no-repeat"
    if reason:
        return tuple(no(knob, reason, trace, "s" if knob == "synack_rto" else "") for knob in KNOBS)
    frames = tuple(trace.packets[i].frame for i in opening.answers)
    schedule = schedule_of(opening.gaps(trace.packets), opening.late)
    if opening.echo_rtt_s is not None:
        schedule, _ = with_lost_first(schedule, opening.arrival_s - opening.echo_rtt_s)
    details: dict[str, Value] = {"gaps": schedule.gaps, "late": opening.late, "missed": schedule.missed}
    details["arrival"] = round(opening.arrival_s, 6)
    if opening.echo_rtt_s is not None:
        details["rtt"] = round(opening.echo_rtt_s, 6)
    return (
        _rto(trace, opening, schedule, frames, details),
        _backoff(trace, schedule, frames),
        _retries(trace, opening, schedule, frames, details),
        _end(trace, opening, frames),
    )


def rto_class(seconds: float) -> Value:
    """Return the nearest class within the timer wheel's eighth (and as much below, for clocks), or "other"."""
    near = min(CLASSES_S, key=lambda c: abs(c - seconds))
    return near if abs(seconds - near) <= WHEEL * near else "other"


def _rto(
    trace: Trace, opening: HalfOpen, schedule: Schedule, frames: tuple[int, ...], details: Mapping[str, Value]
) -> Observation:
    more: dict[str, Value] = {
        "class": rto_class(schedule.first_s),
        "duplicates": opening.duplicates or 0,
        "regular": schedule.kind in ("exponential", "linear"),
    }
    value = round(schedule.first_s, 6)
    return yes("synack_rto", value, trace, "s", "first gap between SYN-ACKs", "C", frames[:2], {**details, **more})


def _backoff(trace: Trace, schedule: Schedule, frames: tuple[int, ...]) -> Observation:
    if not schedule.kind:
        return no("synack_backoff", "unclear:one-repeat", trace)
    details: dict[str, Value] = {"gaps": schedule.gaps, "missed": schedule.missed}
    return yes("synack_backoff", schedule.kind, trace, "", "growth of the gaps", "C", frames, details)


def _retries(
    trace: Trace, opening: HalfOpen, schedule: Schedule, frames: tuple[int, ...], details: Mapping[str, Value]
) -> Observation:
    """Return repeats heard, those lost between and before them, and those that the echoes show to have been lost."""
    heard = len(schedule.gaps) + len(opening.late)
    overdue = (opening.overdue, opening.overdue_last)
    count = _count(schedule, details, overdue)
    more: dict[str, Value] = {"reset": opening.reset is not None, "missed": count - heard, "overdue": overdue}
    # A constant timer need not end with the connection, as one that doubles does: it is unknown whether the server ever
    # sent the overdue copy.
    unsure = schedule.kind == "linear" and opening.overdue_last > 0
    grade = "C" if _ended(opening) and not unsure else "L"
    if grade == "L":
        # The echo may have caused the copies after it; the copies before it are sure.
        count = len(schedule.gaps)
    elif trace.vantage == CAPTURE and count > heard:
        # In a capture of other hosts, copies that it does not have are a guess: the server's waits may be uneven.
        count, grade = heard, "L"
        more |= {"uneven": True}
    return yes("synack_retries", count, trace, "", "SYN-ACKs after the first", grade, frames, {**details, **more})


def _count(schedule: Schedule, details: Mapping[str, Value], overdue: Sequence[float]) -> int:
    """Return copies that were sent: by the timer's own arithmetic if it is regular, else those heard.

    A doubling timer's last wait shows which it was, and so counts the copies lost before; `overdue` are all, and those
    lost after it.
    """
    lost = int(overdue[0 if schedule.kind == "linear" else 1])
    late = _numbers(details.get("late"))
    if schedule.kind not in ("exponential", "linear"):
        return len(schedule.gaps) + len(late) + lost
    # An echo that was held up shows more than a round trip; the first answer took one at least.
    arrival_s = as_number(details.get("arrival"))
    rtt_s = min(as_number(details.get("rtt", arrival_s)), arrival_s)
    passed_s = sum(schedule.gaps) + arrival_s - rtt_s
    return copies(schedule.first_s, schedule.kind, passed_s, late) + lost


def _ended(opening: HalfOpen) -> bool:
    return opening.reset is not None or opening.echoes[-1:] == (False,)


def _end(trace: Trace, opening: HalfOpen, frames: tuple[int, ...]) -> Observation:
    if opening.reset is not None:
        frame = trace.packets[opening.reset].frame
        return yes("synack_end", "reset", trace, "", "RST after the last SYN-ACK", "C", (frame,))
    if not _ended(opening):
        return no("synack_end", "unclear:no-end", trace)
    return yes("synack_end", "silence", trace, "", "the connection was forgotten without a word", "C", frames[-1:])


class _Run(NamedTuple):
    """A run read again with all that is known of the path; sure if its first answer was the original, or counted."""

    trial: Observation
    schedule: Schedule
    sure: bool


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Return the timer out of all runs, each with its own round trip: the shortest that two connections saw.

    The shortest counts, because a lost copy only lengthens. A run that heard a single gap of a doubling multiple has
    lost copies and says nothing against it. A run is sure if its first answer was the original and two gaps or more
    show how it grows: B asks for one such run, A for two.
    """
    every = trials.get("synack_rto", ())
    exact = [t for t in every if t.grade == "C"]
    if not exact or not all(_numbers(t.detail("gaps")) for t in exact):
        return None
    timer = _shortest([_resolved(t, _trip(t, trials)) for t in exact])
    best, agreeing = timer.near[0].trial, len(timer.near)
    if timer.against and (not timer.sure or len(timer.against) >= agreeing):
        return over("synack_rto", every, None, "N", "s", best.method, reason=IRREGULAR, details=seen(exact))
    grade = timer.grade
    details: dict[str, Value] = dict(best.details)
    details |= {"class": rto_class(timer.first_s), "missed": timer.near[0].schedule.missed, "agreeing": agreeing}
    if agreeing < len(exact) or grade == "C":
        details |= seen(exact)
    return over("synack_rto", every, round(timer.first_s, 6), grade, "s", best.method, details=details)


class _RunsByTimer(NamedTuple):
    """Runs beside the shortest timer (s): those that show it (the shortest first), the sure ones, those against it."""

    first_s: float
    near: list[_Run]
    sure: list[_Run]
    against: list[_Run]

    @property
    def grade(self) -> str:
        """The grade of the timer."""
        if self.against or not self.sure:
            return "C"
        return "A" if len(self.sure) >= AGREE_B else count_grade(len(self.near))


def _shortest(runs: Sequence[_Run]) -> _RunsByTimer:
    first_s = min(run.schedule.first_s for run in runs)
    near = [run for run in runs if run.schedule.first_s <= first_s * (1 + WHEEL)]
    sure = [run for run in near if run.sure and run.schedule.kind in ("exponential", "linear")]
    against = [run for run in runs if run not in near and not _lost(run, first_s)]
    near.sort(key=lambda run: run.schedule.first_s != first_s)
    return _RunsByTimer(first_s, near, sure, against)


def across_retries(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Return the number of repeats out of all runs, by the timer that they show together. Loss only lowers it."""
    every = trials.get("synack_retries", ())
    if alike := _alike(every):
        details = {**dict(alike[0].details), "agreeing": len(alike)}
        grade = count_grade(len(alike))
        return over("synack_retries", every, alike[0].value or 0, grade, "", alike[0].method, details=details)
    timer = across(trials)
    exact = [t for t in every if t.grade == "C"]
    if timer is None or not exact:
        return None
    if timer.value is None:
        if len({t.value for t in exact}) == 1:
            return None
        return over("synack_retries", every, None, "N", "", exact[0].method, reason=IRREGULAR, details=seen(exact))
    counted = _counted(exact, as_number(timer.value), trials)
    if not counted:
        return None
    counts = [count for count, _ in counted]
    most = max(counts)
    if any(t.grade == "L" and as_number(t.value) > most for t in every):
        return None
    agreeing = counts.count(most)
    details = {**dict(counted[counts.index(most)][1].details), "agreeing": agreeing}
    if agreeing < len(counts):
        details |= seen(exact)
    grade = count_grade(agreeing) if timer.grade != "C" else "C"
    return over("synack_retries", every, most, grade, "", exact[0].method, details=details)


def _counted(
    exact: Sequence[Observation], base_s: float, trials: Mapping[str, Sequence[Observation]]
) -> list[tuple[int, Observation]]:
    """Return (copies sent, trial) of each run, by a timer that begins with `base_s`.

    A run without an end whose timer does not grow is left out: whether its overdue copies were sent is not known.
    """
    kinds = {t.value for t in trials.get("synack_backoff", ()) if t.value is not None}
    found = []
    for trial in exact:
        rtt_s = _trip(trial, trials)
        details = {**dict(trial.details), **({} if rtt_s is None else {"rtt": rtt_s})}
        read = _resolved(trial, rtt_s).schedule
        kind = read.kind or (str(*kinds) if len(kinds) == 1 else "")
        overdue = _numbers(trial.detail("overdue")) or (0, 0)
        if not (kind == "linear" and overdue[1]):
            found.append((_count(read._replace(first_s=base_s, kind=kind), details, overdue), trial))
    return found


def _alike(trials: Sequence[Observation]) -> list[Observation]:
    """Return the trials if all have the same uneven gaps: these are the server's own, as losses would differ."""
    uneven = [t for t in trials if t.detail("uneven")]
    if len(uneven) < AGREE_B or len(uneven) < len([t for t in trials if t.value is not None]):
        return []
    first = _numbers(uneven[0].detail("gaps"))
    for trial in uneven[1:]:
        gaps = _numbers(trial.detail("gaps"))
        if len(gaps) != len(first) or any(abs(a - b) > WHEEL * min(a, b) for a, b in zip(gaps, first, strict=True)):
            return []
    return uneven


def across_backoff(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """None, where more runs agree on the growth than not; a server whose runs grow each in its own way has no timer."""
    every = trials.get("synack_backoff", ())
    exact = [t for t in every if t.grade == "C"]
    most = max((sum(t.value == one.value for t in exact) for one in exact), default=0)
    if len(exact) < AGREE_B or 2 * most > len(exact):
        return None
    return over("synack_backoff", every, None, "N", "", exact[0].method, reason=IRREGULAR, details=seen(exact))


def across_end(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Return how the server gives up, out of all runs: a RST that was lost looks like silence."""
    every = trials.get("synack_end", ())
    exact = [t for t in every if t.grade == "C"]
    if not exact:
        return None
    value = "reset" if any(t.value == "reset" for t in exact) else "silence"
    same = [t for t in exact if t.value == value]
    return shared(every, exact, same, count_grade(len(same)))


def _trip(trial: Observation, trials: Mapping[str, Sequence[Observation]]) -> float | None:
    """Return the round trip (s) of a run: its own echo's, or else that of other connections."""
    own = trial.detail("rtt")
    return float(own) if isinstance(own, int | float) and own > 0 else agreed_trip(_trips(trials))


def shortest_trip(trials: Mapping[str, Sequence[Observation]]) -> float | None:
    """Return the shortest round trip (s) that any reading of this target kept; a lost packet only lengthens one."""
    return min(_trips(trials), default=None)


def agreed_trip(trips_s: Sequence[float]) -> float | None:
    """Return the shortest of these round trips that two agree on, or the only one.

    A lost packet only lengthens a round trip; a single short one may be of another path, and so of no other connection.
    """
    order = sorted(trips_s)
    agreed = (a for a, b in zip(order, order[1:], strict=False) if b - a <= SAME_TRIP * a + SAME_TRIP_S)
    return next(agreed, order[0] if len(order) == 1 else None)


def _trips(trials: Mapping[str, Sequence[Observation]]) -> list[float]:
    kept = [t.detail("rtt") for readings in trials.values() for t in readings]
    return [float(rtt) for rtt in kept if isinstance(rtt, int | float) and rtt > 0]


def _resolved(trial: Observation, rtt_s: float | None) -> _Run:
    gaps = _numbers(trial.detail("gaps"))
    arrival_s = as_number(trial.detail("arrival"))
    if rtt_s is not None and trial.detail("duplicates") and 0 < arrival_s - rtt_s < DUPLICATE_GAP_S:
        # The first answer was lost, and its duplicate heard: the timer began before that.
        gaps = (gaps[0] + arrival_s - rtt_s, *gaps[1:])
        arrival_s = rtt_s
    schedule = schedule_of(gaps, _numbers(trial.detail("late")))
    resolved, sure = with_lost_first(schedule, arrival_s - (rtt_s or 0.0))
    # A path that was not measured may be as long as that.
    return _Run(trial, schedule, sure and resolved == schedule) if rtt_s is None else _Run(trial, resolved, sure)


def _lost(run: _Run, first_s: float) -> bool:
    """Return whether lost copies explain a longer reading: a single gap, or a first answer that may be a copy."""
    return not (run.schedule.kind and run.sure) and spans(run.schedule.first_s, first_s)


def _numbers(value: Value | None) -> tuple[float, ...]:
    return tuple(float(v) for v in value if isinstance(v, int | float)) if isinstance(value, tuple) else ()
