# SPDX-License-Identifier: MIT
"""Namespaces, links, addresses and routes of the testbed: what stands for a whole boot, whatever the condition.

Rules for this file: everything is permanent (neighbours, so that no load waits for ARP) and read back where a kernel
may refuse without a word. What changes from load to load is `network.py`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from configtron.lab.internet import links
from configtron.lab.testbed.conditions import PACKET_BYTES
from configtron.model.congestion import OF_TABLE1
from configtron.model.errors import Mismatch, Missing

# Namespaces: servers run in the one (all origins' addresses are there), page loads in the other.
SERVERS, CLIENT = "servers", "client"
CLIENT_ADDRESS, CLIENT_PREFIX = "10.0.2.2", "10.0.2.0/24"
# One more client, by the way without delay; and where the servers are for it.
WITNESS_ADDRESS, WITNESSED_ADDRESS = "10.0.2.250", "10.0.3.1"
ORIGINS_NET, MOST_ORIGINS = "10.0.1", 200
# The client's device; and, of a link that is played, the router's and the client's.
CLIENT_DEVICE, NEAR, FAR = "c0", "play0", "play1"
# The router's devices whose queues are the link.
TO_SERVERS, TO_CLIENT = "r1", "r2"
# A window's worth may stand before a device at once; the devices are no bottleneck.
DEVICE_PACKETS = 10_000
UP = f"txqueuelen {DEVICE_PACKETS} mtu {PACKET_BYTES} up"

# No cell differs in these. Buffers are those of a machine with much memory (Linux scales them with it), so that a small
# guest does not bound the window.
EVERYWHERE = (
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
)
ENDS = (
    *EVERYWHERE,
    ("net/ipv4/tcp_no_metrics_save", "1"),
    ("net/ipv4/tcp_rmem", "4096 131072 6291456"),
    ("net/ipv4/tcp_wmem", "4096 16384 4194304"),
    ("net/core/somaxconn", "4096"),
)
# Vegas is refused in a new namespace, without a word to the writer's reader, unless the first one allows it.
CONGESTION_CONTROLS = OF_TABLE1


class Pair(NamedTuple):
    """A device of a namespace, with its addresses, and the router's end of it, which is the way out."""

    netns: str
    device: str
    router_device: str
    gateway: str
    addresses: Sequence[str]

    def outer(self) -> list[str]:
        """Return commands for the router."""
        inner, outer = (lladdr(self.router_device, end) for end in (1, 2))
        peer = f"peer name {self.device} address {inner} netns {self.netns}"
        return [
            f"link add {self.router_device} address {outer} type veth {peer}",
            f"addr add {self.gateway}/24 dev {self.router_device}",
            f"link set {self.router_device} {UP}",
            *(f"neigh replace {each} lladdr {inner} dev {self.router_device} nud permanent" for each in self.addresses),
        ]

    def inner(self) -> list[str]:
        """Return commands for the namespace, once the router's are done."""
        outer = lladdr(self.router_device, 2)
        return [
            *(f"addr add {each}/24 dev {self.device}" for each in self.addresses),
            f"link set {self.device} {UP}",
            f"neigh replace {self.gateway} lladdr {outer} dev {self.device} nud permanent",
        ]


def raise_wires(addresses: Sequence[str]) -> None:
    """All of it; the servers have these addresses. Errors: `Missing`, `Mismatch`.

    In few batches: a start of `ip` costs a guest more than to put a configuration in force.
    """
    servers = Pair(SERVERS, "s0", TO_SERVERS, f"{ORIGINS_NET}.254", addresses)
    client = Pair(CLIENT, CLIENT_DEVICE, TO_CLIENT, "10.0.2.254", [CLIENT_ADDRESS])
    # the witness's way: an address among the client's, on a link without delay
    aside = Pair(SERVERS, "s1", "r3", "10.0.3.2", [WITNESSED_ADDRESS])
    _router()
    links.ip("", [f"netns add {netns}" for netns in (SERVERS, CLIENT)])
    for netns in (SERVERS, CLIENT):
        links.sysctl(netns, ENDS)
    outer = [command for pair in (servers, client, aside) for command in pair.outer()]
    links.ip("", [*outer, f"addr add {WITNESS_ADDRESS}/32 dev {aside.router_device}"])
    to_witness = f"route add {WITNESS_ADDRESS}/32 via {aside.gateway} dev {aside.device}"
    links.ip(SERVERS, [*servers.inner(), *_ways_out(servers), *aside.inner(), to_witness])
    links.ip(CLIENT, [*client.inner(), *_ways_out(client)])
    for pair in (servers, client, aside):
        links.without_offloads("", pair.router_device)
        links.without_offloads(pair.netns, pair.device)


def _ways_out(pair: Pair) -> list[str]:
    return ["link set lo up", f"route add default via {pair.gateway} dev {pair.device}"]


def _router() -> None:
    links.sysctl("", [*EVERYWHERE, ("net/ipv4/ip_forward", "1")])
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    try:
        allowed.write_text(" ".join(CONGESTION_CONTROLS))
    except OSError as error:
        raise Missing(f"congestion controls {', '.join(CONGESTION_CONTROLS)}: {error.strerror}") from error
    if set(allowed.read_text().split()) != set(CONGESTION_CONTROLS):
        raise Mismatch(f"{allowed} reads back as {allowed.read_text().strip()!r}")


def lladdr(router_device: str, end: int) -> str:
    """Return the Ethernet address of a pair's inner (1) or outer (2) end, named by its outer device."""
    return f"02:00:00:00:{ord(router_device[1]):02x}:{end:02x}"
