# SPDX-License-Identifier: MIT
"""The laboratory's IPv6 plan: each of its IPv4 addresses has one of IPv6 that says the same.

10.a.b.c is fd10:a:b::c, with the octets in hexadecimal: unique local addresses (RFC 4193); a /24 there is a /48 here.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address

# Of an IPv4 prefix's length, the first octet's 8 bits become fd10's 16, and each of the next two 16 as well.
BITS_BEFORE = 16


def six(address: str) -> str:
    """Return the IPv6 address that goes with an IPv4 address of the laboratory."""
    _, second, third, last = IPv4Address(address).packed
    return str(IPv6Address(f"fd10:{second:x}:{third:x}::{last:x}"))


def six_prefix(prefix: str) -> str:
    """Return the same for a prefix between /8 and /24."""
    network = IPv4Network(prefix)
    second_and_third = network.prefixlen - 8
    # whole octets, then those bits of the last that count: the upper eight of each group are zero
    groups, bits = divmod(second_and_third, 8)
    length = BITS_BEFORE + 16 * groups + (8 + bits if bits else 0)
    return f"{six(str(network.network_address))}/{length}"


def bracketed(address: str) -> str:
    """As it stands before a port."""
    return f"[{address}]" if ":" in address else address
