# SPDX-License-Identifier: MIT
"""Create a world's namespaces, links, addresses and routes; read back the routes of each server pool.

    v-na ... v-au   one namespace per vantage; the link at its eth0 adds half the region's delay in each direction
    (here)          the router between all links
    f-nginx ...     one namespace per server pool, with a local route for all its addresses
    dns             the name server, with one address per region, each with that region's view

With IPv6, every IPv4 address has an IPv6 counterpart (addresses.py) on the same links.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from configtron.lab.internet import links
from configtron.lab.internet.addresses import six, six_prefix
from configtron.lab.internet.shares import CONGESTION_CONTROLS
from configtron.lab.internet.world import GuestInternet, ServerPool, VantageLink
from configtron.model.errors import Missing

# Kinds of links: the second byte of their 10.x addresses (`world.py` has those of vantages and of the name server), and
# a byte of their MAC addresses.
VANTAGE_NET, DNS_NET, POOL_NET = 60, 61, 62


def raise_all(world: GuestInternet) -> None:
    """Create the whole network of a world; the server programs start later."""
    has_six = 6 in world.versions
    _router(has_six)
    for link in world.links:
        _raise_vantage(link, has_six)
    for pool in world.server_pools:
        _raise_pool(pool, has_six)
    own = [link.resolver for link in world.links]
    _pair("dns", "r-dns", DNS_NET, 0, f"10.{DNS_NET}.0.254", own)
    _neighbours("r-dns", _mac(DNS_NET, 0, 1), own)


def _router(has_six: bool) -> None:
    links.ip("", ["link set lo up"])
    links.sysctl("", [("net/ipv4/ip_forward", "1"), ("net/ipv4/conf/all/rp_filter", "0")])
    if has_six:
        links.sysctl("", [("net/ipv6/conf/all/forwarding", "1")])
    present = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    absent = {name for name, _ in CONGESTION_CONTROLS} - set(present)
    if absent:
        raise Missing(f"this kernel has no congestion control {', '.join(sorted(absent))}")


def _mac(kind: int, number: int, end: int) -> str:
    """Return a locally administered MAC address: the kind of link, its number, and which end."""
    return f"02:00:00:{kind:02x}:{number:02x}:{end:02x}"


def _pair(netns: str, router_interface: str, kind: int, number: int, gateway: str, own: Sequence[str]) -> None:
    """Create a namespace, its eth0 and the router's end; neighbour entries are permanent, so there is no ARP."""
    inner, outer = _mac(kind, number, 1), _mac(kind, number, 2)
    links.ip("", [
        f"netns add {netns}",
        f"link add {router_interface} address {outer} type veth peer name eth0 address {inner} netns {netns}",
        f"addr add {gateway}/24 dev {router_interface}",
        f"link set {router_interface} up",
    ])  # fmt: skip
    links.ip(netns, [
        "link set lo up",
        *(f"addr add {address}/24 dev eth0" for address in own),
        "link set eth0 up",
        f"neigh replace {gateway} lladdr {outer} dev eth0 nud permanent",
        f"route add default via {gateway} dev eth0",
    ])  # fmt: skip
    links.without_offloads("", router_interface)
    links.without_offloads(netns, "eth0")


def _pair6(netns: str, router_interface: str, kind: int, number: int, gateway: str, own: str) -> None:
    """Add IPv6 to a link; without duplicate address detection, which takes a second."""
    outer = _mac(kind, number, 2)
    links.ip6("", [f"addr add {six(gateway)}/64 dev {router_interface} nodad"])
    links.ip6(netns, [
        f"addr add {six(own)}/64 dev eth0 nodad",
        f"neigh replace {six(gateway)} lladdr {outer} dev eth0 nud permanent",
        f"route add default via {six(gateway)} dev eth0",
    ])  # fmt: skip


def _neighbours(router_interface: str, mac: str, addresses: Sequence[str]) -> None:
    links.ip("", [f"neigh replace {a} lladdr {mac} dev {router_interface} nud permanent" for a in addresses])


