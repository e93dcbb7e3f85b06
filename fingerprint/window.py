# SPDX-License-Identifier: MIT
"""A congestion window read from a conversation in which every ACK was withheld and then one was sent.

The same arithmetic serves the initial window over HTTP (`icw.py`), that of a certificate flight (`icw_tls.py`), and the
window that stands when a request is asked inside TLS (`cwnd_at_request.py`). Rules for this file: pure, total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from configtron.fingerprint.stream import BURST_GAP_RTTS, Flight, Handshake, effective_mss
from configtron.fingerprint.verdict import no, yes
from configtron.model.nouns import FIN, OPT_SACK_PERMITTED, SYN, Observation, Packet, Trace, Value

UNIT = "segments"
# What a SYN without the option offers (RFC 9293 3.7.1).
DEFAULT_MSS = 536
# A SYN-ACK sent again means a window of one segment by RFC 5681 3.1; Linux collapses it only after the second repeat
# (tcp_init_transfer). So after one repeat a larger window is still the initial one, a window of 1 shows nothing; after
# two, nothing does.
SYNACK_REPEATS_MAX = 1
# A handshake that took this much longer than the request's acknowledgement shows a SYN-ACK timer, not the path: the
# smallest class is 0.2 s, less the wheel's eighth.
SYNACK_LOST_S = 0.17
# Fresh data that the ACK let out comes one round trip later; a quarter less or more for jitter, 10 ms for a busy host.
# Data at any other time was let out by the server itself.
PROMPT_FROM, PROMPT_TO, PROMPT_SLACK_S = 0.75, 1.25, 0.01
# How the flight ended -> what fresh data after the ACK proves. Before a timer fired, or at a tail loss probe, a server
# with more to say and room in its window would have sent it: the window was full. After a timeout the window is one
# segment, and data written meanwhile waits for our ACK as well: that is a bound, which may support a stronger proof.
PROOFS = {"quiet": "before-timer", "edge": "edge"}
# That no timer fired before our ACK arrived is sure only if it left within the shortest wait of one, less a round trip
# for both ways: 0.2 s, or two round trips. A later silence may be the timer's copies lost.
TIMER_MIN_S, TIMER_RTTS = 0.2, 2.0
STRONG, PROVEN = ("before-timer", "edge"), ("before-timer", "edge", "after-timer")
# A server that sent nothing for a retransmission timeout begins with the restart window (RFC 5681 4.1), which is the
# initial one or less: Linux takes the route's, whatever the socket was given. The timeout is a round trip and at least
# 0.2 s or two round trips more (tcp_rtt_estimator), here a tenth less to be sure.
IDLE_MIN_S, IDLE_RTTS = 0.18, 1.8
# Data that fills a gap within this share of a round trip after what overtook it was never asked for again. After a
# repair the window is that of a loss, half or less (RFC 5681 3.2): what it shows is no more than a bound.
OVERTAKEN_RTTS = 0.5
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
# An unscaled window this close to full (in segments) may have been what stopped the server.
WINDOW_MARGIN_SEGMENTS = 1
# The largest segment that a usual path takes (an MTU of 1500).
LARGEST = 1460
# Vantage of a trace that comes from a capture, not from a probe (`passive/traces.py`).
CAPTURE = "capture"
# A client that follows RFC 9293 3.8.6.3 acknowledges several segments sooner than this (s).
SILENT_S = 0.06


class Held(NamedTuple):
    """What was heard while every ACK was withheld: the flight, why it ended, and the packet (index) that ended it."""

    flight: Flight
    stop: str
    at: int


def hold(packets: Sequence[Packet], opening: Handshake, start: int = 0, base: int = 1) -> Held:
    """Read the flight that answers what we sent from packet `start` on; its first byte is `base`."""
    flight = Flight(opening.rtt_s, base)
    sack = sack_agreed(packets, opening)
    for i in range(start, len(packets)):
        packet = packets[i]
        if packet.at > flight.probed_at:
            return Held(flight, "edge", i)
        if packet.way == "out":
            if packet.segment.ack > base and flight.pieces:
                return Held(flight, "edge" if flight.lone is not None else "quiet", i)
            if packet.segment.length:
                flight.ask(packet)
            continue
        if packet.segment.flags & SYN:
            continue
        kind = flight.hear(packet)
        if kind in ("rto", "last", "rst"):
            return Held(flight, kind, i)
        if kind == "late" and sack:
            flight.suspect(packet)
        elif kind == "late":
            flight.extend(packet)
    return Held(flight, "edge" if flight.lone is not None else "silence", len(packets))


def read_window(
    knob: str, trace: Trace, opening: Handshake, start: int = 0, base: int = 1, *, initial: bool = True
) -> Observation:
    """The window of the flight that answers what we sent from packet `start` on.

    initial   nothing was acknowledged before, so what a repeated SYN-ACK does to a window matters
    """
    packets = trace.packets
    if not opening.synacks:
        return no(knob, "refused" if opening.reset else "no-synack", trace, UNIT)
    repeats = len(opening.repeats(packets))
    if initial and repeats > SYNACK_REPEATS_MAX:
        return no(knob, "synack-repeated", trace, UNIT)
    if trace.tainted:
        return no(knob, trace.tainted[0], trace, UNIT)
    held = hold(packets, opening, start, base)
    flight = held.flight
    if not flight.pieces:
        return no(knob, "reset" if held.stop == "rst" else "no-data", trace, UNIT)
    offered = (packets[opening.syns[0]].segment.mss if opening.syns else None) or DEFAULT_MSS
    mss = _mss(packets, held, start, offered)
    # Only a tail was heard: how large the lost ones were is not known, but they were no larger than we allow, or, from
    # a server that does not care what we allow, no larger than usual.
    largest = offered if mss <= offered else max(mss, LARGEST)
    whole = mss if flight.sizes().count(mss) > 1 or not flight.holes() else largest
    edge = flight.edge if flight.lone is None else flight.lone.segment.seq
    written = trace.vantage == CAPTURE and not _cut_into_full(packets, held, opening)
    holes = [*flight.holes(), edge - flight.edge] if edge > flight.edge else flight.holes()
    count = len(flight.pieces) + sum(math.ceil(hole / whole) for hole in holes)
    if written:
        # A stack that counts bytes has room for more short segments than full ones.
        count = math.ceil((edge - base) / max(_cap(packets, opening), mss))
    uneven_holes = any(hole > mss and hole % mss for hole in holes)
    retried = initial and (repeats > 0 or len(opening.syns) > 1 or _synack_was_lost(flight, opening))
    if retried and count == 1:
        return no(knob, "synack-repeated", trace, UNIT)
    proof = _proof(packets, held)
    if proof in PROVEN:
        doubts = (
            "no-round-trip" if retried and packets[opening.synacks[0]].segment.timestamps is None else "",
            "after-idle" if _was_idle(packets, flight, opening, start) else "",
            "after-loss" if _was_repaired(packets[:start], flight.rtt_s or 0.0) else "",
            "window-limited" if edge - base + WINDOW_MARGIN_SEGMENTS * mss > _window(packets, opening, start) else "",
            "uneven" if may_hide_a_probe(packets, held, opening) or (held.stop == "edge" and flight.paused) else "",
            "holes-in-small-writes" if uneven_holes or whole > mss else "",
            "" if _had_more(packets, held, offered) else "no-queue",
            "client-data" if _client_spoke(packets, held) else "",
            "short-end" if flight.sizes()[-1] < mss and _may_be_a_pause(held) else "",
            "short-segment" if written else "",
        )
        proof = next((doubt for doubt in doubts if doubt), proof)
    if proof not in STRONG and uneven_holes:
        # What was lost may have been larger than all that was heard.
        count = len(flight.pieces) + sum(math.ceil(hole / largest) for hole in holes)
    if may_hide_a_probe(packets, held, opening):
        count = max(count - 1, 1)
    details: dict[str, Value] = {
        "synack_repeats": repeats,
        "bytes": edge - base,
        "mss": mss,
        "offered_mss": offered,
        "stop": held.stop,
        "proof": proof,
        "sack": sack_agreed(packets, opening),
        "sack_offered": sack_offered(packets, opening),
        "holes": len(holes),
    }
    if count != math.ceil((edge - base) / mss):
        details["small_writes"] = True
    if mss > offered:
        details["mss_raised"] = True
    method = "tail-loss-probe edge" if held.stop == "edge" else "withheld ACK, then one ACK"
    return yes(knob, count, trace, UNIT, method, "C" if proof in STRONG else "L", tuple(flight.frames), details)


def _mss(packets: Sequence[Packet], held: Held, start: int, offered: int) -> int:
    # Its size shows the segments of a merged first frame; a first segment that was that short itself shows nothing.
    repeated = packets[held.at].segment.length if held.stop == "rto" else held.flight.edge
    if repeated >= held.flight.pieces.get(held.flight.base, 0) - held.flight.base:
        repeated = 0
    sizes = [p.segment.length for p in packets[start:] if p.way == "in" and not p.segment.flags & SYN]
    return max(effective_mss(sizes, offered, repeated or None), 1)


def _synack_was_lost(flight: Flight, opening: Handshake) -> bool:
    """Whether the handshake took so much longer than the path that we heard the SYN-ACK's second copy."""
    return opening.rtt_s is not None and flight.sampled and opening.rtt_s - (flight.rtt_s or 0.0) > SYNACK_LOST_S


