# SPDX-License-Identifier: MIT
"""Proofs of a window, and doubts about a proof: two tables of small named tests.

We withheld every ACK until the server's flight had ended; then we sent one ACK. `PROOFS` lists the ways in which such
a conversation can end: the first row that holds is the verdict's proof. If the proof shows the window (its effect is
not BOUND), `DOUBTS` are tried too: the first row that holds replaces the proof. The effect of the row that decides is
the kind of the verdict: EXACT (grade C), BOUND (a lower bound) or SUPPORT (a lower bound that may confirm another run's
exact proof of the same number: `agreement.py`). `again`: another trial may end in another way, so one is worth while.

Rules for this file: pure, total; one test a row, and no row knows another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from configtron.fingerprint.stream import BURST_GAP_RTTS, Flight, Handshake
from configtron.fingerprint.withheld import WithheldFlight, sack_agreed
from configtron.model.nouns import FIN, PSH, SYN, Packet, Trace

# The MSS of a SYN without the option (RFC 9293 3.7.1).
DEFAULT_MSS = 536
# If the handshake took this much longer than the request's round trip, we heard a SYN-ACK that a timer had repeated.
# The shortest such timer is 0.2 s; the kernel's timer wheel may take an eighth off.
SYNACK_LOST_S = 0.17
# Fresh data that our ACK released comes one round trip after it: a quarter less or more for jitter, 10 ms for a busy
# host. At any other time the server sent by itself.
PROMPT_FROM, PROMPT_TO, PROMPT_SLACK_S = 0.75, 1.25, 0.01
# A retransmission timer waits a round trip and at least 0.2 s or two round trips more. The flight and our ACK take one
# round trip, so an ACK that leaves within the rest arrives before the timer. After a later ACK silence proves nothing:
# the timer's copies may be lost.
TIMER_MIN_S, TIMER_RTTS = 0.2, 2.0
# After a retransmission timeout of silence a server begins with the restart window (RFC 5681 4.1), which is at most the
# initial window. Linux takes the route's initial window for it and ignores the socket's. The timeout is a round trip
# and at least 0.2 s or two round trips more (tcp_rtt_estimator); the tenth that we take off is the margin.
IDLE_MIN_S, IDLE_RTTS = 0.18, 1.8
# Data that fills a gap this soon (in round trips) after a later segment was reordered, not retransmitted. After a
# retransmission the server has halved its window or more (RFC 5681 3.2), so the window is only a bound.
OVERTAKEN_RTTS = 0.5
# If the oldest segment is in flight for longer than this (in round trips), Linux may wait for its ACK before it sends
# the last segment that the window has room for (tcp_tso_should_defer).
DEFER_RTTS = 0.5
# A tail loss probe comes after two round trips (tcp_schedule_loss_probe). Tolerance: a twentieth less; an eighth and
# two ticks of a 100 Hz kernel more. After a single segment the server allows for a delayed ACK, and the probe comes
# when the retransmission timer would: after a round trip and at least 0.2 s or two round trips more.
PROBE_FROM, PROBE_TO, PROBE_SLACK_S = 0.95, 1.125, 0.03
# We stretch the first round trip. Later in a conversation the server may have measured shorter ones, so its probe may
# come as soon as two ticks of a 1000 Hz kernel after the flight (TCP_TIMEOUT_MIN); a quarter less is the margin.
PROBE_SOONEST_S = 0.0015
# Timestamps take these bytes of each segment (RFC 7323, with padding).
TIMESTAMPS_BYTES = 12
# The largest shift that counts (RFC 7323 2.3).
SHIFT_MOST = 14
# Our receive window may have stopped the server if it had room for less than this many further segments.
WINDOW_MARGIN_SEGMENTS = 1
# Vantage of a trace that comes from a capture, not from a probe (`passive/traces.py`).
CAPTURE = "capture"
# A client that follows RFC 9293 3.8.6.3 acknowledges several segments sooner than this (s).
SILENT_S = 0.06
# A probe sends its ACK after the pause that ends a burst. Clock errors shorten that pause by a hundredth at most.
SILENT_SHARE = 0.99


@dataclass(frozen=True, slots=True)
class WindowEvidence:
    """One conversation as the tests see it; lengths in bytes, times in s.

    start, base   index of the packet with our request; first sequence number of the answer
    initial       this is the first flight of the connection, so a repeated SYN-ACK may have changed its window
    offered       the MSS that we offered; mss: the size of a full segment; largest: the largest size that is possible
    edge          the end of the flight, including a lost tail
    fresh         the data after our ACK
    holes         lengths of the gaps in the flight
    """

    trace: Trace
    opening: Handshake
    held: WithheldFlight
    start: int
    base: int
    initial: bool
    offered: int
    mss: int
    largest: int
    edge: int
    holes: tuple[int, ...]
    fresh: FreshData

    @property
    def packets(self) -> Sequence[Packet]:
        """All packets of the trace."""
        return self.trace.packets

    @property
    def flight(self) -> Flight:
        """The flight that came while every ACK was withheld."""
        return self.held.flight

    @property
    def rtt_s(self) -> float:
        """The flight's round trip (s); 0 if unknown."""
        return self.flight.rtt_s or 0.0

    @property
    def whole(self) -> int:
        """The size that a lost segment counts as: `mss` if two segments had it or none was lost, else `largest`."""
        flight = self.flight
        return self.mss if flight.sizes().count(self.mss) > 1 or not flight.holes() else self.largest

    @property
    def captured(self) -> bool:
        """Return whether the trace comes from a capture of other people's connections."""
        return self.trace.vantage == CAPTURE

    @property
    def uneven_holes(self) -> bool:
        """Return whether a gap is larger than a full segment and no multiple of it."""
        return any(hole > self.mss and hole % self.mss for hole in self.holes)

    @property
    def retried(self) -> bool:
        """Return whether the handshake was repeated, so that the server may have begun with another window."""
        opening, repeats, flight = self.opening, self.opening.repeats(self.packets), self.flight
        # If the handshake took so much longer than a round trip, we heard the second copy of the SYN-ACK.
        lost = opening.rtt_s is not None and flight.sampled and opening.rtt_s - self.rtt_s > SYNACK_LOST_S
        return self.initial and (bool(repeats) or len(opening.syns) > 1 or lost)


