# SPDX-License-Identifier: MIT
"""What a guest needs to raise its share of an Internet, in one JSON file: links, server pools, files, socket settings.

The file has the truth about every server, so it lies in the folder that the guest hides from the command it runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from configtron.lab.internet import middlebox, server_pools, sockops, stacks
from configtron.lab.internet.addresses import six, six_prefix
from configtron.lab.internet.bpf import compiled
from configtron.lab.internet.certificates import chains
from configtron.lab.internet.impairments import BY_NAME
from configtron.lab.internet.sites import (
    ADVMSSES,
    PROGRAM_OCTET,
    RMEM_MAX_BYTES,
    RTO_MINS,
    SYNACK_RETRIES,
    Internet,
    Region,
    Site,
    octet,
    prefix,
)
from configtron.lab.internet.sockops import SocketSettings
from configtron.model.nouns import Vantage

# Where the servers' sockets find their settings, and how many of one address class fit a guest's routing table.
FIRST_TABLE = 101


@dataclass(frozen=True, slots=True)
class VantageLink:
    """A vantage's namespace and the link it stands behind."""

    name: str
    title: str
    netns: str
    router_interface: str
    number: int
    rtt_ms: int
    loss_percent: float
    reorder_percent: float
    duplicate_percent: float
    seed: int

    @property
    def kernel_address(self) -> str:
        """Owned by the vantage's kernel: DNS and other ordinary sockets."""
        return f"10.60.{self.number}.1"

    @property
    def prober_address(self) -> str:
        """Owned by no kernel, so that none resets the prober's connections."""
        return f"10.60.{self.number}.2"

    def prober_address6(self, versions: Sequence[int]) -> str:
        """Return the same in IPv6, if there is any."""
        return six(self.prober_address) if 6 in versions else ""

    @property
    def router_address(self) -> str:
        """The other end of the link."""
        return f"10.60.{self.number}.254"

    @property
    def resolver(self) -> str:
        """The name server's address for this region."""
        return f"10.61.0.{self.number}"


@dataclass(frozen=True, slots=True)
class ServerRoute:
    """Which minimum RTO, announced MSS and largest window servers of a prefix have, in which routing table.

    The window is tcp_rmem's largest: the scale announced is of the larger of that and net.core.rmem_max, which the host
    keeps for all its namespaces, unless the route has a limit (net/ipv4/tcp_output.c, tcp_select_initial_window).
    """

    prefix: str
    table: int
    rto_min_ms: int
    advmss: int
    window_bytes: int


@dataclass(frozen=True, slots=True)
class ServerPool:
    """A namespace with one server program behind many addresses."""

    name: str
    program: str
    netns: str
    router_interface: str
    number: int
    prefix: str
    routes: tuple[ServerRoute, ...]
    sysctls: tuple[tuple[str, str], ...]

    def holds(self, address: str) -> bool:
        """Return whether that server address is one of its."""
        prefix = six_prefix(self.prefix) if ":" in address else self.prefix
        return ip_address(address) in ip_network(prefix)


@dataclass(frozen=True, slots=True)
class GuestInternet:
    """What one guest raises. `files` are texts, `pages` sizes; both are laid out under `server_pools.FOLDER`.

    `rules` are middleboxes' by server address, `second_backends` say which addresses are two servers (middlebox.py).
    """

    seed: int
    hosts: tuple[str, ...]
    links: tuple[VantageLink, ...]
    server_pools: tuple[ServerPool, ...]
    settings: tuple[SocketSettings, ...]
    rules: tuple[tuple[str, middlebox.MiddleboxRule], ...]
    second_backends: tuple[middlebox.SecondBackend, ...]
    files: tuple[tuple[str, str], ...]
    pages: tuple[int, ...]
    versions: tuple[int, ...]

    @property
    def vantages(self) -> tuple[Vantage, ...]:
        """The same links as a campaign names them."""
        return tuple(_vantage(link, self.versions) for link in self.links)

    def write(self, path: Path) -> None:
        """One JSON file, the same bytes for the same world, and beside it the compiled programs."""
        shutil.copyfile(compiled(sockops.SOURCE), path.with_name(sockops.OBJECT))
        if self.rules or self.second_backends:
            shutil.copyfile(compiled(middlebox.SOURCE), path.with_name(middlebox.OBJECT))
        path.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")


