# SPDX-License-Identifier: MIT
"""A congestion window read from a conversation in which every ACK was withheld and then one was sent.

The same arithmetic serves the initial window over HTTP (`icw.py`), that of a certificate flight (`icw_tls.py`), and the
window at a request inside TLS (`cwnd_at_request.py`). `withheld.py` finds the flight, `window_proofs.py` judges its
end; this file counts the segments. Rules for this file: pure, total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from configtron.fingerprint.stream import Handshake, effective_mss
from configtron.fingerprint.verdict import no, yes
from configtron.fingerprint.window_proofs import (
    DEFAULT_MSS,
    EXACT,
    WindowEvidence,
    cut_into_full,
    fresh_data,
    judged,
    may_hide_a_probe,
    segment_limit,
)
from configtron.fingerprint.withheld import WithheldFlight, hold, sack_agreed, sack_offered
from configtron.model.nouns import SYN, Observation, Packet, Trace, Value

UNIT = "segments"
# A SYN-ACK sent again means a window of one segment by RFC 5681 3.1; Linux collapses it only after the second repeat
# (tcp_init_transfer). So after one repeat a larger window is still the initial one, a window of 1 shows nothing; after
# two, nothing does.
SYNACK_REPEATS_MAX = 1
# The largest segment that a usual path takes (an MTU of 1500).
LARGEST = 1460


def read_window(
    knob: str, trace: Trace, opening: Handshake, start: int = 0, base: int = 1, *, initial: bool = True
) -> Observation:
    """Return the window (segments) of the flight that answers our packets from `start` on.

    initial   nothing was acknowledged before, so the effect of a repeated SYN-ACK on the window counts
    """
    if reason := _unreadable(trace, opening, initial):
        return no(knob, reason, trace, UNIT)
    held = hold(trace.packets, opening, start, base)
    if not held.flight.pieces:
        return no(knob, "reset" if held.stop == "rst" else "no-data", trace, UNIT)
    evidence = _evidence(trace, opening, held, start, base, initial)
    if evidence.retried and _count(evidence) == 1:
        return no(knob, "synack-repeated", trace, UNIT)
    proof, effect = judged(evidence)
    count = _proven_count(evidence, effect)
    method = "tail-loss-probe edge" if held.stop == "edge" else "withheld ACK, then one ACK"
    details = _details(evidence, proof, count)
    return yes(knob, count, trace, UNIT, method, "C" if effect == EXACT else "L", tuple(held.flight.frames), details)


def _unreadable(trace: Trace, opening: Handshake, initial: bool) -> str:
    """Return why a trace shows no window, whatever came; "" if it may."""
    if not opening.synacks:
        return "refused" if opening.reset else "no-synack"
    if initial and len(opening.repeats(trace.packets)) > SYNACK_REPEATS_MAX:
        return "synack-repeated"
    return trace.tainted[0] if trace.tainted else ""


def _evidence(
    trace: Trace, opening: Handshake, held: WithheldFlight, start: int, base: int, initial: bool
) -> WindowEvidence:
    packets, flight = trace.packets, held.flight
    offered = (packets[opening.syns[0]].segment.mss if opening.syns else None) or DEFAULT_MSS
    mss = _mss(packets, held, start, offered)
    # Only a tail arrived: the sizes of the lost segments are unknown, but at most the MSS that we offer, or, from a
    # server that ignores our offer, at most the usual one.
    largest = offered if mss <= offered else max(mss, LARGEST)
    edge = flight.edge if flight.lone is None else flight.lone.segment.seq
    holes = (*flight.holes(), *([edge - flight.edge] if edge > flight.edge else []))
    fresh = fresh_data(packets, held)
    return WindowEvidence(trace, opening, held, start, base, initial, offered, mss, largest, edge, holes, fresh)


def _segments(evidence: WindowEvidence, lost: int) -> int:
    """Return the segments of the flight: those heard, and those lost, of `lost` bytes each."""
    return len(evidence.flight.pieces) + sum(math.ceil(hole / lost) for hole in evidence.holes)


def _count(evidence: WindowEvidence) -> int:
    if evidence.captured and not cut_into_full(evidence):
        # A stack that counts bytes has room for more short segments than full ones.
        full = max(segment_limit(evidence.packets, evidence.opening), evidence.mss)
        return math.ceil((evidence.edge - evidence.base) / full)
    return _segments(evidence, evidence.whole)


def _proven_count(evidence: WindowEvidence, effect: str) -> int:
    """Return the segments that the verdict may claim."""
    count = _count(evidence)
    if effect != EXACT and evidence.uneven_holes:
        # Lost segments may have been larger than all that were heard.
        count = _segments(evidence, evidence.largest)
    return max(count - 1, 1) if may_hide_a_probe(evidence) else count


def _details(evidence: WindowEvidence, proof: str, count: int) -> dict[str, Value]:
    packets, opening, length = evidence.packets, evidence.opening, evidence.edge - evidence.base
    details: dict[str, Value] = {
        "synack_repeats": len(opening.repeats(packets)), "bytes": length, "mss": evidence.mss,
        "offered_mss": evidence.offered, "stop": evidence.held.stop, "proof": proof,
        "sack": sack_agreed(packets, opening), "sack_offered": sack_offered(packets, opening),
        "holes": len(evidence.holes),
    }  # fmt: skip
    if count != math.ceil(length / evidence.mss):
        details["small_writes"] = True
    if evidence.mss > evidence.offered:
        details["mss_raised"] = True
    return details


def _mss(packets: Sequence[Packet], held: WithheldFlight, start: int, offered: int) -> int:
    # Its size shows the segments of a merged first frame; a first segment that was that short itself shows nothing.
    repeated = packets[held.at].segment.length if held.stop == "rto" else held.flight.edge
    if repeated >= held.flight.pieces.get(held.flight.base, 0) - held.flight.base:
        repeated = 0
    sizes = [p.segment.length for p in packets[start:] if p.way == "in" and not p.segment.flags & SYN]
    return max(effective_mss(sizes, offered, repeated or None), 1)
