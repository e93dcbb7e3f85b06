# SPDX-License-Identifier: MIT
"""Proofs of a window, and doubts about a proof: two tables of small named tests.

A flight came while every ACK was withheld; then one ACK was sent. `PROOFS` are the ways in which such a conversation
can end, in the order in which they are tried: the first that holds is the verdict's proof. `DOUBTS` are tried after
a proof that shows the window (its effect is not BOUND): the first that holds takes the proof's place. An effect makes
the verdict one of three: EXACT (grade C), SUPPORT (a lower bound, which may count for another run's exact proof of the
same number: `agreement.py`), BOUND (a lower bound). `again`: another trial may end otherwise, so it is worth one.

Rules for this file: pure, total; one test a row, and no row knows another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from configtron.fingerprint.stream import BURST_GAP_RTTS, Flight, Handshake
from configtron.fingerprint.withheld import WithheldFlight, sack_agreed
from configtron.model.nouns import FIN, SYN, Packet, Trace

# The MSS of a SYN without the option (RFC 9293 3.7.1).
DEFAULT_MSS = 536
# A handshake that took this much longer than the request's acknowledgement shows a SYN-ACK timer, not the path: the
# smallest class is 0.2 s, less the wheel's eighth.
SYNACK_LOST_S = 0.17
# Fresh data that the ACK let out comes one round trip later; a quarter less or more for jitter, 10 ms for a busy host.
# Data at any other time was let out by the server itself.
PROMPT_FROM, PROMPT_TO, PROMPT_SLACK_S = 0.75, 1.25, 0.01
# That no timer fired before our ACK arrived is sure only if it left within the shortest wait of one, less a round trip
# for both ways: 0.2 s, or two round trips. A later silence may be the timer's copies lost.
TIMER_MIN_S, TIMER_RTTS = 0.2, 2.0
# A server that sent nothing for a retransmission timeout begins with the restart window (RFC 5681 4.1), which is the
# initial one or less: Linux takes the route's, whatever the socket was given. The timeout is a round trip and at least
# 0.2 s or two round trips more (tcp_rtt_estimator), here a tenth less to be sure.
IDLE_MIN_S, IDLE_RTTS = 0.18, 1.8
# Data that fills a gap within this share of a round trip after the segment that overtook it was no repeat. After a
# repair the window is that of a loss, half or less (RFC 5681 3.2), and so only a bound.
OVERTAKEN_RTTS = 0.5
# Once its oldest segment has been under way for so long, Linux waits for the ACK before it sends the last segment that
# the window has room for (tcp_tso_should_defer).
DEFER_RTTS = 0.5
# A tail loss probe comes after two round trips (tcp_schedule_loss_probe), here a twentieth less or an eighth and two
# ticks of a 100 Hz kernel more. After a single segment it waits for a late acknowledgement too, and so comes when the
# retransmission timer would: a round trip and at least 0.2 s or two round trips more.
PROBE_FROM, PROBE_TO, PROBE_SLACK_S = 0.95, 1.125, 0.03
# After a conversation a server's own round trips may be shorter than the first, which we stretch: its probe comes two
# ticks of a 1000 Hz kernel after the flight at the soonest (TCP_TIMEOUT_MIN), here a quarter less: within a burst.
PROBE_SOONEST_S = 0.0015
# No path is narrower than this unless the client's MSS names it (RFC 8200 section 5, less headers); timestamps take
# their part of each segment (RFC 7323, with padding).
PATH_MSS_MIN, TIMESTAMPS_BYTES = 1220, 12
# An unscaled window this close to full (in segments) may have stopped the server.
WINDOW_MARGIN_SEGMENTS = 1
# Vantage of a trace that comes from a capture, not from a probe (`passive/traces.py`).
CAPTURE = "capture"
# A client that follows RFC 9293 3.8.6.3 acknowledges several segments sooner than this (s).
SILENT_S = 0.06
# A probe's ACK waits for the pause that ends a burst; clocks take a hundredth of it at most.
SILENT_SHARE = 0.99


@dataclass(frozen=True, slots=True)
class WindowEvidence:
    """One conversation as the tests see it; lengths in bytes, times in s.

    start, base   the packet (index) from which on we asked, and the first sequence number of the answer
    initial       nothing was acknowledged before, so the effect of a repeated SYN-ACK on the window matters
    offered       the MSS that we offered; mss: the size of a full segment; largest: no segment can be larger than that
    edge          the end of the flight, with the bytes of its tail that were lost
    fresh         what came after our ACK
    holes         lengths of the gaps in the flight; uneven_holes: one is no multiple of a full segment
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
        """The size of a lost segment: a full one if two of that size were heard or none was lost, else the largest."""
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
        # The handshake took so much longer than the path that we heard the SYN-ACK's second copy.
        lost = opening.rtt_s is not None and flight.sampled and opening.rtt_s - self.rtt_s > SYNACK_LOST_S
        return self.initial and (bool(repeats) or len(opening.syns) > 1 or lost)


