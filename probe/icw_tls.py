# SPDX-License-Identifier: MIT
"""Provoke the initial window of a TLS server: say ClientHello, acknowledge nothing of the certificate that follows.

Read in `fingerprint/icw_tls.py`.
"""

from __future__ import annotations

from ipaddress import ip_address

from configtron.model.nouns import Target
from configtron.probe.client_hello import certificate_hello
from configtron.probe.icw import ask_and_withhold
from configtron.probe.script import Offer, Script


def icw_tls(
    target: Target,
    agent: str,
    *,
    mss: int = 64,
    sack: bool = False,
    timestamps: bool = False,
    wscale: int | None = None,
    early: bool = False,
) -> Script:
    """The conversation of `icw.py` with a ClientHello as its request. A small segment size makes the most of a
    certificate chain."""
    offer = Offer(mss, sack, timestamps, wscale)
    return (yield from ask_and_withhold(certificate_hello(_name(target.host)), offer, early=early))


def _name(host: str) -> str:
    try:
        ip_address(host)
    except ValueError:
        return host
    return ""