class FreshData(NamedTuple):
    """The packet that shows why the flight ended: the first with fresh data, with a FIN, or fresh at the wrong time.

    came       whether such a packet came
    prompt     whether it came one round trip after an ACK of ours; True if none came
    follows    whether it carries data, and no byte between the flight and it is missing
    acked_s    from the flight's last packet to our first ACK (s)
    """

    came: bool = False
    prompt: bool = True
    follows: bool = False
    acked_s: float = math.inf


def fresh_data(packets: Sequence[Packet], held: WithheldFlight) -> FreshData:
    """Return the data after our ACK that show why the flight ended."""
    flight, rtt_s = held.flight, held.flight.rtt_s
    acks: list[float] = []
    for packet in packets[held.at :]:
        if packet.way == "out" and packet.segment.ack >= flight.end:
            acks.append(packet.at)
        if packet.way == "out" or not acks or rtt_s is None or packet.segment.end <= flight.end:
            continue
        prompt = any(_is_prompt(packet.at - at, rtt_s) for at in acks)
        # A tail loss probe shows where the flight ends. Without one, a gap behind the flight may be its lost tail.
        follows = packet.segment.length > 0 and (packet.segment.seq <= flight.end or held.stop == "edge")
        if not prompt or follows or packet.segment.flags & FIN:
            return FreshData(True, prompt, follows, acks[0] - flight.last_at)
    return FreshData()


def _response_ended(evidence: WindowEvidence) -> bool:
    """Return whether the response ended with the flight."""
    return evidence.held.stop == "rst" or evidence.flight.fin_at_seq is not None


def _before_timer(evidence: WindowEvidence) -> bool:
    """Return whether our ACK left before any timer of the server could fire, and brought fresh data.

    A server with more to send and room in its window would have sent it: the window was full.
    """
    in_time = evidence.fresh.acked_s < max(TIMER_MIN_S, TIMER_RTTS * evidence.rtt_s)
    return evidence.fresh.follows and in_time and evidence.held.stop == "quiet"


def _no_round_trip(evidence: WindowEvidence) -> bool:
    """Return whether the server had no first round-trip sample: it repeated the handshake without timestamps."""
    synack = evidence.packets[evidence.opening.synacks[0]].segment
    return evidence.retried and synack.timestamps is None