class FreshData(NamedTuple):
    """The first packet that shows why the flight ended: fresh data, a FIN, or anything fresh at a wrong time.

    came       there is one
    prompt     it came a round trip after an ACK of ours, if it did
    follows    it carries data, and nothing between the flight and it is missing
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
        prompt = any(_prompt(packet.at - at, rtt_s) for at in acks)
        # A probe has shown the edge, whatever is lost behind it; without one, a gap there may be the flight's own tail.
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
    """Return whether the handshake was repeated and had no timestamps: the server had no round trip to begin with."""
    synack = evidence.packets[evidence.opening.synacks[0]].segment
    return evidence.retried and synack.timestamps is None


def _was_idle(evidence: WindowEvidence) -> bool:
    """Return whether the server was silent for a retransmission timeout before its flight, or earlier."""
    packets, began_at, rtt_s = evidence.packets, evidence.flight.began_at, evidence.rtt_s
    spoke = [p.at for p in packets[: evidence.start] if p.way == "in" and p.segment.length]
    times = [packets[evidence.opening.synacks[-1]].at, *spoke, *([] if began_at is None else [began_at])]
    longest_s = max((b - a for a, b in zip(times, times[1:], strict=False)), default=0.0)
    return longest_s > rtt_s + max(IDLE_MIN_S, IDLE_RTTS * rtt_s)


def _was_repaired(evidence: WindowEvidence) -> bool:
    """Return whether the server repaired a loss before its flight: bytes came again, or a timer's time late.

    Data within a round trip of a packet of ours is in time; a tail that was lost comes later, once, and leaves no gap.
    """
    before, rtt_s = evidence.packets[: evidence.start], evidence.rtt_s
    reach, over = 0, math.inf
    spoke = [p.at for p in before if p.way == "out"]
    last_at = -math.inf
    for packet in before:
        segment = packet.segment
        if packet.way == "out" or segment.flags & SYN:
            continue
        if not segment.length:
            # An acknowledgement shows how far the server has come: earlier bytes that have not arrived are lost.
            reach, over = (segment.seq, -math.inf) if segment.seq > reach > 0 else (reach, over)
            continue
        if segment.seq < reach and packet.at - over > OVERTAKEN_RTTS * rtt_s:
            return True
        if packet.at - last_at > PROMPT_SLACK_S and not any(_prompt(packet.at - at, rtt_s) for at in spoke):
            return True
        over = packet.at if segment.seq > reach > 0 or segment.end > reach else over
        last_at, reach = packet.at, max(reach, segment.end)
    return False


def _window_limited(evidence: WindowEvidence) -> bool:
    """Return whether our own receive window may have stopped the server."""
    sent = evidence.edge - evidence.base + WINDOW_MARGIN_SEGMENTS * evidence.mss
    return sent > _window(evidence.packets, evidence.opening, evidence.start)


def _uneven(evidence: WindowEvidence) -> bool:
    """Return whether the server paused by itself, so that a tail loss probe looks like its own next segment."""
    return may_hide_a_probe(evidence) or (evidence.held.stop == "edge" and evidence.flight.paused)


def _held_back(evidence: WindowEvidence) -> bool:
    """Return whether the server may have held back a segment that the window had room for: behind a head in pieces."""
    flight = evidence.flight
    pieces = sum(size < evidence.mss for size in flight.sizes()[:-1])
    slow = flight.last_at - (flight.began_at or 0.0) > DEFER_RTTS * evidence.rtt_s
    return slow and pieces > 1 and evidence.held.stop != "rto"


def _holes_in_small_writes(evidence: WindowEvidence) -> bool:
    """Return whether the number of lost segments is not certain."""
    return evidence.uneven_holes or evidence.whole > evidence.mss


def _came_as_a_probe(evidence: WindowEvidence) -> bool:
    """Return whether the lone segment came when a tail loss probe does; else it is the server's next data."""
    flight, rtt_s = evidence.flight, evidence.rtt_s
    due_s = rtt_s + max(TIMER_MIN_S, TIMER_RTTS * rtt_s) if len(flight.pieces) == 1 else 2 * rtt_s
    after_s = -math.inf if flight.lone is None else flight.lone.at - flight.last_at
    return PROBE_FROM * due_s <= after_s <= PROBE_TO * due_s + PROBE_SLACK_S


