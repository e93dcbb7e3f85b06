# SPDX-License-Identifier: MIT
"""Provoke the receive window: offer every option, connect, ask, receive the first acknowledgement.

Read in `fingerprint/rwin.py`.
"""

from __future__ import annotations

from configtron.model.nouns import ACK, RST, Segment, Target
from configtron.probe.script import Script, Send, Wait, echo, get, handshake, request, reset, syn_options

# The acknowledgement of a request rides on its answer or follows within the delayed-ACK timer (0.2 s at most).
PATIENCE_S = 6.0


def rwin(target: Target, agent: str, *, cookie: str = "") -> Script:
    """Connect with MSS 1460, SACK, timestamps and scale 7; ask.

    Stop at the first segment that acknowledges the request.
    """
    opening = yield from handshake(syn_options(1460, sack=True, timestamps=True, wscale=7))
    if opening.reason or opening.synack is None:
        return opening.reason
    options = echo(opening.synack.segment)
    yield Send(Segment(ACK, seq=1, ack=1, window=512, options=options))
    ask = get(target.host, target.path, agent, cookie=cookie)
    sent = yield Send(request(ask, window=512, options=options))
    assert sent is not None
    until = sent.at + PATIENCE_S
    ending = "unclear:no-ack"
    while (packet := (yield Wait(until))) is not None:
        if packet.segment.flags & RST:
            return "reset"
        if packet.segment.flags & ACK and packet.segment.ack > 1:
            ending = "done"
            break
    yield Send(reset(1 + len(ask)))
    return ending
