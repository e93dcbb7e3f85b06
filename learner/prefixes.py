# SPDX-License-Identifier: MIT
"""Which of the prefixes that outcomes name an address is in.

Rules for this file: prefixes stay as they were logged, and a name that is no network's address equals only itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

Network = IPv4Network | IPv6Network
# ::ffff:0:0/96, IPv4 inside IPv6 (RFC 4291 section 2.5.5.2).
MAPPED_BITS = 96


def network_of(text: str) -> Network | None:
    """Return an address or a prefix as a network, an address with a length as the network it is in; None for other
    words.

    IPv4 inside IPv6 is IPv4. A zone (fe80::%eth0) is an interface's name, thus no network's.
    """
    try:
        found = ip_network(text.strip(), strict=False)
    except ValueError:
        return None
    if isinstance(found, IPv4Network):
        return found
    if found.network_address.scope_id is not None:
        return None
    inner = found.network_address.ipv4_mapped
    if inner is None or found.prefixlen < MAPPED_BITS:
        return found
    return IPv4Network((inner, found.prefixlen - MAPPED_BITS))


def longest(asked: Network, prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return the longest of these prefixes that contains the whole network `asked`, in every spelling
    (192.0.2.7/24 and 192.0.2.0/24 are one network); () if none does."""
    best: list[str] = []
    length = -1
    first, last = int(asked.network_address), int(asked.broadcast_address)
    for prefix in prefixes:
        network = network_of(prefix)
        if network is None or network.version != asked.version or network.prefixlen < length:
            continue
        if int(network.network_address) <= first and last <= int(network.broadcast_address):
            best = [*best, prefix] if network.prefixlen == length else [prefix]
            length = network.prefixlen
    return tuple(best)
