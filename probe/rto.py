"""Provoke SYN-ACK retransmissions: ask for a connection, never complete it. The reading is in
`fingerprint/synack_rto.py`.

The same conversation shows the announced window and the SYN-ACK's signature.
"""

from __future__ import annotations

from configtron.nouns import ACK, RST, SYN, Segment, Target
from configtron.probe.script import SYN_TRIES_AT_S, Script, Send, Wait, reset, syn_options

# A first retransmission after this long is not an RTO any more: twice the largest class (3 s), plus slack.
FIRST_REPEAT_S = 8.0
# Timers double: after a gap g the next comes within 2 g, an eighth later at most (timer wheel); 2.5 g + 3 s is silence.
SILENCE_FACTOR, SILENCE_SLACK_S = 2.5, 3.0
# Linux's five repeats from 1 s are over after 31 s, from 3 s (the largest class) after 93 s; the silence that proves
# the end is 2.3 times the last gap, 110 s. Listening costs the server nothing: its own timers keep the half-open
# connection.
PATIENCE_S = 250.0


def rto(
    target: Target,
    agent: str,
    *,
    full: bool = False,
    repeats: int = 0,
    patience_s: float = PATIENCE_S,
) -> Script:
    """Hold the final ACK and log every SYN-ACK.

    full        offer SACK, timestamps and window scaling; else MSS 1460 alone
    repeats     stop after so many retransmissions (0: listen until the server gives up or `patience_s` passes)
    """
    options = syn_options(1460, sack=full, timestamps=full, wscale=7 if full else None)
    heard: list[float] = []
    tries = list(SYN_TRIES_AT_S)
    yield Send(Segment(SYN, options=options))
    tries.pop(0)
    until = tries[0]
    while True:
        packet = yield Wait(until)
        if packet is None:
            if heard or not tries:
                break
            yield Send(Segment(SYN, options=options))
            tries.pop(0)
            until = tries[0] if tries else until + FIRST_REPEAT_S
            continue
        if packet.segment.flags & RST:
            return "done" if heard else "refused"
        if packet.segment.flags & (SYN | ACK) != SYN | ACK:
            continue
        heard.append(packet.at)
        if repeats and len(heard) > repeats:
            break
        gap = heard[-1] - heard[-2] if len(heard) > 1 else 0.0
        silence = FIRST_REPEAT_S if not gap else SILENCE_FACTOR * gap + SILENCE_SLACK_S
        until = min(heard[-1] + silence, heard[0] + patience_s)
    if not heard:
        return "no-synack"
    yield Send(reset(1))
    return "done"