def _was_idle(packets: Sequence[Packet], flight: Flight, opening: Handshake, start: int) -> bool:
    """Whether the server had been silent for a retransmission timeout when its flight began, or at any time before."""
    rtt_s = flight.rtt_s or 0.0
    spoke = [p.at for p in packets[:start] if p.way == "in" and p.segment.length]
    times = [packets[opening.synacks[-1]].at, *spoke, *([] if flight.began_at is None else [flight.began_at])]
    longest_s = max((b - a for a, b in zip(times, times[1:], strict=False)), default=0.0)
    return longest_s > rtt_s + max(IDLE_MIN_S, IDLE_RTTS * rtt_s)


def _was_repaired(before: Sequence[Packet], rtt_s: float) -> bool:
    """Whether the server lost something before its flight, or thought so: bytes came again, or a timer's time late.

    What a round trip, or less, before it let out is in time; a tail that was lost comes later, once, and leaves no gap.
    """
    reach, over = 0, math.inf
    spoke = [p.at for p in before if p.way == "out"]
    last_at = -math.inf
    for packet in before:
        segment = packet.segment
        if packet.way == "out" or segment.flags & SYN:
            continue
        if not segment.length:
            # An acknowledgement shows how far the server has come: what we have not heard by then is lost.
            reach, over = (segment.seq, -math.inf) if segment.seq > reach > 0 else (reach, over)
            continue
        if segment.seq < reach and packet.at - over > OVERTAKEN_RTTS * rtt_s:
            return True
        if packet.at - last_at > PROMPT_SLACK_S and not any(_prompt(packet.at - at, rtt_s) for at in spoke):
            return True
        over = packet.at if segment.seq > reach > 0 or segment.end > reach else over
        last_at, reach = packet.at, max(reach, segment.end)
    return False


