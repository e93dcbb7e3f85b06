# SPDX-License-Identifier: MIT
"""Provoke the server's window at a request inside TLS: shake hands, be quiet, ask, acknowledge nothing.

Read in `fingerprint/cwnd_at_request.py`.
"""

from __future__ import annotations

from configtron.model.nouns import Session, Target
from configtron.probe.script import Hold, Offer, Open, StreamScript, get


def cwnd_at_request(
    target: Target,
    agent: str,
    *,
    mss: int = 536,
    sack: bool = False,
    timestamps: bool = False,
    wscale: int | None = 7,
    early: bool = False,
    cookie: str = "",
) -> StreamScript:
    """A GET over TLS and HTTP/1.1; options as in `icw.py`."""
    session = yield Open(tls=True, alpn=("http/1.1",), offer=Offer(mss, sack, timestamps, wscale), late=True)
    assert isinstance(session, Session)
    if session.error:
        return session.error
    yield Hold(get(target.host, target.path, agent, cookie=cookie), early)
    return "done"
