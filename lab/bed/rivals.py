# SPDX-License-Identifier: MIT
"""Another host's flows through the same link: a namespace behind the servers', whose stack is the kernel's default.

Rules for this file: rivals share the servers' way to the router, and with it the whole link, both ways; what is set of
the servers' stack (routes' congestion control and window, the device's pacing) acts on the servers' own packets only,
since a forwarded packet has no socket there.
"""

from __future__ import annotations

from configtron.lab import links
from configtron.lab.bed.conditions import PACKET_BYTES
from configtron.lab.bed.wires import DEVICE_PACKETS, ENDS, ORIGINS_NET, SERVERS, TO_SERVERS, lladdr

RIVALS = "rivals"
# The last of the origins' net but the router; a bed has fewer origins.
ADDRESS = f"{ORIGINS_NET}.253"
# Numbered as the router's devices are, after the last of those.
DEVICE, BEHIND = "v0", "s4"


def raise_rivals() -> str:
    """Once a boot, on a raised bed. Returns their address. Errors: `Missing`."""
    links.ip("", [f"netns add {RIVALS}"])
    links.sysctl(RIVALS, ENDS)
    links.sysctl(SERVERS, [("net/ipv4/ip_forward", "1")])
    inner, outer = (lladdr(BEHIND, end) for end in (1, 2))
    up = f"txqueuelen {DEVICE_PACKETS} mtu {PACKET_BYTES} up"
    links.ip(SERVERS, [
        f"link add {BEHIND} address {outer} type veth peer name {DEVICE} address {inner} netns {RIVALS}",
        f"link set {BEHIND} {up}",
        f"route add {ADDRESS}/32 dev {BEHIND}",
        f"neigh replace {ADDRESS} lladdr {inner} dev {BEHIND} nud permanent",
    ])  # fmt: skip
    gateway = f"{ORIGINS_NET}.1"
    links.ip(RIVALS, [
        "link set lo up",
        f"addr add {ADDRESS}/32 dev {DEVICE}",
        f"link set {DEVICE} {up}",
        f"neigh replace {gateway} lladdr {outer} dev {DEVICE} nud permanent",
        f"route add default via {gateway} dev {DEVICE} onlink",
    ])  # fmt: skip
    links.ip("", [f"neigh replace {ADDRESS} lladdr {lladdr(TO_SERVERS, 1)} dev {TO_SERVERS} nud permanent"])
    links.without_offloads(SERVERS, BEHIND)
    links.without_offloads(RIVALS, DEVICE)
    return ADDRESS