def read(path: Path) -> GuestInternet:
    """Return the world written there."""
    row = json.loads(path.read_text())
    return GuestInternet(
        row["seed"],
        tuple(row["hosts"]),
        tuple(VantageLink(**link) for link in row["links"]),
        tuple(_pool_of(pool) for pool in row["server_pools"]),
        tuple(SocketSettings(**setting) for setting in row["settings"]),
        tuple((address, middlebox.MiddleboxRule(**rule)) for address, rule in row["rules"]),
        tuple(middlebox.SecondBackend(**second) for second in row["second_backends"]),
        tuple((name, text) for name, text in row["files"]),
        tuple(row["pages"]),
        tuple(row["versions"]),
    )


def _pool_of(row: dict[str, Any]) -> ServerPool:
    row["routes"] = tuple(ServerRoute(**route) for route in row["routes"])
    row["sysctls"] = tuple((name, value) for name, value in row["sysctls"])
    return ServerPool(**row)


def shards(internet: Internet, count: int) -> tuple[tuple[str, ...], ...]:
    """Return the sites dealt to `count` guests, so that each gets the same mixture."""
    hosts = [site.host for site in internet.sites]
    return tuple(tuple(hosts[i::count]) for i in range(count))


def world(internet: Internet, shard: Sequence[str] | None = None) -> GuestInternet:
    """Return the world of those sites (of all, when none are named)."""
    wanted = set(site.host for site in internet.sites) if shard is None else set(shard)
    sites = [site for site in internet.sites if site.host in wanted]
    certificates, files = chains(internet, sites)
    raised = []
    for name, (program, stack) in _pool_names().items():
        virtual_hosts = [
            server_pools.VirtualHost(certificates[site.host], server, _both(internet, server.address))
            for site in sites
            for server in site.faces
            if (site.program_of(server), server.stack) == (program, stack)
        ]
        if virtual_hosts:
            raised.append(_pool(name, program, stack, virtual_hosts))
            files.append(server_pools.configuration(name, program, virtual_hosts))
    files.append(("zones.json", _zones(internet, sites)))
    links = tuple(_link(internet, region) for region in internet.regions)
    files.append(("vantages.toml", vantages_toml(links, internet.versions)))
    servers = [server for site in sites for server in site.faces]
    settings = tuple(
        SocketSettings(address, s.icw, s.synack_rto_ms, s.rwin_packets, s.congestion_control)
        for s in servers
        for address in _both(internet, s.address)
    )
    rules = tuple(
        (address, rule)
        for s in servers
        if s.impairment and (rule := BY_NAME[s.impairment].middlebox)
        for address in _both(internet, s.address)
    )
    second_backends = tuple(
        middlebox.SecondBackend(address, other, s.other_percent)
        for s in servers
        if s.other
        for address, other in zip(_both(internet, s.address), _both(internet, s.other.address), strict=True)
    )
    pages = tuple(sorted({server.page_bytes for server in servers}))
    hosts = tuple(site.host for site in sites)
    raised_pools, texts = tuple(raised), tuple(files)
    return GuestInternet(
        internet.seed, hosts, links, raised_pools, settings, rules, second_backends, texts, pages, internet.versions
    )


def vantages(internet: Internet) -> tuple[Vantage, ...]:
    """Return the regions' links as a campaign names them, without what stands behind them."""
    return tuple(_vantage(_link(internet, region), internet.versions) for region in internet.regions)


