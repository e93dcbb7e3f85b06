"""Provoke the SYN-ACK's signature: one SYN, one answer, farewell. Read in `fingerprint/signature.py`."""

from __future__ import annotations

from configtron.nouns import CWR, ECE, SYN, Target
from configtron.probe.script import Script, Send, handshake, reset, syn_options


def signature(target: Target, agent: str, *, ecn: bool = False) -> Script:
    """Offer MSS 1460, SACK, timestamps and scale 7 (servers echo only what is offered).

    With `ecn`, ECN set-up too (RFC 3168).
    """
    flags = SYN | (ECE | CWR if ecn else 0)
    opening = yield from handshake(syn_options(1460, sack=True, timestamps=True, wscale=7), flags=flags)
    if opening.reason:
        return opening.reason
    yield Send(reset(1))
    return "done"
