# SPDX-License-Identifier: MIT
"""Provoke the answer to congestion marks: agree on ECN, send a request that is marked as if a router had been full.

Read in `fingerprint/ecn.py`.
"""

from __future__ import annotations

from configtron.model.nouns import ACK, CWR, ECE, RST, SYN, Segment, Target
from configtron.probe.script import Script, Send, Wait, echo, get, handshake, request, reset, syn_options

# "Congestion experienced" in the last two bits of the type of service (RFC 3168 section 5).
CE = 3
# The request goes again at these times (s), as a TCP would; the last wait is for a server that thinks.
ASK_AT_S, PATIENCE_S = (0.0, 1.0, 3.0), 3.0


def ecn(target: Target, agent: str) -> Script:
    """Offer ECN with all options; if the server agrees, ask by a marked segment and receive its acknowledgement."""
    opening = yield from handshake(syn_options(1460, sack=True, timestamps=True, wscale=7), flags=SYN | ECE | CWR)
    if opening.synack is None:
        return opening.reason
    if opening.synack.segment.flags & (ECE | CWR) != ECE:
        yield Send(reset(1))
        return "done"
    options = echo(opening.synack.segment)
    ask = request(get(target.host, target.path, agent), 512, options)
    began = yield Send(Segment(ACK, seq=1, ack=1, window=512, options=options))
    assert began is not None
    ending = "no-data"
    for until in (*ASK_AT_S[1:], ASK_AT_S[-1] + PATIENCE_S):
        yield Send(ask, CE)
        while ending != "done" and (packet := (yield Wait(began.at + until))) is not None:
            if packet.segment.flags & RST:
                return "reset"
            if packet.segment.flags & ACK and packet.segment.ack > 1:
                ending = "done"
        if ending == "done":
            break
    yield Send(reset(ask.end))
    return ending