def _vantage(link: VantageLink, versions: Sequence[int]) -> Vantage:
    six = link.prober_address6(versions)
    return Vantage(link.name, link.title, link.netns, "eth0", link.prober_address, six, link.resolver)


def _both(internet: Internet, address: str) -> tuple[str, ...]:
    """That address, and its IPv6 other where there is one."""
    return (address, six(address)) if 6 in internet.versions else (address,)


def _link(internet: Internet, region: Region) -> VantageLink:
    seed = internet.seed * 256 + region.number
    return VantageLink(
        region.name,
        region.title,
        f"v-{region.name}",
        f"r-{region.name}",
        region.number,
        region.rtt_ms,
        internet.loss_percent,
        internet.reorder_percent,
        internet.duplicate_percent,
        seed,
    )


def _pool_names() -> dict[str, tuple[str, str]]:
    """ServerPool -> program and stack: one for each program, and of one program one more for each named stack."""
    plain = {program: (program, "") for program in PROGRAM_OCTET}
    return plain | {f"{stacks.PROGRAM}-{stack.name}": (stacks.PROGRAM, stack.name) for stack in stacks.NAMED}


def _pool(name: str, program: str, stack: str, hosts: Sequence[server_pools.VirtualHost]) -> ServerPool:
    """Only the routes that its servers need: every packet's route lookup walks the rules."""
    classes = {(host.server.rto_min_ms, host.server.advmss) for host in hosts}
    routes: list[ServerRoute] = []
    for rto_min_ms in RTO_MINS:
        for advmss in ADVMSSES:
            if (rto_min_ms, advmss) in classes:
                first, length = prefix(program, rto_min_ms, advmss, stack)
                table, window = FIRST_TABLE + len(routes), RMEM_MAX_BYTES[program]
                routes.append(ServerRoute(f"{first}/{length}", table, rto_min_ms, advmss, window))
    number = octet(program, stack)
    sysctls = (
        ("net/ipv4/tcp_synack_retries", str(SYNACK_RETRIES[program])),
        # a kernel that remembers one client's congestion would let the next trial see another window
        ("net/ipv4/tcp_no_metrics_save", "1"),
        # a full queue must not change what is measured: no cookies, no shortened SYN-ACK timeouts
        ("net/ipv4/tcp_syncookies", "0"),
        ("net/ipv4/tcp_max_syn_backlog", "65536"),
        ("net/core/somaxconn", "65536"),
        # the largest value decides the window scale that is announced
        ("net/ipv4/tcp_rmem", f"4096 131072 {RMEM_MAX_BYTES[program]}"),
        # servers answer the addresses of the whole world, not only their link's
        ("net/ipv4/conf/all/rp_filter", "0"),
        *((f"net/ipv4/{setting}", value) for setting, value in stacks.STACKS[stack].sysctls),
    )
    return ServerPool(
        name, program, f"f-{name}", f"r-{stack or program}", number, f"10.{number}.0.0/16", tuple(routes), sysctls
    )


def _zones(internet: Internet, sites: list[Site]) -> str:
    views = {
        _link(internet, region).resolver: {site.host: _both(internet, site.servers[i].address) for site in sites}
        for i, region in enumerate(internet.regions)
    }
    return json.dumps({"views": views}, indent=1, sort_keys=True) + "\n"


def vantages_toml(links: Sequence[VantageLink], versions: Sequence[int] = (4,)) -> str:
    """Return the vantages as a campaign reads them."""
    blocks = []
    for k in links:
        rows = {
            "name": k.name, "region": k.title, "netns": k.netns, "interface": "eth0",
            "source_address": k.prober_address, "source_address6": k.prober_address6(versions), "resolver": k.resolver,
        }  # fmt: skip
        blocks.append("[[vantage]]\n" + "".join(f'{name} = "{text}"\n' for name, text in rows.items() if text))
    return "\n".join(blocks)
