# SPDX-License-Identifier: MIT
"""Initial congestion window of a TLS server.

Question   How many segments of its certificate flight does the server send before it receives one ACK?
Method     Offer a small MSS, send a ClientHello, acknowledge nothing; then as for `icw`. No byte was acknowledged
           before, so this is the initial window and nothing has grown it.
Stop when  as for `icw`.
Reads as   as for `icw`. The server waits for our answer after its certificate, so a chain shorter than the window
           gives a lower bound: one certificate of 1.3 kB is over after 20 segments of 64 bytes.
Fails as   as for `icw`, and tls:* (not TLS, or the server refused the ClientHello).
Differs    from scamper's tbit, which acknowledges the handshake and counts from the request on: that window may have
           grown, and is called `cwnd_at_request` here; from COMSYS zmap: TLS 1.3 too, by its own bytes.
Source     RFC 6928; RFC 8446; COMSYS zmap module_tcp_initcwnd_ssl.c.
"""

from __future__ import annotations

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.tls_versions import ALERT, ALERTS, HANDSHAKE
from configtron.fingerprint.verdict import no
from configtron.fingerprint.window import UNIT, read_window
from configtron.model.nouns import Observation, Trace

PROBES = ("icw_tls",)
KNOBS = ("icw_tls",)
# Type, version (2), length (2), level, then the alert's own number.
ALERT_AT = 6


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one withheld-ACK trace that began with a ClientHello."""
    first = next((p.segment.payload for _, p in trace.heard() if p.segment.length and p.segment.seq == 1), b"")
    if first[:1] == bytes([ALERT]) and len(first) > ALERT_AT:
        name = ALERTS.get(first[ALERT_AT], str(first[ALERT_AT]))
        return (no("icw_tls", f"tls:alert-{name}", trace, UNIT),)
    if first and first[0] != HANDSHAKE:
        return (no("icw_tls", "tls:not-tls", trace, UNIT),)
    return (read_window("icw_tls", trace, handshake_of(trace.packets)),)
