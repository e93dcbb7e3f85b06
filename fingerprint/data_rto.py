# SPDX-License-Identifier: MIT
"""Retransmission timeout of data, before any round trip of data was sampled; and the shortest it could be.

Question   How long does the server wait for an ACK of its first data before it sends it again? How much of that is its
           minimum?
Method     The withheld-ACK conversation without SACK: from each copy of the first byte to the next.
Stop when  the first byte came again often enough.
Reads as   data_rto: the time between the first two copies, in s. Later gaps double: one that does not shows a lost
           copy. A lost first copy shows by the flight's other segments, or by the round trip. Linux: RTT + max(min
           RTO, 2 RTT), from the handshake's round trip. min_rto: the shortest of all gaps, each divided by its power of
           two, less the round trip that the server saw. It has a value if that is more than two round trips, and if a
           run whose ACK was held had a timer longer by as much: then it is Linux's sum. Other stacks take the larger of
           a minimum and three round trips, or begin with a constant.
Fails as   no-synack, refused, no-data, no-repeat (the response ended or the server gave up), synack-repeated (SYN or
           SYN-ACK twice, or lost: without timestamps RFC 6298 5.7 falls back to 3 s), unclear:first-segment-lost,
           unclear:slow-answer (the server thinks, or its first segment was lost), unclear:long-path,
           unclear:one-round-trip (no second one shows how the timer is computed), unclear:other-timer (it is not
           Linux's sum; of all three min_rto is at most the detail `at_most`), unclear:one-repeat (and nothing agrees
           with it), unclear:syn-cookies. None from runs with SACK: a tail loss probe re-arms the timer; but captures
           of others' connections, which nearly all have it, show the timer beside it (`_since_armed`).
Differs    from ConfigTron Table 2, whose RTO mixes this with the SYN-ACK's (`synack_rto`): the two are named apart.
Source     RFC 6298 2.2, 2.4, 5.7; net/ipv4/tcp_input.c (tcp_rtt_estimator), net/ipv4/tcp_timer.c
           (tcp_retransmit_timer); gvisor.dev/gvisor pkg/tcpip/transport/tcp (the larger of minRTO, srtt + 4 rttvar).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from configtron.fingerprint.schedule import WHEEL, Schedule, schedule_of, spans, waits, with_lost_first
from configtron.fingerprint.stream import NEAR_S, Flight, Handshake, handshake_of
from configtron.fingerprint.synack_rto import agreed_trip
from configtron.fingerprint.verdict import AGREE_A, AGREE_B, as_number, canonical, count_grade, no, over, seen, yes
from configtron.fingerprint.window_proofs import CAPTURE, PROBE_FROM, SYNACK_LOST_S, TIMER_MIN_S
from configtron.fingerprint.withheld import hold
from configtron.model.nouns import Observation, Packet, Trace, Value

UNIT = "s"
PROBES = ("icw",)
KNOBS = ("data_rto", "min_rto")
# Copies closer than this share of the round trip are one, doubled by the network: a timer is longer than the path.
COPY_SHARE, COPY_MIN_S = 0.9, 0.005
# Linux's timer is three round trips at least; a gap that spans a lost copy is three timers. So a single gap shorter
# than nine round trips, less some jitter, has lost none.
SPANS_NONE_RTTS = 9 * 0.95
# A server that sampled no round trip (its SYN-ACK was sent twice, or our ACK came with a repeated request) begins with
# 3 s (RFC 6298 5.7, TCP_TIMEOUT_FALLBACK), an eighth late at most. A shorter timer shows that it sampled one.
FALLBACK_S = 3.0
# Without a minimum, Linux's timer is three round trips, and late by the grain of the timer wheel (from 63 ticks on 8,
# from 504 on 64, kernel/time/timer.c LVL_START) and a tick, at the rates that kernels are built with, and by jitter.
# The minimum shows only if the timer is longer than that.
TICK_RATES_HZ, WHEEL_START, WHEEL_GRAIN = (100, 250, 1000), 63, 8
SHOWS_SLACK_S = 0.01
# Round trips this far apart (s) distinguish Linux's sum from other timers, whose lateness they must exceed.
APART_S = 0.03
# The method of min_rto; why one run alone has no value. Runs with the first reason may show the minimum together.
LESS = "retransmission timer less round trip, at two round trips"
ALONE, OTHER, LONG = "unclear:one-round-trip", "unclear:other-timer", "unclear:long-path"
# A handshake that took longer than the path's round trip by more than this gives a timer that is not the path's.
USUAL_TRIP, USUAL_SLACK_S = 1.25, 0.02
# On shorter paths we hold our own ACK until this time has passed (`probe/withhold.py`, SETTLE_S).
HELD_S = 0.02


class Copies(NamedTuple):
    """The first byte's copies: their frames, the schedule between them, and whether the first of them is certain."""

    frames: tuple[int, ...]
    schedule: Schedule
    sure: bool


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one withheld-ACK trace; none at all from an edge run (SACK) or an early ACK: they cannot answer this."""
    probes = bool(trace.param("sack", False))
    if probes and trace.vantage != CAPTURE or trace.param("early", False):
        return ()
    found = _infer(trace, probes)
    return found if not probes and int(as_number(trace.param("repeats", 1))) > 1 else found[:1]


def _infer(trace: Trace, probes: bool) -> tuple[Observation, ...]:
    packets = trace.packets
    opening = handshake_of(packets)
    if not opening.synacks:
        return _none("refused" if opening.reset else "no-synack", trace)
    flight, stop, at = hold(packets, opening)
    if not flight.pieces:
        repeated = bool(opening.repeats(packets)) and packets[opening.synacks[0]].segment.timestamps is None
        return _none("synack-repeated" if repeated else "reset" if stop == "rst" else "no-data", trace)
    if trace.tainted:
        return _none(trace.tainted[0], trace)
    trip_s, sampled = server_trip(packets, opening, flight)
    copies = _copies(packets, flight, trip_s, probes, (opening.rtt_s or math.inf) <= NEAR_S)
    if not copies.schedule.gaps:
        return _none("no-repeat", trace)
    if not copies.sure:
        return _none("unclear:slow-answer" if len(flight.pieces) == 1 else "unclear:first-segment-lost", trace)
    first_s = copies.schedule.first_s
    fallback = FALLBACK_S <= first_s <= FALLBACK_S * (1 + WHEEL) and trip_s < FALLBACK_S / 3
    if fallback and packets[opening.synacks[0]].segment.timestamps is None or not sampled and first_s >= FALLBACK_S:
        return _none("synack-repeated", trace)
    least = _least(trace, copies, trip_s) if sampled else no("min_rto", "synack-repeated", trace, UNIT)
    return _timer(trace, copies, flight, trip_s), least


def _none(reason: str, trace: Trace) -> tuple[Observation, ...]:
    return tuple(no(knob, reason, trace, UNIT) for knob in KNOBS)


def server_trip(packets: Sequence[Packet], opening: Handshake, flight: Flight) -> tuple[float, bool]:
    """Return the server's round trip of the handshake (ours, plus the time that we held our ACK), and whether it is
    sure."""
    synack = packets[opening.synacks[0]]
    late = opening.rtt_s is None or flight.sampled and opening.rtt_s - (flight.rtt_s or 0.0) > SYNACK_LOST_S
    acked = next((p.at for p in packets if p.way == "out" and p.at >= synack.at), synack.at)
    asked = [p for p in packets if p.way == "out" and p.segment.length and p.segment.seq == 1]
    rtt_s = flight.rtt_s if late or opening.rtt_s is None else opening.rtt_s
    sampled = synack.segment.timestamps is not None or not late and not opening.repeats(packets)
    return (rtt_s or 0.0) + acked - synack.at, sampled and rtt_s is not None and len(asked) == 1


def _copies(packets: Sequence[Packet], flight: Flight, trip_s: float, probes: bool, near: bool) -> Copies:
    acked = next((n for n, p in enumerate(packets) if p.way == "out" and p.segment.ack > 1), len(packets))
    data = [p for p in packets[:acked] if p.way == "in" and p.segment.length > 0]
    found = _first_bytes(data, max(COPY_SHARE * trip_s, COPY_MIN_S))
    gaps = [b.at - a.at for a, b in zip(found, found[1:], strict=False)]
    frames = tuple(p.frame for p in found)
    if probes and gaps:
        gaps = _since_armed([p.at for p in data if found[0].at <= p.at < found[1].at], found[1].at, trip_s, near)
    if not gaps or probes:
        return Copies(frames, schedule_of(gaps) if gaps else Schedule(0.0, "", 0, ()), probes)
    # A first copy that was lost is later than its company; one that came alone, than a round trip after our request.
    asked = next((p.at for p in packets if p.way == "out" and p.segment.length > 0), found[0].at)
    due_s = data[0].at if len(flight.pieces) > 1 else asked + (flight.rtt_s or 0.0)
    schedule, sure = with_lost_first(schedule_of(gaps), found[0].at - due_s)
    alone = len(flight.pieces) == 1 and schedule.missed > schedule_of(gaps).missed
    return Copies(frames, schedule, sure and not alone)


def _since_armed(sent_s: Sequence[float], again_s: float, trip_s: float, near: bool) -> list[float]:
    """Return how long (s) the timer ran, beside tail loss probes; nothing where one may be the repeat, or is missing.

    A probe of several segments re-arms the timer, and only a capture at the server surely has it. One of a single
    segment comes after two round trips and the minimum (0.2 s), or with the timer if that is shorter.

    sent_s, again_s   when the server sent data from the first byte on, and when that byte came again
    """
    if len(sent_s) == 1:
        ran_s, certain = again_s - sent_s[0], again_s - sent_s[0] <= PROBE_FROM * (2 * trip_s + TIMER_MIN_S)
    else:
        probed = sent_s[-1] - sent_s[-2] >= PROBE_FROM * 2 * trip_s
        ran_s, certain = again_s - sent_s[-1 if probed else 0], near
    # No timer is shorter than three round trips (RFC 6298 2.2).
    return [ran_s] if certain and ran_s >= 3 * trip_s > 0 else []


def _first_bytes(data: Sequence[Packet], apart_s: float) -> list[Packet]:
    """Return the segments that begin with the first byte, each at least that long (s) after the one before."""
    found: list[Packet] = []
    for packet in data:
        if packet.segment.seq == 1 and (not found or packet.at - found[-1].at >= apart_s):
            found.append(packet)
    return found


def _timer(trace: Trace, copies: Copies, flight: Flight, trip_s: float) -> Observation:
    regular = copies.schedule.kind == "exponential"
    first_s = copies.schedule.first_s
    details: dict[str, Value] = {
        "gaps": copies.schedule.gaps,
        "missed": copies.schedule.missed,
        "trip": round(trip_s, 6),
        **({"slower": True} if trace.param("slower", False) else {}),
        **({} if flight.rtt_s is None else {"rtt": round(flight.rtt_s, 6)}),
        "regular": regular or (len(copies.schedule.gaps) == 1 and first_s < SPANS_NONE_RTTS * trip_s),
    }
    value = round(first_s, 6)
    return yes("data_rto", value, trace, UNIT, "first byte sent again", "C", copies.frames[:2], details)


def _least(trace: Trace, copies: Copies, trip_s: float) -> Observation:
    if copies.schedule.kind != "exponential":
        return no("min_rto", "unclear:one-repeat", trace, UNIT)
    timer_s = min(gap / waits(gap, copies.schedule.first_s) for gap in copies.schedule.gaps)
    details: dict[str, Value] = {"trip": round(trip_s, 6), "missed": copies.schedule.missed}
    # Whatever it is made of, no timer is shorter than its minimum.
    details |= dict.fromkeys(("timer", "at_most"), round(timer_s, 6))
    hidden = timer_s < 3 * trip_s + _late_s(3 * trip_s) + SHOWS_SLACK_S
    return no("min_rto", LONG if hidden else ALONE, trace, UNIT, LESS, details)


def _late_s(timer_s: float) -> float:
    """Return how late a timer of that length may fire."""
    return max((_grain(timer_s * hz) + 1) / hz for hz in TICK_RATES_HZ)


def _grain(ticks: float) -> int:
    grain = 1
    while ticks >= WHEEL_START * grain:
        grain *= WHEEL_GRAIN
    return grain


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Return the timer out of all runs: the shortest that two agree on, since a lost copy only lengthens.

    B asks that two agree and one of them is regular: its gaps double, or a single one is too short to span a lost copy.
    One that stands alone is outvoted, or believed at C if it is regular and no copy of it was lost: the arithmetic of
    lost copies fits some rows of gaps by chance.
    """
    runs = trials.get("data_rto", ())
    exact = [t for t in runs if t.grade == "C"]
    if not exact or any(t.detail("gaps") is None for t in exact):
        return None
    if _cookies(trials):
        return over("data_rto", runs, None, "N", UNIT, reason="unclear:syn-cookies", details=seen(exact))
    exact = _as_usual(exact)
    if not exact:
        return over("data_rto", runs, None, "N", UNIT, reason="unclear:one-repeat")
    of_the_path = _of_the_path(exact)
    usual = of_the_path or exact
    near, regular = _near(usual)
    best = near[0] if near else exact[0]
    if not near or len(near) < AGREE_B and best.detail("missed"):
        reason = "unclear:one-repeat"
        return over("data_rto", runs, None, "N", UNIT, best.method, reason=reason, details=seen(exact))
    grade = count_grade(len(near)) if of_the_path and regular and not _against(usual, near) else "C"
    details: dict[str, Value] = {**dict(best.details), "agreeing": len(near)}
    if len(near) < len(exact) or grade == "C":
        details |= seen(exact)
    return over("data_rto", runs, best.value, grade, UNIT, best.method, details=details)


