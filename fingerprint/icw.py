"""Initial congestion window.

Question   How many segments does the server send before it hears one ACK of its data?
Method     Offer a chosen MSS, ask for a page, acknowledge nothing, count the distinct segments; then acknowledge all of
           them at once with room for two and see whether fresh data comes out. With SACK offered (the edge run), a
           Linux server's tail loss probe, one fresh segment alone, shows the window's edge; the early run does not
           wait for any timer.
Stop when  the first byte is sent again (RTO), a tail loss probe comes (SACK), the response ends, or silence.
Reads as   segments heard before the first repeat, plus those that fill the holes; exact if opening the gate brings
           fresh data within one round trip, or if the tail loss probe carried fresh data; else a lower bound.
Fails as   no-synack, refused, no-data, reset, synack-repeated (RFC 5681 3.1: the window may have collapsed), drops.
Differs    from scamper's tbit: it counts the tail loss probe's segment as part of the window when SACK is offered;
           from COMSYS zmap: segments, not bytes; super-frames are split by the kernel's own gso_size;
           from ConfigTron 2.1: a short page gives ">= n", never "= n".
Source     Padhye & Floyd 2001 (TBIT); RFC 6928; ConfigTron section 2.1; net/ipv4/tcp_output.c (tcp_write_xmit,
           tcp_schedule_loss_probe).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from configtron.fingerprint.stream import Flight, Handshake, effective_mss, handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.nouns import FIN, OPT_SACK_PERMITTED, SYN, Observation, Packet, Trace, Value

UNIT = "segments"
# What a SYN without the option offers (RFC 9293 3.7.1).
DEFAULT_MSS = 536
PROBES = ("icw",)
# A SYN-ACK sent again means a window of one segment by RFC 5681 3.1; Linux collapses it only after the second repeat
# (tcp_init_transfer). So after one repeat a larger window is still the initial one, a window of 1 tells nothing; after
# two, nothing does.
SYNACK_REPEATS_MAX = 1
# Moreover a server that cannot tell its round trip (Karn's rule, no timestamps) may hold the window's tail back for an
# ACK it believes near (tcp_tso_should_defer): what it shows is then a lower bound ("no-round-trip").
# Fresh data that the ACK let out comes one round trip later; a quarter less or more for jitter, 10 ms for a busy host.
# Data at any other time was let out by the server itself.
PROMPT_FROM, PROMPT_TO, PROMPT_SLACK_S = 0.75, 1.25, 0.01
# How the flight ended -> what fresh data after the ACK proves. Before a timer fired, or at a tail loss probe, a server
# with more to say and room in its window would have said it: the window was full. After a timeout the window is one
# segment, and data written meanwhile waits for our ACK as well: that is a bound, which may support a stronger proof.
PROOFS = {"quiet": "before-timer", "edge": "edge"}
STRONG, PROVEN = ("before-timer", "edge"), ("before-timer", "edge", "after-timer")
# An unscaled window this close to full (in segments) may have been what stopped the server.
WINDOW_MARGIN_SEGMENTS = 1


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one withheld-ACK trace. Exactly one observation; value in segments of `mss` bytes (details)."""
    return (_infer(trace),)


def _infer(trace: Trace) -> Observation:
    packets = trace.packets
    opening = handshake_of(packets)
    if not opening.synacks:
        return no("icw", "refused" if opening.reset else "no-synack", trace, UNIT)
    repeated_synacks = len(opening.repeats(packets))
    if repeated_synacks > SYNACK_REPEATS_MAX:
        return no("icw", "synack-repeated", trace, UNIT)
    if trace.tainted:
        return no("icw", trace.tainted[0], trace, UNIT)
    flight, stop, at = read_flight(packets, opening)
    if not flight.pieces:
        return no("icw", "reset" if stop == "rst" else "no-data", trace, UNIT)
    offered = (packets[opening.syns[0]].segment.mss if opening.syns else None) or DEFAULT_MSS
    repeated = packets[at].segment.length if stop == "rto" else None
    sizes = [p.segment.length for p in packets if p.way == "in" and not p.segment.flags & SYN]
    mss = max(effective_mss(sizes, offered, repeated), 1)
    edge = flight.edge if flight.lone is None else flight.lone.segment.seq
    holes = [*flight.holes(), edge - flight.edge] if edge > flight.edge else flight.holes()
    count = len(flight.pieces) + sum(math.ceil(hole / mss) for hole in holes)
    if repeated_synacks and count == 1:
        return no("icw", "synack-repeated", trace, UNIT)
    proof = _proof(packets, flight, stop, at, opening)
    if proof in PROVEN:
        proof = _doubt(packets, flight, stop, opening, edge - 1 + WINDOW_MARGIN_SEGMENTS * mss) or proof
    if _may_hide_a_probe(packets, flight, stop, opening):
        count = max(count - 1, 1)
    details: dict[str, Value] = {
        "synack_repeats": repeated_synacks,
        "bytes": edge - 1,
        "mss": mss,
        "offered_mss": offered,
        "stop": stop,
        "proof": proof,
        "sack": _sack(packets, opening),
        "holes": len(holes),
    }
    if count != math.ceil((edge - 1) / mss):
        details["small_writes"] = True
    if mss > offered:
        details["mss_raised"] = True
    method = "tail-loss-probe edge" if stop == "edge" else "withheld ACK, then one ACK"
    return yes("icw", count, trace, UNIT, method, "C" if proof in STRONG else "L", tuple(flight.frames), details)