def _was_idle(evidence: WindowEvidence) -> bool:
    """Return whether the server was silent for a retransmission timeout at any time before its flight."""
    packets, began_at, rtt_s = evidence.packets, evidence.flight.began_at, evidence.rtt_s
    data_at = [p.at for p in packets[: evidence.start] if p.way == "in" and p.segment.length]
    times = [packets[evidence.opening.synacks[-1]].at, *data_at, *([] if began_at is None else [began_at])]
    longest_s = max((b - a for a, b in zip(times, times[1:], strict=False)), default=0.0)
    return longest_s > rtt_s + max(IDLE_MIN_S, IDLE_RTTS * rtt_s)


def _retransmitted(evidence: WindowEvidence) -> bool:
    """Return whether the server retransmitted before its flight: bytes came twice, filled a gap, or came late.

    Data is in time if it comes one round trip after a packet of ours. A lost tail comes later than that, and we see it
    only once and without a gap.
    """
    before, rtt_s = evidence.packets[: evidence.start], evidence.rtt_s
    highest, gap_at = 0, math.inf
    sent_at = [p.at for p in before if p.way == "out"]
    last_at = -math.inf
    for packet in before:
        segment = packet.segment
        if packet.way == "out" or segment.flags & SYN:
            continue
        if not segment.length:
            # The sequence number of a pure ACK shows how much the server has sent: bytes below it are lost.
            highest, gap_at = (segment.seq, -math.inf) if segment.seq > highest > 0 else (highest, gap_at)
            continue
        if segment.seq < highest and packet.at - gap_at > OVERTAKEN_RTTS * rtt_s:
            return True
        if packet.at - last_at > PROMPT_SLACK_S and not any(_is_prompt(packet.at - at, rtt_s) for at in sent_at):
            return True
        gap_at = packet.at if segment.seq > highest > 0 or segment.end > highest else gap_at
        last_at, highest = packet.at, max(highest, segment.end)
    return False


def _window_limited(evidence: WindowEvidence) -> bool:
    """Return whether our own receive window may have stopped the server."""
    sent = evidence.edge - evidence.base + WINDOW_MARGIN_SEGMENTS * evidence.mss
    return sent > _window(evidence.packets, evidence.opening, evidence.start)


def _uneven(evidence: WindowEvidence) -> bool:
    """Return whether the server paused by itself: then a tail loss probe looks like the next segment of the flight."""
    return may_hide_a_probe(evidence) or (evidence.held.stop == "edge" and evidence.flight.paused)


def _held_back(evidence: WindowEvidence) -> bool:
    """Return whether Linux may have deferred the last segment (`DEFER_RTTS`): a slow flight with short segments."""
    flight = evidence.flight
    pieces = sum(size < evidence.mss for size in flight.sizes()[:-1])
    slow = flight.last_at - (flight.began_at or 0.0) > DEFER_RTTS * evidence.rtt_s
    return slow and pieces > 1 and evidence.held.stop != "rto"


def _holes_in_small_writes(evidence: WindowEvidence) -> bool:
    """Return whether the number of lost segments is uncertain."""
    return evidence.uneven_holes or evidence.whole > evidence.mss


def _came_as_a_probe(evidence: WindowEvidence) -> bool:
    """Return whether the segment behind the flight came when a tail loss probe would; else it is new data."""
    flight, rtt_s = evidence.flight, evidence.rtt_s
    due_s = rtt_s + max(TIMER_MIN_S, TIMER_RTTS * rtt_s) if len(flight.pieces) == 1 else 2 * rtt_s
    after_s = -math.inf if flight.lone is None else flight.lone.at - flight.last_at
    return PROBE_FROM * due_s <= after_s <= PROBE_TO * due_s + PROBE_SLACK_S


