# SPDX-License-Identifier: MIT
"""Slow start after idle: whether the window shrinks again while nothing is sent.

Question   Does a connection that was silent begin anew with its initial window?
Method     A page, acknowledged window by window, so that the window doubles and each round shows it; four seconds of
           silence; the same request again, and how much comes before an acknowledgement.
Stop when  the second answer's first window is there.
Reads as   "on" if it is clearly smaller than the largest round before. "off" if it is about as large, and larger than a
           window that restarts could be after that silence: halved for each timeout that surely passed, from the
           largest that it could have grown to.
           In a capture: "on" by an exact window after an idle second, "off" by any window, of connections in which the
           server repeated nothing (`passive/readings.py`).
Fails as   no-synack, refused, reset, closed (the server keeps no connection open), no-data, unclear:no-growth (the page
           is too short for the window to grow, or to differ from a larger one halved), unclear:retransmitted (a
           timeout shrank it), unclear:alone (no two runs agree).
Differs    from setting the knob: BBR never restarts, whatever is set, and reads "off".
Source     RFC 5681 section 4.1; RFC 2861; net/ipv4/tcp_output.c (tcp_cwnd_restart), tcp.h
(tcp_slow_start_after_idle_check, tcp_is_cwnd_limited).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from configtron.fingerprint.stream import BURST_GAP_MIN_S, BURST_GAP_RTTS, Handshake, handshake_of, is_doubled
from configtron.fingerprint.verdict import AGREE_B, count_grade, no, over, seen, yes
from configtron.model.nouns import SYN, Observation, Packet, Trace, Value

PROBES = ("idle",)
KNOBS = ("slow_start_after_idle",)
METHOD = "first window after a silence, beside the largest before"
# The window must have doubled before the silence, or nothing is seen to shrink.
GROWTH = 2.0
# A kept window shows at least this share of the largest round (a lost tail hides some), a restarted one at most that:
# it was halved once or more.
KEPT, RESTARTED = 0.8, 0.6
# It restarts from Linux's usual initial window (TCP_INIT_CWND), or from its own if that was smaller; of less than half
# of that, more was lost than a tail.
USUAL, LEAST = 10, 0.5
# Data that comes sooner than a round trip after our ACK (less some jitter) was sent unasked: rounds are no windows.
UNASKED, JITTER_S = 0.9, 0.01
# In slow start Linux grows a window that is less than twice the segments sent of it, by the segments acknowledged.
UNUSED_MOST = 3
# Where our ACK took longer, the server may have repeated its SYN-ACK and lost the round trip
# (Karn); its timeout is then anyone's guess, at least (RFC 6298 5.7) 3 s, and surely less than the silence. The
# shortest SYN-ACK timer is 0.2 s, a wheel's eighth less.
SURE_TRIP_S = 0.17
# So long a silence of a captured connection surely spans a timeout (the longest first one that is in use).
LONGEST_S = 3.0
# No timeout is longer than the round trip and its variation, but for a minimum of 1 s (RFC 6298 2.4).
MINIMUM_S = 1.0


@dataclass(slots=True)
class Rounds:
    """The rounds before and after the silence.

    before   segments heard of each window before the silence; `ends` where each ended (bytes), `holds` how long we took
             to acknowledge it (s), `answers` how long it took to begin after our ACK (s)
    after    those of the first window after it; `full` if its last one is a whole segment: else the server paused
    again    whether old data came again, or fresh data as late as a timer's
    mss      the largest segment, bytes
    idle_s   from the last data before the silence to the request that ended it
    """

    before: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    holds: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    after: int = 0
    full: bool = True
    again: bool = False
    mss: int = 1
    idle_s: float = 0.0
    frames: list[int] = field(default_factory=list)

    @property
    def sent(self) -> tuple[int, ...]:
        """Segments that each window before the silence had: as many as were heard, and those lost among them."""
        lengths = [b - a for a, b in zip([1, *self.ends], self.ends, strict=False)]
        return tuple(max(n, math.ceil(b / self.mss)) for n, b in zip(self.before, lengths, strict=True))


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Compare the first window after a silence with the largest before."""
    knob = KNOBS[0]
    opening = handshake_of(trace.packets)
    if not opening.synacks:
        return (no(knob, "refused" if opening.reset else "no-synack", trace),)
    if trace.tainted:
        return (no(knob, trace.tainted[0], trace),)
    rounds = _rounds(trace.packets, opening.rtt_s)
    details: dict[str, Value] = {"before": tuple(rounds.before), "after": rounds.after}
    if trace.ending in ("closed", "reset"):
        return (no(knob, trace.ending, trace, details=details),)
    if not rounds.before or not rounds.after:
        return (no(knob, "no-data", trace, details=details),)
    trip_s = min([*rounds.answers, *([opening.rtt_s] if opening.rtt_s is not None else [])], default=0.0)
    late_s = BURST_GAP_RTTS * trip_s + BURST_GAP_MIN_S
    largest, first = max(rounds.before), min(max(rounds.sent[0], rounds.before[0]), USUAL)
    halved = _halved(trace.packets, opening, rounds, trip_s)
    details["restarted_at_most"] = halved
    value = kept((rounds.before[0], largest), rounds.after, halved)
    if value == "off":
        return (yes(knob, value, trace, "", METHOD, "C", tuple(rounds.frames), details),)
    if rounds.again or any(answer_s > late_s for answer_s in rounds.answers) or rounds.after < LEAST * first:
        return (no(knob, "unclear:retransmitted", trace, details=details),)
    if value == "on" and rounds.full and not _unasked(opening, rounds):
        return (yes(knob, value, trace, "", METHOD, "C", tuple(rounds.frames), details),)
    return (no(knob, "unclear:no-growth", trace, details=details),)


