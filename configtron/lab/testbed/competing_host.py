# SPDX-License-Identifier: MIT
"""Another host behind the servers: a namespace whose stack is the kernel's default, for flows through the same link.

Rules for this file: its flows share the servers' way to the router, and with it the whole link, both ways; settings of
the servers' stack (routes' congestion control and window, the device's pacing) act on the servers' own packets only,
since a forwarded packet has no socket there.
"""

from __future__ import annotations

from collections.abc import Sequence

from configtron.lab.internet import links
from configtron.lab.testbed.wires import ENDS, ORIGINS_NET, SERVERS, TO_SERVERS, UP, lladdr


def raise_host(netns: str, addresses: Sequence[str], first_behind: int) -> None:
    """Raise a host on a raised testbed, once a boot: for each address a device v0, v1, ... of its own.

    first_behind: number of the servers' first device towards it, s4 say; the next ones follow. Errors: `Missing`.
    """
    links.ip("", [f"netns add {netns}"])
    links.sysctl(netns, ENDS)
    links.sysctl(SERVERS, [("net/ipv4/ip_forward", "1")])
    gateway, here = f"{ORIGINS_NET}.1", lladdr(TO_SERVERS, 1)
    outside: list[str] = []
    inside: list[str] = ["link set lo up"]
    for number, address in enumerate(addresses):
        behind, device = f"s{first_behind + number}", f"v{number}"
        near, far = (lladdr(behind, end) for end in (1, 2))
        outside += [
            f"link add {behind} address {far} type veth peer name {device} address {near} netns {netns}",
            f"link set {behind} {UP}",
            f"route add {address}/32 dev {behind}",
            f"neigh replace {address} lladdr {near} dev {behind} nud permanent",
        ]
        inside += [
            f"addr add {address}/32 dev {device}",
            f"link set {device} {UP}",
            f"neigh replace {gateway} lladdr {far} dev {device} nud permanent",
            # a socket that is bound to its device takes the way of that device
            f"route add default via {gateway} dev {device} onlink metric {number + 1}",
        ]
    links.ip(SERVERS, outside)
    links.ip(netns, inside)
    links.ip("", [f"neigh replace {address} lladdr {here} dev {TO_SERVERS} nud permanent" for address in addresses])
    for number in range(len(addresses)):
        links.without_offloads(SERVERS, f"s{first_behind + number}")
        links.without_offloads(netns, f"v{number}")
