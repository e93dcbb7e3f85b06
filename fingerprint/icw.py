# SPDX-License-Identifier: MIT
"""Initial congestion window.

Question   How many segments does the server send before it receives one ACK of its data?
Method     Offer a chosen MSS, ask for a page, acknowledge nothing, count the distinct segments; then acknowledge all of
           them at once with room for two and see whether fresh data comes out. The ACK must leave before any timer of
           the server fired (the early run: a later one may only show the window after a timeout), or after a tail loss
           probe: with SACK offered (the edge run), a Linux server's probe, one fresh segment alone, shows the window's
           edge. `window.py` counts the segments; `window_proofs.py` has the table of these proofs and of the
           doubts about them, and its `judged` decides between exact and a lower bound.
Stop when  the first byte is sent again (RTO), a tail loss probe comes (SACK), the response ends, or silence.
Reads as   segments heard before the first repeat, plus those that fill the holes; exact if the ACK, in time
           or after a tail loss probe, brings fresh data one round trip later, and flight and fresh data end in full
           segments (Nagle's algorithm holds back less); else a lower bound.
Fails as   no-synack, refused, no-data, reset, synack-repeated (RFC 5681 3.1: the window may have collapsed), drops.
Differs    from scamper's tbit: it counts the tail loss probe's segment as part of the window when SACK is offered;
           from COMSYS zmap: segments, not bytes; super-frames are split by the kernel's own gso_size;
           from ConfigTron 2.1: a short page gives ">= n", never "= n".
Source     Padhye & Floyd 2001 (TBIT); RFC 6928; RFC 896; ConfigTron section 2.1; net/ipv4/tcp_output.c (tcp_write_xmit,
           tcp_schedule_loss_probe).
"""

from __future__ import annotations

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.window import read_window
from configtron.model.nouns import Observation, Trace

PROBES = ("icw",)
KNOBS = ("icw",)


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one withheld-ACK trace. Exactly one observation; value in segments of `mss` bytes (details)."""
    return (read_window("icw", trace, handshake_of(trace.packets)),)
