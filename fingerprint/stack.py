# SPDX-License-Identifier: MIT
"""One stack or two: whether the host of the handshake also sends the data.

Question   Do the SYN-ACK and the later segments come from the same TCP stack?
Method     Any completed handshake with an answer: time to live, options and clock of the SYN-ACK beside those of later
           segments.
Stop when  there is at least one later segment; resets do not count, since filters make them as well.
Reads as   "split" if the SYN-ACK's time to live is none of the later ones, which agree among themselves; if timestamps
           were agreed to and data carries none, or the other way round; or if the clock of timestamps runs back, or
           faster than any clock. Else "one".
Fails as   no-synack, refused, no-data.
Differs    from p0f, which takes a changed time to live between connections for address translation: here the two are of
           one connection.
Source     RFC 7323 section 5.4 (a clock of 1 ms to 1 s; Linux also has one of 1 us); RFC 4987 section 3.7 (SYN
proxies).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import AGREE_B, count_grade, no, shared, yes
from configtron.model.nouns import ACK, RST, SYN, Observation, Packet, Trace, Value

PROBES = ("icw", "rwin", "ecn", "delayed_ack", "idle")
KNOBS = ("stack",)
# The fastest clock of timestamps, ticks a second, with a tenth for clocks that differ; and so many ticks either way for
# SYN cookies, which write into the low six bits (net/ipv4/syncookies.c, TSBITS).
CLOCK_HZ, CLOCK_SLACK = 1.1e6, 64
# A segment may catch up with a SYN-ACK that the path held back: by a whole queue, which no path is longer than this.
# Clocks that are not one begin anywhere in 32 bits, so they seldom look so near.
CAUGHT_UP_S = 1.0

Stamps = tuple[int, int] | None  # a segment's timestamps


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Compare the first SYN-ACK with the later segments."""
    packets = trace.packets
    opening = handshake_of(packets)
    if not opening.synacks:
        return (no("stack", "refused" if opening.reset else "no-synack", trace),)
    first = packets[opening.synacks[0]]
    heard = (p for p in packets if p.way == "in" and p.segment.flags & (SYN | RST | ACK) == ACK)
    later = [p for p in heard if p.at >= first.at]
    if not later:
        return (no("stack", "no-data", trace),)
    stamps, ttls = [p.segment.timestamps for p in later], {p.ttl for p in later}
    signs = [sign for sign, found in (
        ("ttl", len(ttls) == 1 and first.ttl not in ttls),
        # RFC 7323 3.2: once agreed to, every segment carries them; else none does.
        ("timestamps", {one is not None for one in stamps} == {first.segment.timestamps is None}),
        ("clock", _other_clock(first, later, stamps)),
    ) if found]  # fmt: skip
    details: dict[str, Value] = {"synack_ttl": first.ttl, "ttl": later[0].ttl}
    if signs:
        details["signs"] = tuple(signs)
    frames = (first.frame, later[0].frame)
    method = "SYN-ACK beside later segments"
    return (yes("stack", "split" if signs else "one", trace, "", method, "C", frames, details),)


def _other_clock(first: Packet, later: Sequence[Packet], later_stamps: Sequence[Stamps]) -> bool:
    began = first.segment.timestamps
    if began is None:
        return False
    for packet, stamps in zip(later, later_stamps, strict=True):
        if stamps is not None:
            ticks = ((stamps[0] - began[0] + 0x80000000) & 0xFFFFFFFF) - 0x80000000
            if of_other_clock(ticks, packet.at - first.at):
                return True
    return False


def of_other_clock(ticks: Any, elapsed_s: Any) -> Any:
    """Return whether no clock makes so many ticks in that time (s); of numbers or columns."""
    return (ticks < -CLOCK_SLACK) | (ticks > CLOCK_HZ * (elapsed_s + CAUGHT_UP_S) + CLOCK_SLACK)


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Split if two connections show it; one that alone does may have met a path that changed."""
    every = trials.get("stack", ())
    exact = [t for t in every if t.grade == "C"]
    if not exact:
        return None
    split = [t for t in exact if t.value == "split"]
    same = split if len(split) >= AGREE_B or len(split) == len(exact) else [t for t in exact if t.value == "one"]
    grade = count_grade(len(same)) if len(same) == len(exact) else "B" if len(same) >= AGREE_B else "C"
    return shared(every, exact, same, grade)