def _may_be_a_pause(held: Held) -> bool:
    """Whether a flight that ended in a short segment may have ended there because the server had no more to say yet.

    A probe shows otherwise if it came when one does: sooner or later, a lone segment is the server's next data.
    """
    flight, rtt_s = held.flight, held.flight.rtt_s or 0.0
    if held.stop != "edge" or flight.lone is None:
        return held.stop == "quiet"
    after_s = flight.lone.at - flight.last_at
    if len(flight.pieces) == 1:
        return after_s < PROBE_FROM * (rtt_s + max(TIMER_MIN_S, TIMER_RTTS * rtt_s))
    return not PROBE_FROM * 2 * rtt_s <= after_s <= PROBE_TO * 2 * rtt_s + PROBE_SLACK_S


def may_hide_a_probe(packets: Sequence[Packet], held: Held, opening: Handshake) -> bool:
    """Whether a tail loss probe, one segment more, may stand among the server's own.

    It may where the server paused by itself: the probe comes at the retransmission timer's time where that is sooner
    (tcp_schedule_loss_probe), and looks like the next segment. It may also where the round trip is not known from the
    request, since a SYN-ACK's timer in its place makes the burst seem longer than it was; where a single segment came
    and not the first, for the flight may have been lost whole; and where the last piece of a flight that follows a
    conversation stands as far from the others as two of the path's round trips.
    """
    flight = held.flight
    unsure = not flight.sampled and (flight.rtt_s or math.inf) > SYNACK_LOST_S
    orphan = len(flight.pieces) == 1 and flight.base not in flight.pieces
    apart_s = max(PROBE_FROM * 2 * (flight.rtt_s or 0.0), PROBE_SOONEST_S)
    alone = flight.base > 1 and len(flight.pieces) > 1 and flight.tail_gap_s >= apart_s
    return sack_agreed(packets, opening) and held.stop != "edge" and (flight.uneven or unsure or orphan or alone)