def kept(before: tuple[int, int], after: int, restarted: float) -> str:
    """Return what windows (segments) around a silence show: "on", "off", or "" if neither.

    before     the first and the largest before it
    restarted  the largest that a restart could leave
    """
    if before[1] < GROWTH * before[0]:
        return ""
    return "off" if after > restarted and after >= KEPT * before[1] else "on" if after <= RESTARTED * before[1] else ""


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Return the value that two runs at least agree on: a loss at the end of a round can turn a single one."""
    knob = "slow_start_after_idle"
    every = trials.get(knob, ())
    exact = [t for t in every if t.grade == "C"]
    if not exact:
        return None
    counts = Counter(t.value for t in exact).most_common(2)
    value, agreeing = counts[0]
    best = next(t for t in exact if t.value == value)
    if agreeing < AGREE_B or (len(counts) > 1 and counts[1][1] == agreeing):
        return over(knob, every, None, "N", "", best.method, reason="unclear:alone", details=seen(exact))
    details: dict[str, Value] = {**dict(best.details), **(seen(exact) if len(counts) > 1 else {})}
    grade = "C" if len(counts) > 1 else count_grade(agreeing)
    return over(knob, every, value, grade, "", best.method, details=details)


def _halved(packets: Sequence[Packet], opening: Handshake, rounds: Rounds, trip_s: float) -> int:
    """Return the largest window that a server could have which halved its own for each timeout of silence
    (segments)."""
    sent = rounds.sent
    grown = sent[0] + sum(sent)
    if not _unasked(opening, rounds):
        grown = min(grown, UNUSED_MOST * max(sent))
    asked = [p for p in packets if p.way == "out" and p.segment.length and p.segment.seq == 1]
    late = opening.rtt_s is None or opening.rtt_s > SURE_TRIP_S or bool(opening.repeats(packets))
    times = 1
    if not late and len(asked) == 1:
        times = max(math.ceil((rounds.idle_s + trip_s) / _timeout_s(trip_s, rounds.holds)) - 1, 1)
    return max(grown >> times, sent[0], USUAL)


def _unasked(opening: Handshake, rounds: Rounds) -> bool:
    """Return whether the server sent at its own pace, so that a round need not be all that its window holds."""
    if opening.rtt_s is None:
        return True
    return any(answer_s < UNASKED * opening.rtt_s - JITTER_S for answer_s in rounds.answers)


def _timeout_s(trip_s: float, holds: Sequence[float]) -> float:
    """Return the longest timeout that the server's own round trips allow (RFC 6298 2.2, 2.3), in s."""
    mean_s, spread_s = trip_s, 2 * trip_s
    longest_s = mean_s + max(spread_s, MINIMUM_S)
    for hold_s in holds:
        apart_s = trip_s + hold_s - mean_s
        mean_s += apart_s / 8
        spread_s += abs(apart_s) - spread_s / 4
        longest_s = max(longest_s, mean_s + max(spread_s, MINIMUM_S))
    return longest_s