def may_hide_a_probe(evidence: WindowEvidence) -> bool:
    """Return whether a tail loss probe, one segment more, may stand among the server's own.

    It may where the server paused by itself: the probe comes at the retransmission timer's time where that is sooner
    (tcp_schedule_loss_probe), and looks like the next segment. It may also where the round trip is not known from the
    request, since a SYN-ACK's timer in its place makes the burst seem longer than it was; where a single segment came
    and not the first, for the flight may have been lost whole; and where the last piece of a flight that follows a
    conversation stands as far from the others as two of the path's round trips.
    """
    flight, stop = evidence.flight, evidence.held.stop
    unsure = not flight.sampled and (flight.rtt_s or math.inf) > SYNACK_LOST_S
    orphan = len(flight.pieces) == 1 and flight.base not in flight.pieces
    apart_s = max(PROBE_FROM * 2 * evidence.rtt_s, PROBE_SOONEST_S)
    alone = flight.base > 1 and len(flight.pieces) > 1 and flight.tail_gap_s >= apart_s
    sack = sack_agreed(evidence.packets, evidence.opening)
    return sack and stop != "edge" and (flight.uneven or unsure or orphan or alone)


def _client_spoke(evidence: WindowEvidence) -> bool:
    """Return whether the client sent data, before fresh data came, that the server's flight does not acknowledge."""
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
    # A client whose SYN had another number than its data counts from below zero.
    return bool(heard) and max(ours, default=0) > max(heard)


def cut_into_full(evidence: WindowEvidence) -> bool:
    """Return whether the flight ended, and fresh data came, in full segments: the window and no short write ended it.

    A server with a queue sends full segments. A short one that no FIN ends was written later, or Nagle's algorithm held
    it back until the ACK (RFC 896), and with it all that was written behind it. Lost segments count as full. After a
    short last segment, a tail loss probe shows a queue if it is full and came when one does.

    Full is the size that the client offers to take, or the server's own offer if that is smaller; of a probe, which
    knows merged frames, also a larger one that was heard. Short segments before the last are admitted if the server
    stayed silent until a late ACK; of a stranger's connection only if counting bytes gives the same number of segments,
    since no trial asks it again at another size.
    """
    packets, held, opening = evidence.packets, evidence.held, evidence.opening
    theirs = packets[opening.synacks[0]].segment.mss or DEFAULT_MSS
    flight, cap, stamps = held.flight, segment_limit(packets, opening), _stamps(packets, opening)
    fresh = next((p.segment for p in packets[held.at :] if p.way == "in" and p.segment.end > flight.end), None)
    if fresh is None:
        return False
    sizes = [*flight.sizes(), *([] if flight.lone is None else [flight.lone.segment.length])]
    ours = next((p.at for p in packets[held.at :] if p.way == "out" and p.segment.ack >= flight.end), flight.last_at)
    silent = ours - flight.last_at > SILENT_SHARE * max(BURST_GAP_RTTS * (flight.rtt_s or 0.0), SILENT_S)
    raised = [evidence.mss] if evidence.mss > evidence.offered and not evidence.captured else []
    for full in {cap, max(min(cap, theirs - stamps), 1), *raised}:
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
    return max(offered - _stamps(packets, opening), 1)


