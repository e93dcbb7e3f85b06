# SPDX-License-Identifier: MIT
"""A routing policy rule of another program: its text as `ip rule` prints it, and conditions that no lookup can test.

Dropped: flags but "not" (a rule of an absent interface matches nothing), what is suppressed by interface, and realms,
since the kernel's own lookups are asked for the result.

Source     linux/fib_rules.h; ip-rule(8)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from socket import inet_ntop

from configtron.linux.netlink import attributes
from configtron.linux.rtnetlink import FAMILIES
from configtron.tune.drivers.route.table import RULE, RULE_PRIORITY, RULE_PROTOCOL, RULE_REJECTED, RULE_TABLE

_DST, _SRC, _IIF, _L3MDEV = 1, 2, 3, 19
# Attributes by which a rule matches packets and which a lookup for a client does not set: FRA_* of linux/fib_rules.h.
_CONDITIONS = {
    10: "fwmark", 12: "tun_id", 17: "oif", 19: "l3mdev", 20: "uidrange", 22: "ipproto", 23: "sport", 24: "dport",
    25: "dscp", 26: "flowlabel",
}  # fmt: skip
# Attributes that select no packet (target, order, table, protocol, realms, what is suppressed, the mask of a mark, a
# flow label, a port or a DSCP), or that are read below. Any other selects packets, as far as we know.
_OTHERS = {_DST, _SRC, _IIF, 4, RULE_PRIORITY, 11, 13, 16, RULE_REJECTED, RULE_TABLE, 18, RULE_PROTOCOL,
           27, 28, 29, 30}  # fmt: skip
_INVERTED = 2  # FIB_RULE_INVERT
_NAMES = {253: "default", 254: "main", 255: "local"}
_ACTIONS = {1: "lookup", 2: "goto", 3: "nop", 6: "blackhole", 7: "unreachable", 8: "prohibit"}


@dataclass(frozen=True, slots=True)
class RoutingRule:
    """One rule: its text, the prefixes that it matches (None: any), and the conditions that no lookup of ours meets.

    forwards   it matches packets that arrived at an interface, so none that this host sends itself
    """

    version: int
    text: str
    source: IPv4Network | IPv6Network | None
    destination: IPv4Network | IPv6Network | None
    conditions: tuple[str, ...]
    forwards: bool = False


def parse(version: int, body: bytes) -> RoutingRule:
    """Parse a rule as the kernel lists it: struct fib_rule_hdr and attributes. `version`: 4 or 6."""
    family, dst_bits, src_bits, tos, _, _, _, action, flags = RULE.unpack_from(body)
    found = attributes(body, RULE.size)
    source = _network(version, found.get(_SRC), src_bits)
    destination = _network(version, found.get(_DST), dst_bits)
    conditions = [
        _CONDITIONS.get(kind, f"attribute {kind}") for kind in sorted(found.keys() - _OTHERS) if any(found[kind])
    ]
    if tos:
        conditions.append("tos")
    iif = found.get(_IIF, b"").rstrip(b"\0").decode()
    # Packets that this host sends itself match the interface lo.
    forwards = iif not in ("", "lo") and not flags & _INVERTED
    table = _number(found.get(RULE_TABLE))
    words = [
        f"{_number(found.get(RULE_PRIORITY))}:", "not" if flags & _INVERTED else "", f"from {source or 'all'}",
        f"to {destination}" if destination else "", f"iif {iif}" if iif else "",
        *conditions, _ACTIONS.get(action, f"action {action}"),
        _NAMES.get(table, str(table)) if action == 1 and not any(found.get(_L3MDEV, b"")) else "",
    ]  # fmt: skip
    rejected = _number(found.get(RULE_REJECTED, b"\xff" * 4))
    if rejected != 0xFFFFFFFF:
        words.append(f"suppress_prefixlength {rejected}")
    return RoutingRule(version, " ".join(filter(None, words)), source, destination, tuple(conditions), forwards)


def _network(version: int, packed: bytes | None, length: int) -> IPv4Network | IPv6Network | None:
    if packed is None or not length:
        return None
    return ip_network(f"{inet_ntop(FAMILIES[version], packed)}/{length}", strict=False)


def _number(packed: bytes | None) -> int:
    return int(struct.unpack("=I", packed)[0]) if packed else 0