def may_hide_a_probe(evidence: WindowEvidence) -> bool:
    """Return whether the flight may contain a tail loss probe, which would count as one segment too many.

    Four cases. The server paused by itself: a probe, which comes no later than the retransmission timer
    (tcp_schedule_loss_probe), looks like the next segment. Only the handshake shows the round trip: a SYN-ACK timer
    may have lengthened it, and with it the time that a burst may last. One segment came and it is not the first: the
    rest of the flight may be lost. The last segment of a later flight came two round trips after the one before it.
    """
    flight, stop = evidence.flight, evidence.held.stop
    unsure = not flight.sampled and (flight.rtt_s or math.inf) > SYNACK_LOST_S
    orphan = len(flight.pieces) == 1 and flight.base not in flight.pieces
    apart_s = max(PROBE_FROM * 2 * evidence.rtt_s, PROBE_SOONEST_S)
    alone = flight.base > 1 and len(flight.pieces) > 1 and flight.tail_gap_s >= apart_s
    sack = sack_agreed(evidence.packets, evidence.opening)
    return sack and stop != "edge" and (flight.uneven or unsure or orphan or alone)


def _client_spoke(evidence: WindowEvidence) -> bool:
    """Return whether the client sent data before the fresh data that the server's flight does not acknowledge."""
    at, end = evidence.held.at, evidence.flight.end
    ours, heard = list[int](), list[int]()
    for n, packet in enumerate(evidence.packets):
        segment = packet.segment
        if packet.way == "in":
            beyond = segment.end > end
            if beyond and n >= at:
                break
            if segment.length and not beyond:
                heard.append(segment.ack)
        elif segment.length and not segment.flags & SYN:
            ours.append(segment.end)
    # If the SYN does not precede the client's data in sequence space, relative numbers are negative: such data is none.
    return bool(heard) and max(ours, default=0) > max(heard)


def _pushed(evidence: WindowEvidence) -> bool:
    """Return whether the last segment of the flight pushes."""
    ends = [p.segment.flags for p in evidence.packets if p.way == "in" and p.segment.end == evidence.flight.edge]
    return bool(ends and ends[0] & PSH)


def cut_into_full(evidence: WindowEvidence) -> bool:
    """Return whether the window ended the flight, not a short write: its last segment and the fresh data are full.

    A server with queued data sends full segments. A short segment without a FIN was written later, or Nagle's algorithm
    (RFC 896) held it and all data behind it until the ACK. Lost segments count as full. If the last segment is short, a
    full tail loss probe at its due time shows that data was queued.

    A full segment has the MSS that the client offers, or the server's if that is smaller. In a conversation of our own
    probe, where merged frames are recognised, it may also have the larger size that we saw. Earlier segments may be
    short if the server stayed silent until a late ACK. In a capture the bytes must also give the same number of
    segments, since no trial with another MSS follows.
    """
    packets, held, opening = evidence.packets, evidence.held, evidence.opening
    server_mss = packets[opening.synacks[0]].segment.mss or DEFAULT_MSS
    flight, cap, stamps = held.flight, segment_limit(packets, opening), _timestamp_bytes(packets, opening)
    fresh = next((p.segment for p in packets[held.at :] if p.way == "in" and p.segment.end > flight.end), None)
    if fresh is None:
        return False
    sizes = [*flight.sizes(), *([] if flight.lone is None else [flight.lone.segment.length])]
    ack_at = next((p.at for p in packets[held.at :] if p.way == "out" and p.segment.ack >= flight.end), flight.last_at)
    silent = ack_at - flight.last_at > SILENT_SHARE * max(BURST_GAP_RTTS * (flight.rtt_s or 0.0), SILENT_S)
    larger = [evidence.mss] if evidence.mss > evidence.offered and not evidence.captured else []
    for full in {cap, max(min(cap, server_mss - stamps), 1), *larger}:
        if (fresh.length < full and not fresh.flags & FIN) or sizes[-1] % full:
            continue
        if flight.lone is not None and flight.sizes()[-1] % full and not _came_as_a_probe(evidence):
            continue
        span = sum(sizes) + sum(flight.holes())
        lost = sum(math.ceil(hole / full) for hole in flight.holes())
        counted = not evidence.captured or math.ceil(span / full) == len(sizes) + lost
        if not any(size % full for size in sizes) or (silent and counted):
            return True
    return False


def segment_limit(packets: Sequence[Packet], opening: Handshake) -> int:
    """Return the largest segment (bytes) that the client offers to take, less timestamps if both sides use them."""
    offered = (packets[opening.syns[0]].segment.mss if opening.syns else None) or DEFAULT_MSS
    return max(offered - _timestamp_bytes(packets, opening), 1)