def _rounds(packets: Sequence[Packet], rtt_s: float | None) -> Rounds:
    """Read fresh segments between one segment of ours and the next; the second request begins the last round.

    Data of the silence was never acknowledged, so a timer repeats it: after the second request, too, it is old.
    """
    asks = sorted({p.segment.seq for p in packets if p.way == "out" and p.segment.length and not p.segment.flags & SYN})
    reader = _RoundReader(asks[1] if len(asks) > 1 else None, rtt_s)
    for packet in packets:
        if packet.way == "out":
            reader.sent(packet)
        elif packet.segment.length > 0 and not packet.segment.flags & SYN:
            reader.heard(packet)
    reader.rounds.after = len(reader.fresh) if reader.second else 0
    return reader.rounds


class _RoundReader:
    """A conversation read packet by packet.

    ask      the sequence number of the second request (None: there is none); `second`: it was sent
    fresh    first sequence numbers of the round's segments; `edge` the highest byte we acknowledged, `end` the highest
    byte received
    times    when each sequence number was heard last; `began_at` the round, `heard_at` data, `spoke_at` we (s)
    """

    def __init__(self, ask: int | None, rtt_s: float | None) -> None:
        self.rounds = Rounds()
        self.ask, self.rtt_s = ask, rtt_s
        self.second = False
        self.fresh: set[int] = set()
        self.edge = self.end = 1
        self.times: dict[int, float] = {}
        self.began_at = self.heard_at = self.spoke_at = 0.0

    def sent(self, packet: Packet) -> None:
        """Close a round by our segment."""
        segment, rounds = packet.segment, self.rounds
        asked = segment.length > 0 and segment.seq == self.ask and not self.second
        rounds.again |= asked and bool(self.fresh)
        if self.fresh and not self.second:
            rounds.before.append(len(self.fresh))
            rounds.ends.append(self.end)
            rounds.holds.append(packet.at - self.began_at)
            self.fresh = set()
        if asked:
            self.second, rounds.idle_s = True, packet.at - self.heard_at
        self.edge, self.spoke_at = max(self.edge, segment.ack), packet.at

    def heard(self, packet: Packet) -> None:
        """Add a data segment of the server to the round, or note that it is old."""
        segment, rounds = packet.segment, self.rounds
        rounds.mss = max(rounds.mss, segment.length)
        self.heard_at = packet.at if not self.second else self.heard_at
        before = self.times.get(segment.seq)
        self.times[segment.seq] = packet.at
        if segment.seq < self.edge or self.second and before is not None:
            rounds.again |= before is None or not is_doubled(packet.at - before, self.rtt_s)
            return
        if not self.fresh:
            self.began_at = packet.at
            rounds.answers += [packet.at - self.spoke_at] * (self.edge > 1 and not self.second)
        self.fresh.add(segment.seq)
        rounds.full = segment.length >= rounds.mss if segment.end > self.end else rounds.full
        self.end = max(self.end, segment.end)
        rounds.frames += [packet.frame] * self.second
