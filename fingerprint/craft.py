# SPDX-License-Identifier: MIT
"""Answers to a user's own packets.

Question   What does the server send back to this template of packets?
Method     The packets go out in the template's order; after each the prober listens for the template's time.
Stop when  the last packet has been listened for.
Reads as   the answers in order, each by its flags (F S R P A U E C) and its bytes of payload: "SA", "A+1448", "R".
           A repeat of the same answer counts once, with "x2" behind it.
Fails as   no-synack (the first packet was a SYN and nothing came), no-data (nothing came).
Differs    from the other readers: it reports the answers and draws no conclusion about the stack.
Source     RFC 9293 section 3.1 (flags), RFC 3168 section 6.1 (E, C).
"""

from __future__ import annotations

from itertools import groupby

from configtron.fingerprint.verdict import no, yes
from configtron.model.nouns import SYN, Observation, Segment, Trace, Value

PROBES = ("craft",)
KNOBS = ("craft",)
# Bits of the flags' byte, lowest first (RFC 9293 section 3.1, RFC 3168 section 6.1).
FLAGS = "FSRPAUEC"
# More answers than this make no line that can be read; `answers` counts them all.
SHOWN = 12


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Return one observation: the answers as text, or the reason for none."""
    ours = [packet for packet in trace.packets if packet.way == "out"]
    heard = [packet for packet in trace.packets if packet.way == "in"]
    if not heard:
        asked = bool(ours) and bool(ours[0].segment.flags & SYN)
        return (no("craft", "no-synack" if asked else "no-data", trace),)
    runs = [(text, len(list(group))) for text, group in groupby(answer(packet.segment) for packet in heard)]
    shown = " ".join(f"{text}x{count}" if count > 1 else text for text, count in runs[:SHOWN])
    details: dict[str, Value] = {
        "answers": len(heard),
        "window": heard[0].segment.window,
        "options": tuple(kind for kind, _ in heard[0].segment.options),
    }
    before = [packet.at for packet in ours if packet.at <= heard[0].at]
    if before:
        details["first_s"] = round(heard[0].at - before[-1], 6)
    method = "flags and payload of what was heard"
    return (yes("craft", shown, trace, "", method, "C", tuple(packet.frame for packet in heard[:SHOWN]), details),)


def answer(segment: Segment) -> str:
    """Return one answer as text: its flags, and "+" with its bytes of payload if it has any."""
    letters = "".join(letter for bit, letter in enumerate(FLAGS) if segment.flags & 1 << bit)
    return (letters or "0") + (f"+{segment.length}" if segment.length else "")