def _against(usual: Sequence[Observation], near: Sequence[Observation]) -> bool:
    """Return whether a regular run shows another timer; a gap of several timers lost copies, and shows none."""
    return any(t not in near and t.detail("regular") and not _spans(t, near[0]) for t in usual)


def _near(usual: Sequence[Observation]) -> tuple[list[Observation], bool]:
    """Return the runs that agree on the timer, and whether one of them is regular.

    A timer that does not double has no regular row of gaps: three runs that lost nothing show its first wait.
    """
    if near := _agreed(usual, [t for t in usual if t.detail("regular")]):
        return near, True
    alike = _agreed(usual, usual)
    doubtful = len(alike) < AGREE_A or any(t.detail("missed") for t in alike)
    return ([] if doubtful else alike), not alike


def _of_the_path(exact: Sequence[Observation]) -> Sequence[Observation]:
    """Return the runs whose handshake took no longer than the path (a SYN-ACK was lost, and its copy came later)."""
    seen_s = [[as_number(t.detail(name)) for name in ("trip", "rtt") if t.detail(name) is not None] for t in exact]
    trips_s = [min(several) for several in seen_s if several]
    least_s = agreed_trip(trips_s)
    path_s = min(trips_s, default=0.0) if least_s is None else least_s
    most_s = max(path_s, HELD_S) * USUAL_TRIP + USUAL_SLACK_S
    return [t for t in exact if as_number(t.detail("trip")) <= most_s]


