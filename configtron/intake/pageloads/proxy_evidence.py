# SPDX-License-Identifier: MIT
"""Whether visitors' own connections end on this host, or a proxy's: without them no page load joins.

Question   Do clients reach this server directly?
Method     Of the connections to its web ports, which share comes from this host, from private addresses, or from a few
           addresses alone. A reverse proxy or load balancer shows as one of these; clients directly as many addresses.
Stop when  `LEAST` connections are seen.
Reads as   "direct", or "proxied" with the addresses' kind.
Fails as   "too few connections", with how many; a delivery network with many addresses passes for "direct": named in
           the text, for the host alone cannot know.
Source     RFC 1918, RFC 4193, RFC 6598 (addresses behind which proxies stand)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

from configtron.fingerprint.features import plain

# Fewer connections prove nothing; proxies have most of them, from so few addresses.
LEAST, MOST_SHARE, FEW = 20, 0.95, 4
DIRECT, PROXIED, TOO_FEW = "direct", "proxied", "too few connections"


class ProxyEvidence(NamedTuple):
    """The verdict, and in one line on what it stands."""

    verdict: str
    why: str


def proxy_evidence(remotes: Iterable[bytes]) -> ProxyEvidence:
    """Return whether connections from these addresses (packed, one a connection) are visitors' own."""
    counts = Counter(plain(remote) for remote in remotes)
    total = counts.total()
    if total < LEAST:
        return ProxyEvidence(TOO_FEW, f"{total} of the {LEAST} that a verdict needs; look again under load")
    inside = sum(count for address, count in counts.items() if not ip_address(address).is_global)
    if inside >= MOST_SHARE * total:
        why = f"{inside} of {total} connections come from addresses that are not public: no page load joins"
        return ProxyEvidence(PROXIED, why)
    most = sum(count for _, count in counts.most_common(FEW))
    if most >= MOST_SHARE * total and len(counts) <= total / 4:
        return ProxyEvidence(PROXIED, f"{most} of {total} connections come from {min(FEW, len(counts))} addresses")
    why = f"{total} connections come from {len(counts)} addresses; those of a delivery network would look so, too"
    return ProxyEvidence(DIRECT, why)
