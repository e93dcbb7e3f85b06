# SPDX-License-Identifier: MIT
"""PROBES: every way to provoke an answer. To add one.

A script in a file of its own, a row here, a reader in `fingerprint/`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from configtron.probe.craft import craft
from configtron.probe.cwnd_at_request import cwnd_at_request
from configtron.probe.delayed_ack import delayed_ack
from configtron.probe.ecn import ecn
from configtron.probe.h2_settings import h2_settings
from configtron.probe.http_version import http_version
from configtron.probe.icw import icw
from configtron.probe.icw_tls import icw_tls
from configtron.probe.idle import idle
from configtron.probe.rwin import rwin
from configtron.probe.script import Script, StreamScript
from configtron.probe.signature import signature
from configtron.probe.synack_rto import synack_rto
from configtron.probe.tfo import tfo
from configtron.probe.tls_versions import tls_versions


@dataclass(frozen=True, slots=True)
class Probe:
    """One row: `script(target, agent, **params)` makes the conversation.

    `stream` scripts speak over a kept connection.
    """

    name: str
    script: Callable[..., Script | StreamScript]
    stream: bool
    help: str


PROBES = {
    row.name: row
    for row in (
        Probe("http_version", http_version, True, "which HTTP is spoken, by ALPN and in clear"),
        Probe("h2_settings", h2_settings, True, "HTTP/2 SETTINGS in wire order, and what follows a request"),
        Probe(
            "tls_versions", tls_versions, True, "which TLS versions are agreed to, by hellos that offer fewer and fewer"
        ),
        Probe("rto", synack_rto, False, "SYN-ACK retransmissions: the final ACK is withheld"),
        Probe("icw", icw, False, "initial congestion window and data RTO: every ACK is withheld"),
        Probe("icw_tls", icw_tls, False, "initial congestion window by the certificate flight"),
        Probe("cwnd_at_request", cwnd_at_request, True, "congestion window when a request is asked inside TLS"),
        Probe("rwin", rwin, False, "receive window, scaled, after a request"),
        Probe("signature", signature, False, "options, window and quirks of the SYN-ACK"),
        Probe("delayed_ack", delayed_ack, False, "delayed acknowledgements: a request in pieces of two bytes"),
        Probe("idle", idle, False, "slow start after idle: a page, a silence, the page again"),
        Probe("ecn", ecn, False, "explicit congestion notification, by a request that is marked"),
        Probe("tfo", tfo, False, "TCP Fast Open: a cookie, and a request in a SYN"),
        Probe("craft", craft, False, "packets of the user's own template, and what answers them"),
    )
}