def _doubt(packets: Sequence[Packet], flight: Flight, stop: str, opening: Handshake, needed: int) -> str:
    """What weakens a proof: "no-round-trip", "window-limited" (`needed`: bytes of window), "dripping".

    "" if nothing.
    """
    if opening.repeats(packets) and packets[opening.synacks[0]].segment.timestamps is None:
        return "no-round-trip"
    if needed > _window(packets, opening):
        return "window-limited"
    return "uneven" if _may_hide_a_probe(packets, flight, stop, opening) else ""


def _may_hide_a_probe(packets: Sequence[Packet], flight: Flight, stop: str, opening: Handshake) -> bool:
    """Whether a tail loss probe, one segment more, may stand among the server's own.

    It may where the server paused by itself: the probe comes at the retransmission timer's time where that is sooner
    (tcp_schedule_loss_probe), and looks like the next segment.
    """
    return _sack(packets, opening) and stop != "edge" and flight.uneven


def read_flight(packets: Sequence[Packet], opening: Handshake) -> tuple[Flight, str, int]:
    """The first flight: (flight, why it ended, index of the packet that ended it)."""
    flight = Flight(opening.rtt_s)
    sack = _sack(packets, opening)
    for i, packet in enumerate(packets):
        if packet.at > flight.probed_at:
            return flight, "edge", i
        if packet.way == "out":
            if packet.segment.ack > 1 and flight.pieces:
                return flight, "edge" if flight.lone is not None else "quiet", i
            continue
        if packet.segment.flags & SYN:
            continue
        kind = flight.hear(packet)
        if kind in ("rto", "last", "rst"):
            return flight, kind, i
        if kind == "late" and sack:
            flight.suspect(packet)
        elif kind == "late":
            flight.extend(packet)
    return flight, "edge" if flight.lone is not None else "silence", len(packets)


def _proof(packets: Sequence[Packet], flight: Flight, stop: str, at: int, opening: Handshake) -> str:
    """Why the window, and not the response, ended the flight - or that it cannot be told."""
    if stop == "rst" or flight.fin_at_seq is not None:
        return "response-ended"
    acked = next((p for p in packets[at:] if p.way == "out" and p.segment.ack >= flight.end), None)
    if acked is None or opening.rtt_s is None:
        return "unverified"
    for packet in packets[at:]:
        if packet.way == "out" or packet.at < acked.at or packet.segment.end <= flight.end:
            continue
        after_s = packet.at - acked.at
        if not PROMPT_FROM * opening.rtt_s - PROMPT_SLACK_S <= after_s <= PROMPT_TO * opening.rtt_s + PROMPT_SLACK_S:
            return "server-paced"
        if packet.segment.length > 0 and packet.segment.seq <= flight.end:
            return PROOFS.get(stop, "after-timer")
        if packet.segment.flags & FIN:
            return "exact-fit"
    return "unverified"


def _sack(packets: Sequence[Packet], opening: Handshake) -> bool:
    """Whether both sides offered SACK."""
    ours = bool(opening.syns) and packets[opening.syns[0]].segment.option(OPT_SACK_PERMITTED) is not None
    return ours and packets[opening.synacks[0]].segment.option(OPT_SACK_PERMITTED) is not None


def _window(packets: Sequence[Packet], opening: Handshake) -> int:
    """Bytes we allowed the server while holding: our last window before data, scaled if both sides agreed to scale."""
    ours = packets[opening.syns[0]].segment.wscale if opening.syns else None
    theirs = packets[opening.synacks[0]].segment.wscale
    window = next((p.segment.window for p in packets if p.way == "out" and not p.segment.flags & SYN), 65535)
    return window << ours if ours is not None and theirs is not None else window
