# SPDX-License-Identifier: MIT
"""Provoke TCP Fast Open: ask for a cookie; with it, put a request into the SYN. Read in `fingerprint/tfo.py`."""

from __future__ import annotations

from configtron.model.nouns import ACK, OPT_FASTOPEN, RST, SYN, Segment, Target
from configtron.probe.script import (
    SYN_PATIENCE_S,
    SYN_TRIES_AT_S,
    Script,
    Send,
    Wait,
    get,
    handshake,
    reset,
    syn_options,
)

# The farewell between the two SYNs is sent so often: a server that still remembers the first takes the second for it.
SENT = 3


def tfo(target: Target, agent: str) -> Script:
    """An empty Fast Open option asks for a cookie (RFC 7413 4.1.1); the same port then asks with it, after a RST."""
    opening = yield from handshake((*syn_options(1460), (OPT_FASTOPEN, b"")))
    if opening.synack is None:
        return opening.reason
    for _ in range(SENT):
        farewell = yield Send(reset(1))
    cookie = opening.synack.segment.option(OPT_FASTOPEN)
    if not cookie:
        return "done"
    assert farewell is not None
    data = get(target.host, target.path, agent)
    syn = Segment(SYN, options=(*syn_options(1460), (OPT_FASTOPEN, cookie)), payload=data, length=len(data))
    for until in (*SYN_TRIES_AT_S[1:], SYN_TRIES_AT_S[-1] + SYN_PATIENCE_S):
        yield Send(syn)
        while (packet := (yield Wait(farewell.at + until))) is not None:
            if packet.segment.flags & RST:
                return "done"
            # A copy of the first SYN-ACK, still on its way, begins at the first one's number.
            first = opening.synack.segment.seq
            if packet.segment.flags & (SYN | ACK) == SYN | ACK and packet.segment.seq != first:
                yield Send(reset(packet.segment.ack))
                return "done"
    return "done"
