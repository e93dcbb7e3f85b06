# SPDX-License-Identifier: MIT
"""The laboratory's nouns: regions, sites, their servers, and where in the address plan each server lies."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address

from configtron.lab.internet.shares import RTO_MINS_MS
from configtron.lab.internet.stacks import STACKS


@dataclass(frozen=True, slots=True)
class Region:
    """A place to look from. `number` is its octet in the laboratory's addresses."""

    name: str
    title: str
    number: int
    rtt_ms: int


REGIONS = (
    Region("na", "North America", 1, 20),
    Region("sa", "South America", 2, 150),
    Region("as", "Asia", 3, 250),
    Region("eu", "Europe", 4, 80),
    Region("au", "Australia", 5, 400),
)
# Table 2 compares every region with this one.
BASELINE = "na"

# One /16 a program; one /20 in it for each (rto_min, announced MSS), because the server's route is chosen by prefix.
# `odd` is the program of configtron/lab/servers/odd.py: impairments that no well-behaved program has.
PROGRAM_OCTET = {"nginx": 11, "apache": 12, "h2lib": 13, "node": 14, "odd": 15}
# Linux gives up after this many SYN-ACKs more; a namespace has one number, so a program has one.
SYNACK_RETRIES = {"nginx": 5, "apache": 3, "h2lib": 2, "node": 4, "odd": 3}
# tcp_rmem's largest value: decides the window scale (2**7 * 65536 > 6 MiB).
RMEM_MAX_BYTES = {"nginx": 6291456, "apache": 6291456, "h2lib": 16777216, "node": 1048576, "odd": 2097152}
RTO_MINS = tuple(sorted(value for value, _ in RTO_MINS_MS))
ADVMSSES = (1460, 1440, 1380)
# A /20 without the first and last address of each /24.
PREFIX_CAPACITY = 16 * 254


@dataclass(frozen=True, slots=True)
class SiteServer:
    """One site's server in one region. `impairment` and `stack` name rows of impairments.py and stacks.py, if any.

    Of its connections, `other_percent` meet the `other` server instead, which may be on a `program` of its own.
    """

    address: str
    icw: int
    synack_rto_ms: int
    synack_retries: int
    rto_min_ms: int
    rwin_packets: int
    advmss: int
    congestion_control: str
    http_version: str
    max_concurrent_streams: int
    initial_window_size: int
    extra_settings: tuple[tuple[int, int], ...]
    page_bytes: int
    nopush: bool
    h2c: bool
    impairment: str = ""
    stack: str = ""
    program: str = ""
    other: SiteServer | None = None
    other_percent: int = 0

    @property
    def faces(self) -> tuple[SiteServer, ...]:
        """This server, and the other if there is one."""
        return (self, self.other) if self.other else (self,)


@dataclass(frozen=True, slots=True)
class Site:
    """One name: its provider, its program, and its server in each region (in the Internet's order of regions)."""

    host: str
    provider: str
    program: str
    servers: tuple[SiteServer, ...]

    @property
    def faces(self) -> tuple[SiteServer, ...]:
        """All servers with all their faces."""
        return tuple(face for server in self.servers for face in server.faces)

    def program_of(self, server: SiteServer) -> str:
        """Return the program of that server of the site."""
        return server.program or self.program


@dataclass(frozen=True, slots=True)
class Plant:
    """A difference put there on purpose: a knob of a host has `value` in `region`, `baseline` in North America."""

    host: str
    knob: str
    region: str
    baseline: str
    value: str


@dataclass(frozen=True, slots=True)
class Internet:
    """The whole truth of one seed. Percentages are of packets, on each link, in each direction.

    `versions` of IP are those that every server has an address of; 4 is always among them.
    """

    seed: int
    regions: tuple[Region, ...]
    sites: tuple[Site, ...]
    plants: tuple[Plant, ...]
    loss_percent: float = 0.0
    reorder_percent: float = 0.0
    versions: tuple[int, ...] = (4,)
    duplicate_percent: float = 0.0

    def region(self, name: str) -> Region:
        """Return the region of that name."""
        return next(region for region in self.regions if region.name == name)

    def site(self, host: str) -> Site:
        """Return the site of that name."""
        return next(site for site in self.sites if site.host == host)

    def server(self, region: str, host: str) -> SiteServer:
        """Return the server that a client in `region` is sent to."""
        return self.site(host).servers[[r.name for r in self.regions].index(region)]


def octet(program: str, stack: str = "") -> int:
    """Return the second of their addresses' octets."""
    return STACKS[stack].octet or PROGRAM_OCTET[program]


def prefix(program: str, rto_min_ms: int, advmss: int, stack: str = "") -> tuple[IPv4Address, int]:
    """Return (first address, prefix length) of a program's servers with that route, in that stack."""
    block = RTO_MINS.index(rto_min_ms) * len(ADVMSSES) + ADVMSSES.index(advmss)
    return IPv4Address(f"10.{octet(program, stack)}.{block * 16}.0"), 20
