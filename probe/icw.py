# SPDX-License-Identifier: MIT
"""Provoke the initial congestion window: ask, acknowledge nothing, count; then open the gate once.

The reading, and the essay, are in `fingerprint/icw.py`. The same conversation shows the data RTO
(`fingerprint/data_rto.py`).
"""

from __future__ import annotations

from configtron.model.nouns import ACK, Segment, Target
from configtron.probe.script import Offer, Script, Send, echo, get, handshake, syn_options
from configtron.probe.withhold import WINDOW, asking, settle, withhold

# A path of this many bytes: an error page or a redirect that repeats it is longer, and the request still fits into one
# segment of 1460 bytes (COMSYS's zmap module asks with 1 kB, cs244 with 1350 B).
LONG_PATH_BYTES = 1100


def icw(
    target: Target,
    agent: str,
    *,
    mss: int = 536,
    sack: bool = False,
    timestamps: bool = False,
    wscale: int | None = None,
    early: bool = False,
    longer: bool = False,
    repeats: int = 1,
    slower: bool = False,
    cookie: str = "",
) -> Script:
    """Withhold every ACK until the server's retransmission timer, tail loss probe or end shows; then ACK once.

    mss         bytes; timestamps cost 12 of them in every segment
    sack        lets a Linux server send a tail loss probe (the edge run)
    timestamps  let the server measure its round trip though its SYN-ACK was repeated
    early       do not wait for a timer: ACK as soon as the burst is surely over (the strongest proof, but no data RTO)
    longer      ask for a path that is not there and very long: its error page or redirect may outgrow a short page
    repeats     wait for so many retransmissions, not for the first alone (how the data RTO grows)
    slower      have the server measure a longer round trip: whether its timer grows shows how it is computed
    """
    path = lengthened(target.path) if longer else target.path
    offer = Offer(mss, sack, timestamps, wscale)
    ask = get(target.host, path, agent, cookie=cookie)
    return (yield from ask_and_withhold(ask, offer, early=early, repeats=repeats, slower=slower))


def lengthened(path: str) -> str:
    """Return a path of `LONG_PATH_BYTES` that no server has."""
    folder = path.partition("?")[0].rpartition("/")[0]
    return f"{folder}/".ljust(LONG_PATH_BYTES, "x")


def ask_and_withhold(data: bytes, offer: Offer, *, early: bool, repeats: int = 1, slower: bool = False) -> Script:
    """Connect, say `data` in a segment of its own after the handshake's ACK, and withhold."""
    opening = yield from handshake(syn_options(**offer._asdict()), WINDOW)
    if opening.synack is None:
        return opening.reason
    yield from settle(opening, slower=slower)
    options = echo(opening.synack.segment)
    yield Send(Segment(ACK, seq=1, ack=1, window=WINDOW, options=options))
    ask = asking(data, opening.synack.segment, options, offer.wscale)
    return (yield from withhold(ask, opening.rtt_s, offer, early=early, repeats=repeats))