def _proof(packets: Sequence[Packet], held: Held) -> str:
    """Why the window, and not the response, ended the flight - or that neither is certain."""
    flight, rtt_s = held.flight, held.flight.rtt_s
    if held.stop == "rst" or flight.fin_at_seq is not None:
        return "response-ended"
    acks: list[float] = []
    for packet in packets[held.at :]:
        if packet.way == "out" and packet.segment.ack >= flight.end:
            acks.append(packet.at)
        if packet.way == "out" or not acks or rtt_s is None or packet.segment.end <= flight.end:
            continue
        if not any(_prompt(packet.at - at, rtt_s) for at in acks):
            return "server-paced"
        # A probe has shown the edge, whatever is lost behind it; without one, a gap there may be the flight's own tail.
        if packet.segment.length > 0 and (packet.segment.seq <= flight.end or held.stop == "edge"):
            in_time = held.stop == "edge" or acks[0] - flight.last_at < max(TIMER_MIN_S, TIMER_RTTS * rtt_s)
            return PROOFS.get(held.stop, "after-timer") if in_time else "after-timer"
        if packet.segment.flags & FIN:
            return "exact-fit"
    return "unverified"


def _client_spoke(packets: Sequence[Packet], held: Held) -> bool:
    """Whether the client sent data before fresh data came that no segment of the server's flight acknowledges."""
    end = held.flight.end
    fresh = next(
        (n for n, p in enumerate(packets) if n >= held.at and p.way == "in" and p.segment.end > end), len(packets)
    )
    ours = [p.segment.end for p in packets[:fresh] if p.way == "out" and p.segment.length and not p.segment.flags & SYN]
    heard = [p.segment.ack for p in packets[:fresh] if p.way == "in" and p.segment.length and p.segment.end <= end]
    return bool(heard) and max(ours, default=0) > max(heard)


def _cap(packets: Sequence[Packet], opening: Handshake) -> int:
    """Return the largest segment (bytes) that the client offers to take, less timestamps if both sides use them."""
    offered = (packets[opening.syns[0]].segment.mss if opening.syns else None) or DEFAULT_MSS
    return max(offered - _stamps(packets, opening), 1)


def _stamps(packets: Sequence[Packet], opening: Handshake) -> int:
    both = (*opening.syns[:1], *opening.synacks[:1])
    return TIMESTAMPS_BYTES if all(packets[i].segment.timestamps is not None for i in both) else 0