def _stamps(packets: Sequence[Packet], opening: Handshake) -> int:
    both = (*opening.syns[:1], *opening.synacks[:1])
    return TIMESTAMPS_BYTES if all(packets[i].segment.timestamps is not None for i in both) else 0


def _window(packets: Sequence[Packet], opening: Handshake, start: int) -> int:
    """Return bytes we allowed the server while holding: our last window before data, scaled if both sides agreed to
    scale."""
    ours = packets[opening.syns[0]].segment.wscale if opening.syns else None
    theirs = packets[opening.synacks[0]].segment.wscale
    window = next((p.segment.window for p in packets[start:] if p.way == "out" and not p.segment.flags & SYN), 65535)
    return window << ours if ours is not None and theirs is not None else window


def _prompt(after_s: float, rtt_s: float) -> bool:
    return PROMPT_FROM * rtt_s - PROMPT_SLACK_S <= after_s <= PROMPT_TO * rtt_s + PROMPT_SLACK_S


# The name of the doubt that a short write ended the flight.
SHORT_END = "short-end"
# The effects on the verdict: a value; a bound that supports an exact run of the same number; a bound.
EXACT, SUPPORT, BOUND = "exact", "support", "bound"


class WindowTest(NamedTuple):
    """A row of `PROOFS`: how a conversation ended; or of `DOUBTS`: why a proof may not show the whole window."""

    name: str
    holds: Callable[[WindowEvidence], bool]
    effect: str
    again: bool


# In order of precedence; the last one always holds.
PROOFS = (
    WindowTest("response-ended", _response_ended, BOUND, again=False),
    # The server sent on by itself, not because of our ACK.
    WindowTest("server-paced", lambda one: not one.fresh.prompt, BOUND, again=True),
    # A tail loss probe showed the edge, and our ACK brought fresh data.
    WindowTest("edge", lambda one: one.fresh.follows and one.held.stop == "edge", EXACT, again=False),
    WindowTest("before-timer", _before_timer, EXACT, again=False),
    # After a timeout the window is one segment, and data written meanwhile waits for our ACK as well.
    WindowTest("after-timer", lambda one: one.fresh.follows, SUPPORT, again=True),
    # Our ACK brought the end of the response, and no data.
    WindowTest("exact-fit", lambda one: one.fresh.came, BOUND, again=False),
    WindowTest("unverified", lambda one: True, BOUND, again=True),
)
DOUBTS = (
    WindowTest("no-round-trip", _no_round_trip, SUPPORT, again=True),
    WindowTest("after-idle", _was_idle, SUPPORT, again=True),
    WindowTest("after-loss", _was_repaired, SUPPORT, again=True),
    WindowTest("window-limited", _window_limited, BOUND, again=False),
    WindowTest("uneven", _uneven, BOUND, again=True),
    WindowTest("holes-in-small-writes", _holes_in_small_writes, BOUND, again=True),
    WindowTest("client-data", _client_spoke, BOUND, again=False),
    # The same as the last, of a stranger's connection, whose segments no trial at another size confirms.
    WindowTest("short-segment", lambda one: one.captured and not cut_into_full(one), BOUND, again=False),
    # A short write, and not the window, may have ended the flight.
    WindowTest(SHORT_END, lambda one: not cut_into_full(one), SUPPORT, again=True),
    WindowTest("held-back", _held_back, SUPPORT, again=True),
)
# Bounds that may support an exact run of the same number, and bounds that another trial may better.
SUPPORTS = frozenset(row.name for row in (*PROOFS, *DOUBTS) if row.effect == SUPPORT)
BETTERED = frozenset(row.name for row in (*PROOFS, *DOUBTS) if row.again)


def judged(evidence: WindowEvidence) -> tuple[str, str]:
    """Return (name, effect) of the row that decides: the first doubt of a proof that shows the window, or the proof."""
    proof = next(row for row in PROOFS if row.holds(evidence))
    if proof.effect == BOUND:
        return proof.name, proof.effect
    doubt = next((row for row in DOUBTS if row.holds(evidence)), proof)
    return doubt.name, doubt.effect
