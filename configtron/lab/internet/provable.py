# SPDX-License-Identifier: MIT
"""The largest lower bound of a window that a server's answer can prove.

Question   Where an answer ends or pauses before the window does, which "at least n" is all that could be reported?
Method     The bytes that the server's own program hands to its kernel before the retransmission timer fires, in
           segments of the smallest MSS that a client may ask for; never more than the window. Nothing of the prober
           goes in: for odd servers the answer itself is run (`servers/answers.py`).
Reads as   0 or 1: nothing can be learned, since every answer has one segment.
Source     RFC 6298 section 5 (the timer), RFC 9293 section 3.7.1 (MSS); net/ipv4/tcp_output.c
           tcp_update_skb_after_send() (the first ten packets are not paced), net/ipv4/syncookies.c msstab.
"""

from __future__ import annotations

import math

from configtron.lab.internet import misbehaving
from configtron.lab.internet.growth import CERTIFICATE_BYTES
from configtron.lab.internet.shares import SHORT_PAGE_BYTES
from configtron.lab.internet.sites import SiteServer
from configtron.lab.servers.answers import ANSWERS, Ask, End

# The smallest MSS that a client may ask for, and the one with which a request inside TLS is asked.
LEAST_MSS, REQUEST_MSS = 64, 536
# Sites whose clients' MSS arrives, or is kept, as 536 at least.
RAISED = ("mss-raised", "syn-cookies")
# Status line and fields that every server program here sends at least (Content-Length, -Type, Server).
HEAD_BYTES = 80
# Packets that BBR sends before it paces.
UNPACED = 10
# What a mail server sends, first and to a request: each below a segment.
BANNER_BYTES = 54


def bound(server: SiteServer, window: int, timer_s: float, *, mss: int = LEAST_MSS, odd: bool = False) -> int:
    """Return the largest provable bound of `window` over an answer in clear text, segments."""
    if server.impairment == "paced":
        return min(window, UNPACED)
    size = _written(server, window * mss, timer_s) if odd else server.page_bytes + HEAD_BYTES
    return min(window, math.ceil(size / mss))


def certificate_bound(server: SiteServer, window: int) -> int:
    """Return the same over a certificate, to which no ACK came before."""
    return min(window, math.ceil(CERTIFICATE_BYTES / (REQUEST_MSS if server.impairment in RAISED else LEAST_MSS)))


def is_short(server: SiteServer) -> bool:
    """Return whether the whole page is shorter than the window, for every MSS."""
    return server.page_bytes == SHORT_PAGE_BYTES


def _written(server: SiteServer, room: int, timer_s: float) -> int:
    """Return bytes that an odd server writes from its first byte on until its timer fires, or the answer ends."""
    misbehaviour, amount = misbehaving.named(server.impairment)
    if misbehaviour.accept == "banner":
        return BANNER_BYTES
    ask = Ask(page=b"x" * server.page_bytes, host="a", room=room, amount=amount)
    size, waited_s = 0, 0.0
    for step in ANSWERS[misbehaviour.answer](ask):
        if isinstance(step, End):
            break
        if isinstance(step, bytes):
            size += len(step)
        else:
            waited_s += step if size else 0.0
        if waited_s >= timer_s:
            break
    return size