def _raise_vantage(link: VantageLink, has_six: bool) -> None:
    _pair(link.netns, link.router_interface, VANTAGE_NET, link.number, link.router_address, (link.kernel_address,))
    known = [link.kernel_address, link.prober_address]
    if has_six:
        _pair6(link.netns, link.router_interface, VANTAGE_NET, link.number, link.router_address, link.kernel_address)
        known += [six(address) for address in known]
    _neighbours(link.router_interface, _mac(VANTAGE_NET, link.number, 1), known)
    # the kernel does not own the prober's address: with forwarding on, it would route the prober's packets back out
    links.sysctl(link.netns, [("net/ipv4/ip_forward", "0"), ("net/ipv4/conf/all/rp_filter", "0")])
    if link.rtt_ms or link.loss_percent or link.duplicate_percent:
        ends = (("", link.router_interface, 0), (link.netns, "eth0", 1))
        for netns, interface, end in ends:
            seed = link.seed * 2 + end
            links.netem(
                netns,
                interface,
                delay_ms=link.rtt_ms / 2,
                loss_percent=link.loss_percent,
                reorder_percent=link.reorder_percent,
                duplicate_percent=link.duplicate_percent,
                seed=seed,
            )


def _raise_pool(pool: ServerPool, has_six: bool) -> None:
    own, router = f"10.{POOL_NET}.{pool.number}.1", f"10.{POOL_NET}.{pool.number}.254"
    _pair(pool.netns, pool.router_interface, POOL_NET, pool.number, router, (own,))
    _neighbours(pool.router_interface, _mac(POOL_NET, pool.number, 1), (own,))
    links.ip("", [f"route add {pool.prefix} via {own} dev {pool.router_interface}"])
    links.ip(pool.netns, _routes(pool, pool.prefix, router, [route.prefix for route in pool.routes]))
    _check_routes(pool, "-4", [route.prefix for route in pool.routes])
    if has_six:
        prefixes = [six_prefix(route.prefix) for route in pool.routes]
        _pair6(pool.netns, pool.router_interface, POOL_NET, pool.number, router, own)
        _neighbours(pool.router_interface, _mac(POOL_NET, pool.number, 1), (six(own),))
        links.ip6("", [f"route add {six_prefix(pool.prefix)} via {six(own)} dev {pool.router_interface}"])
        links.ip6(pool.netns, _routes(pool, six_prefix(pool.prefix), six(router), prefixes))
        _check_routes(pool, "-6", prefixes)
    links.sysctl(pool.netns, pool.sysctls)


def _routes(pool: ServerPool, whole: str, router: str, prefixes: Sequence[str]) -> list[str]:
    """Return `ip` commands: all addresses of the pool are local, and a rule per prefix selects its route's table."""
    rules = [f"route add local {whole} dev lo"]
    for route, prefix in zip(pool.routes, prefixes, strict=True):
        rules.append(f"rule add from {prefix} lookup {route.table}")
        metrics = f"rto_min {route.rto_min_ms}ms advmss {route.advmss} window {route.window_bytes}"
        rules.append(f"route add default via {router} dev eth0 table {route.table} {metrics}")
    return rules


def _check_routes(pool: ServerPool, family: str, prefixes: Sequence[str]) -> None:
    shown = _shown(pool, family, "rule")
    for route, prefix in zip(pool.routes, prefixes, strict=True):
        if f"from {prefix} lookup {route.table}" not in shown:
            raise Missing(f"{pool.netns}: no rule for {prefix}")
        text = _shown(pool, family, "route", "show", "table", str(route.table))
        # iproute2 prints whole seconds as "1s"
        rto_min = f"{route.rto_min_ms // 1000}s" if route.rto_min_ms % 1000 == 0 else f"{route.rto_min_ms}ms"
        wanted = (f"rto_min lock {rto_min}", f"advmss {route.advmss}", f"window {route.window_bytes}")
        if any(metric not in text for metric in wanted):
            raise Missing(f"{pool.netns}: table {route.table} shows {text.strip()!r}")


def _shown(pool: ServerPool, *words: str) -> str:
    return subprocess.run(["ip", "-netns", pool.netns, *words], capture_output=True, text=True).stdout