def _as_usual(exact: Sequence[Observation]) -> list[Observation]:
    """Return the runs as if none had held its ACK: one that did takes another run's value, if Linux's sum fits both.

    Else it is left out: a timer as long as the other's, at another round trip, may be a longer one that lost its ACK.
    """
    usual = [t for t in exact if not t.detail("slower")]
    like = (_like(t, usual) for t in exact if t.detail("slower"))
    return [*usual, *(t for t in like if t is not None)]


def _like(slower: Observation, usual: Sequence[Observation]) -> Observation | None:
    trip_s = as_number(slower.detail("trip"))
    for run in sorted(usual, key=lambda t: as_number(t.value)):
        sum_s = trip_s + max(as_number(run.value) - as_number(run.detail("trip")), 2 * trip_s)
        if sum_s * (1 - WHEEL) <= as_number(slower.value) <= sum_s * (1 + WHEEL) + SHOWS_SLACK_S:
            details: dict[str, Value] = {**dict(slower.details), "trip": as_number(run.detail("trip"))}
            return replace(slower, value=run.value, details=canonical(details))
    return None


def across_least(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Return the minimum that two runs agree on, if their round trips differ and the timer is a sum with them."""
    runs = trials.get("min_rto", ())
    timed = [t for t in runs if t.detail("timer") is not None]
    read = [t for t in timed if t.reason != LONG]
    if not read:
        return None
    at_most: dict[str, Value] = {"at_most": min(as_number(t.detail("timer")) for t in read)}
    if _cookies(trials):
        return over("min_rto", runs, None, "N", UNIT, reason="unclear:syn-cookies", details=at_most)
    pairs = [
        (a, b) for a in read for b in timed if as_number(b.detail("trip")) - as_number(a.detail("trip")) >= APART_S
    ]
    shown = [(a, b) for a, b in pairs if b in read and _is_sum(a, b)]
    if not shown:
        other = any(_is_constant(*pair) for pair in pairs)
        return over("min_rto", runs, None, "N", UNIT, reason=OTHER if other else ALONE, details=at_most)
    return _agreed_least(runs, read, min(min(_minimum(a), _minimum(b)) for a, b in shown))


def _agreed_least(runs: Sequence[Observation], read: Sequence[Observation], least_s: float) -> Observation:
    near = [t for t in read if _same(_minimum(t), least_s)]
    # A longer one is no other opinion, unless there are as many of them; a shorter one is.
    against = len(read) - len(near) >= len(near) or any(_minimum(t) < least_s for t in read)
    details: dict[str, Value] = {"agreeing": len(near)}
    if len(near) < len(read):
        details["seen"] = tuple(sorted({f"{_minimum(t):g}" for t in read}))
    return over("min_rto", runs, least_s, "C" if against else count_grade(len(near)), UNIT, LESS, details=details)


def _minimum(trial: Observation) -> float:
    """Return the minimum if the timer is Linux's sum."""
    return round(as_number(trial.detail("timer")) - as_number(trial.detail("trip")), 6)


def _same(one_s: float, other_s: float) -> bool:
    less_s, more_s = sorted((one_s, other_s))
    return more_s <= less_s * (1 + WHEEL) + SHOWS_SLACK_S


def _is_sum(near: Observation, far: Observation) -> bool:
    """Return whether the timer grew with the round trip, unlike the larger of a minimum and three round trips."""
    constant_s = max(as_number(near.detail("timer")), 3 * as_number(far.detail("trip")))
    return _same(_minimum(near), _minimum(far)) and as_number(far.detail("timer")) > constant_s + _late_s(constant_s)


def _is_constant(near: Observation, far: Observation) -> bool:
    """Return whether the longer round trip's timer is below Linux's sum, by more than the shorter's was late."""
    timer_s = as_number(near.detail("timer"))
    sum_s = timer_s - _late_s(timer_s) + as_number(far.detail("trip")) - as_number(near.detail("trip"))
    return as_number(far.detail("timer")) < sum_s


def _cookies(trials: Mapping[str, Sequence[Observation]]) -> bool:
    """Return whether the server makes SYN cookies: it does not know when its SYN-ACK left.

    Without timestamps it has no round trip; with them, one up to 64 ms too long (syncookies.c, cookie_init_timestamp()
    takes the stamp's low bits for our options).
    """
    # A number that came again was computed; one that did not may have met the turn of the minute.
    return any(t.value == "yes" for t in trials.get("syn_cookies", ()))


def _agreed(exact: Sequence[Observation], sure: Sequence[Observation]) -> list[Observation]:
    """Return the first group of `AGREE_B` runs that agree, from the shortest timer on; else the first group. One of the
    group is sure."""
    order = sorted(exact, key=lambda t: as_number(t.value))
    groups = [
        [t for t in order[n:] if as_number(t.value) <= as_number(shortest.value) * (1 + WHEEL) + SHOWS_SLACK_S]
        for n, shortest in enumerate(order)
    ]
    groups = [group for group in groups if any(t in sure for t in group)]
    return next((group for group in groups if len(group) >= AGREE_B), groups[0] if groups else [])


def _spans(trial: Observation, best: Observation) -> bool:
    return bool(trial.detail("missed")) or spans(as_number(trial.value), as_number(best.value))
