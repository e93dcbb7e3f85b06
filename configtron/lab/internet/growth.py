# SPDX-License-Identifier: MIT
"""What a TLS handshake makes of a congestion window before the first request is asked.

Question   How many segments may a server have in flight once its handshake is acknowledged?
Method     Linux's own steps, one segment at a time. Cubic and Reno in slow start add what an ACK acknowledges only
           while the window limits them, or while it is below twice what was in flight; BBR adds it always until ten
           segments are delivered, and an ACK leaves it no window below four. The handshake is two flights: certificate,
           then Finished or tickets.
Reads as   Every window that the possible flights lead to; both one ACK a segment and one ACK a flight are tried, since
           an ACK may be lost.
Source     include/net/tcp.h tcp_is_cwnd_limited(), net/ipv4/tcp_output.c tcp_cwnd_validate() and tcp_write_xmit(),
           net/ipv4/tcp_cong.c tcp_slow_start(), net/ipv4/tcp_bbr.c bbr_set_cwnd().
"""

from __future__ import annotations

from itertools import product

# Segments of 536 bytes in a server's two flights: what OpenSSL writes with the laboratory's certificates, of one name
# to twenty, in TLS 1.2 and 1.3 (a test has OpenSSL write them).
CERTIFICATE_SEGMENTS, FINISHED_SEGMENTS = (2, 3, 4), (1, 2)
# What BBR never goes below once an ACK came (net/ipv4/tcp_bbr.c, bbr_cwnd_min_target), segments.
BBR_LEAST = 4
# The shortest of those first flights, bytes.
CERTIFICATE_BYTES = 900


def at_request(window: int, *, bbr: bool) -> tuple[int, ...]:
    """Return the windows that may stand at the request, ascending, if the handshake began with `window`."""
    flights = tuple(product(CERTIFICATE_SEGMENTS, FINISHED_SEGMENTS))
    if bbr:
        return tuple(sorted({_after_bbr(window, pair, whole) for pair in flights for whole in (False, True)}))
    return tuple(sorted({_after(window, pair, whole) for pair in flights for whole in (False, True)}))


def _after_bbr(cwnd: int, flights: tuple[int, ...], whole: bool) -> int:
    """BBR's window after these flights; `whole`: one ACK for all that is in flight."""
    left = sum(flights)
    while left:
        acked = min(cwnd, left) if whole else 1
        cwnd = max(cwnd + acked, BBR_LEAST)
        left -= acked
    return cwnd


def _after(cwnd: int, flights: tuple[int, ...], whole: bool) -> int:
    """Cubic's and Reno's window after these flights; `whole`: one ACK for all that is in flight."""
    acked = sent = mark = most = 0
    limited = False
    for queued in flights:
        end = sent + queued
        while acked < end:
            if more := min(end - sent, max(cwnd - (sent - acked), 0)):
                sent += more
                full = sent - acked >= cwnd
                if acked >= mark or full or (not limited and sent - acked > most):
                    limited, most, mark = full, sent - acked, sent
            gained = sent - acked if whole else 1
            cwnd += gained if limited or cwnd < 2 * most else 0
            acked += gained
    return cwnd