def _cut_into_full(packets: Sequence[Packet], held: Held, opening: Handshake) -> bool:
    """Whether flight and fresh data are full segments, so that the window and no short write ended the flight.

    Full is the size that the client offers to take, or the server's own offer if that is smaller and all segments keep
    to it. Lost segments count as full. If the server stayed silent until a late ACK, its window was used up: then short
    segments before the last full one are admitted, provided that counting bytes gives the same number of segments.
    """
    theirs = packets[opening.synacks[0]].segment.mss or DEFAULT_MSS
    flight, cap = held.flight, _cap(packets, opening)
    fresh = next((p for p in packets[held.at :] if p.way == "in" and p.segment.end > flight.end), None)
    sizes = [*flight.sizes(), *([] if flight.lone is None else [flight.lone.segment.length])]
    ours = next((p.at for p in packets[held.at :] if p.way == "out" and p.segment.ack >= flight.end), flight.last_at)
    silent = ours - flight.last_at > max(BURST_GAP_RTTS * (flight.rtt_s or 0.0), SILENT_S)
    for full in {cap, max(min(cap, theirs - _stamps(packets, opening)), 1)}:
        if fresh is None or fresh.segment.length < full or sizes[-1] % full:
            continue
        span = sum(sizes) + sum(flight.holes())
        if not any(size % full for size in sizes) or (silent and math.ceil(span / full) == len(_pieces(held, full))):
            return True
    return False


def _pieces(held: Held, full: int) -> list[int]:
    """Return the bytes of each segment of the flight, with the lone segment after it and the lost ones."""
    lone = held.flight.lone
    heard = [*held.flight.sizes(), *([] if lone is None else [lone.segment.length])]
    return [*heard, *(full for hole in held.flight.holes() for _ in range(math.ceil(hole / full)))]


def _had_more(packets: Sequence[Packet], held: Held, offered: int) -> bool:
    """Whether the server had a queue, as one has whom its window stopped: Linux fills what is unsent to whole segments.

    So what the ACK brought out is a whole segment, or more follows at once, or the end. A server that lets a few bytes
    fall now and then would seem stopped wherever its next ones happen to come when fresh data is due.
    """
    whole = min(offered, PATH_MSS_MIN) - TIMESTAMPS_BYTES
    slack_s = PROMPT_SLACK_S + (PROMPT_TO - 1) * (held.flight.rtt_s or 0.0)
    heard = [p for p in packets[held.at :] if p.way == "in" and p.segment.end > held.flight.end]
    if not heard or heard[0].segment.length >= whole or heard[0].segment.flags & FIN:
        return True
    return any(p.segment.end > heard[0].segment.end and p.at <= heard[0].at + slack_s for p in heard[1:])


def _prompt(after_s: float, rtt_s: float) -> bool:
    return PROMPT_FROM * rtt_s - PROMPT_SLACK_S <= after_s <= PROMPT_TO * rtt_s + PROMPT_SLACK_S


def sack_offered(packets: Sequence[Packet], opening: Handshake) -> bool:
    """Whether we offered SACK."""
    return bool(opening.syns) and packets[opening.syns[0]].segment.option(OPT_SACK_PERMITTED) is not None


def sack_agreed(packets: Sequence[Packet], opening: Handshake) -> bool:
    """Whether both sides offered SACK."""
    theirs = bool(opening.synacks) and packets[opening.synacks[0]].segment.option(OPT_SACK_PERMITTED) is not None
    return theirs and sack_offered(packets, opening)


def _window(packets: Sequence[Packet], opening: Handshake, start: int) -> int:
    """Bytes we allowed the server while holding: our last window before data, scaled if both sides agreed to scale."""
    ours = packets[opening.syns[0]].segment.wscale if opening.syns else None
    theirs = packets[opening.synacks[0]].segment.wscale
    window = next((p.segment.window for p in packets[start:] if p.way == "out" and not p.segment.flags & SYN), 65535)
    return window << ours if ours is not None and theirs is not None else window
