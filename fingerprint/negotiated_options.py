# SPDX-License-Identifier: MIT
"""Options that both sides agreed to: selective acknowledgements and timestamps.

Question   Does the server agree to SACK, and to timestamps, when they are offered?
Method     Any SYN that offers them; the first SYN-ACK.
Stop when  the SYN-ACK is there.
Reads as   sack, timestamps: "yes" or "no"; nothing where our SYN did not offer them.
Fails as   no-synack, refused.
Differs    from reading them off one signature: each trace that offered an option counts, whatever its probe.
Source     RFC 2018 section 2; RFC 7323 section 3.2; net/ipv4/tcp_input.c (tcp_parse_options).
"""

from __future__ import annotations

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.verdict import no, yes
from configtron.model.nouns import OPT_SACK_PERMITTED, OPT_TIMESTAMPS, Observation, Trace

PROBES = ("signature", "rto", "rwin", "icw", "ecn")
KNOBS = ("sack", "timestamps")
KINDS = {"sack": OPT_SACK_PERMITTED, "timestamps": OPT_TIMESTAMPS}


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read from the first SYN-ACK the options that our SYN offered."""
    opening = handshake_of(trace.packets)
    if not opening.syns:
        return ()
    syn = trace.packets[opening.syns[0]].segment
    offered = [knob for knob in KNOBS if syn.option(KINDS[knob]) is not None]
    if not opening.synacks:
        return tuple(no(knob, "refused" if opening.reset else "no-synack", trace) for knob in offered)
    packet = trace.packets[opening.synacks[0]]
    method, frames = "option of the SYN-ACK", (packet.frame,)
    answers = {knob: "no" if packet.segment.option(KINDS[knob]) is None else "yes" for knob in offered}
    return tuple(yes(knob, answer, trace, "", method, "C", frames) for knob, answer in answers.items())