def _timestamp_bytes(packets: Sequence[Packet], opening: Handshake) -> int:
    both = (*opening.syns[:1], *opening.synacks[:1])
    return TIMESTAMPS_BYTES if all(packets[i].segment.timestamps is not None for i in both) else 0


def _window(packets: Sequence[Packet], opening: Handshake, start: int) -> int:
    """Return the receive window (bytes) that our request offered, scaled if both sides offered window scaling."""
    ours = packets[opening.syns[0]].segment.wscale if opening.syns else None
    theirs = packets[opening.synacks[0]].segment.wscale
    window = next((p.segment.window for p in packets[start:] if p.way == "out" and not p.segment.flags & SYN), 65535)
    return window << min(ours, SHIFT_MOST) if ours is not None and theirs is not None else window


def _is_prompt(after_s: float, rtt_s: float) -> bool:
    return PROMPT_FROM * rtt_s - PROMPT_SLACK_S <= after_s <= PROMPT_TO * rtt_s + PROMPT_SLACK_S


# The name of the doubt that a short write ended the flight.
SHORT_END = "short-end"
# Effects on the verdict: an exact value; a lower bound that may support an exact run; a lower bound.
EXACT, SUPPORT, BOUND = "exact", "support", "bound"


class WindowTest(NamedTuple):
    """A row of `PROOFS` (how a conversation ended) or of `DOUBTS` (why the proof may show less than the window)."""

    name: str
    holds: Callable[[WindowEvidence], bool]
    effect: str
    again: bool


# In order of precedence; the last one always holds.
PROOFS = (
    WindowTest("response-ended", _response_ended, BOUND, again=False),
    # The server went on by itself, not because of our ACK.
    WindowTest("server-paced", lambda one: not one.fresh.prompt, BOUND, again=True),
    # A tail loss probe showed the edge, and our ACK brought fresh data.
    WindowTest("edge", lambda one: one.fresh.follows and one.held.stop == "edge", EXACT, again=False),
    WindowTest("before-timer", _before_timer, EXACT, again=False),
    # After a timeout the window is one segment. So data that was written meanwhile, too, waits for our ACK.
    WindowTest("after-timer", lambda one: one.fresh.follows, SUPPORT, again=True),
    # Our ACK brought the end of the response, and no data.
    WindowTest("exact-fit", lambda one: one.fresh.came, BOUND, again=False),
    WindowTest("unverified", lambda one: True, BOUND, again=True),
)
DOUBTS = (
    WindowTest("no-round-trip", _no_round_trip, SUPPORT, again=True),
    WindowTest("after-idle", _was_idle, SUPPORT, again=True),
    WindowTest("after-loss", _retransmitted, SUPPORT, again=True),
    WindowTest("window-limited", _window_limited, BOUND, again=False),
    WindowTest("uneven", _uneven, BOUND, again=True),
    WindowTest("holes-in-small-writes", _holes_in_small_writes, BOUND, again=True),
    WindowTest("client-data", _client_spoke, BOUND, again=False),
    # In a capture, a stack that has no more to send pushes its last segment (RFC 9293 3.9.1.2).
    WindowTest("server-paced", lambda one: one.captured and _pushed(one), BOUND, again=False),
    # The next row's test, for a capture: no trial with another MSS can confirm it, so it is a bound.
    WindowTest("short-segment", lambda one: one.captured and not cut_into_full(one), BOUND, again=False),
    # A short write may have ended the flight, not the window.
    WindowTest(SHORT_END, lambda one: not cut_into_full(one), SUPPORT, again=True),
    WindowTest("held-back", _held_back, SUPPORT, again=True),
)
# Rows whose bound may support an exact run of the same number; rows that another trial may improve on.
SUPPORTS = frozenset(row.name for row in (*PROOFS, *DOUBTS) if row.effect == SUPPORT)
BETTERED = frozenset(row.name for row in (*PROOFS, *DOUBTS) if row.again)


def judged(evidence: WindowEvidence) -> tuple[str, str]:
    """Return (name, effect) of the row that decides: the proof, or the first doubt if the proof shows the window."""
    proof = next(row for row in PROOFS if row.holds(evidence))
    if proof.effect == BOUND:
        return proof.name, proof.effect
    doubt = next((row for row in DOUBTS if row.holds(evidence)), proof)
    return doubt.name, doubt.effect
