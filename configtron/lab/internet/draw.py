# SPDX-License-Identifier: MIT
"""A thousand sites in five regions, drawn by seed: what is true, before any server runs.

Question   Which settings does each site's server use, in each region?
Method     Every attribute is dealt like a pack of cards: the pack (shares.py) holds each value in the share that
           Table 2 of the ConfigTron paper gives, rounded to whole sites by largest remainder, and is shuffled by the
           seed. So the marginals are right to the site, and only the site of each card is chance.
Impaired   On demand, some sites are difficult besides; what differs on purpose is drawn first and stays the same.
Plants     The paper's share of sites gets another value in one or more regions outside North America; each is listed.
Differs    Table 2 gives marginals, not which attributes occur together: here they are independent of each other, except
           that a site's program decides which HTTP/2 frame size it can announce.
Source     Naseer & Benson, ConfigTron (2019), Table 2.

Pure: the same (seed, sites, regions) gives the same Internet on any machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address

from configtron.lab.internet import stacks
from configtron.lab.internet.deal import deal, stream
from configtron.lab.internet.impair import impair
from configtron.lab.internet.plants import plant
from configtron.lab.internet.shares import (
    CONGESTION_CONTROLS,
    ENABLE_PUSH,
    FRAME_SIZE,
    H1_PROGRAMS,
    H2_PROGRAMS,
    H2C_PERCENT,
    HEADER_TABLE_SIZE,
    ICWS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    NOPUSH_PERCENT,
    PAGES_BYTES,
    PROVIDERS,
    RTO_MINS_MS,
    RWINS,
    SHORT_MIN_ICW,
    SHORT_PAGE_BYTES,
    SHORT_PERCENT,
    STREAMS,
    SYNACK_RTOS_MS,
    UNKNOWN_SETTING,
    VERSIONS,
    WINDOWS,
    Card,
    Pack,
)
from configtron.lab.internet.sites import (
    PREFIX_CAPACITY,
    REGIONS,
    SYNACK_RETRIES,
    Internet,
    Plant,
    Region,
    Site,
    SiteServer,
    prefix,
)
from configtron.model.errors import BadInput

__all__ = ["REGIONS", "Internet", "Plant", "Region", "SiteServer", "Site", "draw"]


def draw(
    seed: int,
    sites: Sequence[str],
    regions: tuple[Region, ...] = REGIONS,
    *,
    impairments: bool = False,
    loss_percent: float = 0.0,
    reorder_percent: float = 0.0,
    duplicate_percent: float = 0.0,
    versions: tuple[int, ...] = (4,),
) -> Internet:
    """Return the internet of that seed over these names; with impairments, some sites behave badly (impairments.py).

    With 6 among the versions, all have an IPv6 address as well (addresses.py).
    """
    if len(set(sites)) != len(sites):
        raise BadInput("a site is named twice")
    hosts = list(sites)
    drawn = _baseline_sites(seed, hosts, regions)
    drawn, plants = plant(seed, drawn, regions)
    drawn = _with_short_pages(seed, drawn)
    if impairments:
        drawn = impair(seed, _with_stacks(seed, drawn), plants, regions)
    return Internet(
        seed,
        tuple(regions),
        _with_addresses(drawn),
        plants,
        loss_percent,
        reorder_percent,
        tuple(sorted({4, *versions})),
        duplicate_percent,
    )


def _baseline_sites(seed: int, hosts: list[str], regions: tuple[Region, ...]) -> list[Site]:
    """Return every site with its North American settings in every region, without addresses."""

    def dealt(purpose: str, pack: Pack[Card], count: int = len(hosts)) -> list[Card]:
        return deal(stream(seed, purpose), pack, count)

    versions = dealt("http_version", VERSIONS)
    h2_count = versions.count("h2")
    h2_programs = iter(dealt("h2 program", H2_PROGRAMS, h2_count))
    h1_programs = iter(dealt("http/1.1 program", H1_PROGRAMS, len(hosts) - h2_count))
    # Dealt apart, so that the marginals hold among h2 sites; an http/1.1 site keeps its cards up its sleeve.
    h2_cards = iter(zip(dealt("streams", STREAMS, h2_count), dealt("windows", WINDOWS, h2_count), strict=True))
    spare = len(hosts) - h2_count
    h1_cards = iter(zip(dealt("spare streams", STREAMS, spare), dealt("spare windows", WINDOWS, spare), strict=True))
    shares: Pack[str] = tuple((name, 1 / rank) for rank, name in enumerate(PROVIDERS, 1))
    providers, icws, rtos = dealt("provider", shares), dealt("icw", ICWS), dealt("synack_rto", SYNACK_RTOS_MS)
    rwins, rto_mins, controls = dealt("rwin", RWINS), dealt("rto_min", RTO_MINS_MS), dealt("cc", CONGESTION_CONTROLS)
    pages = dealt("page", PAGES_BYTES)
    nopush = dealt("nopush", ((True, NOPUSH_PERCENT), (False, 100 - NOPUSH_PERCENT)))
    h2c = dealt("h2c", ((True, H2C_PERCENT), (False, 100 - H2C_PERCENT)))
    extras = stream(seed, "extra settings")
    drawn = []
    for i, host in enumerate(hosts):
        program = next(h2_programs if versions[i] == "h2" else h1_programs)
        streams, window = next(h2_cards if versions[i] == "h2" else h1_cards)
        server = SiteServer(
            address="",
            icw=icws[i],
            synack_rto_ms=rtos[i],
            synack_retries=SYNACK_RETRIES[program],
            rto_min_ms=rto_mins[i],
            rwin_packets=rwins[i][0],
            advmss=rwins[i][1],
            congestion_control=controls[i],
            http_version=versions[i],
            max_concurrent_streams=streams,
            initial_window_size=window,
            extra_settings=_extra_settings(extras, program),
            page_bytes=pages[i],
            nopush=nopush[i] and program == "nginx",
            h2c=h2c[i] and program == "apache",
        )
        drawn.append(Site(host, providers[i], program, (server,) * len(regions)))
    return drawn


def _extra_settings(rng: random.Random, program: str) -> tuple[tuple[int, int], ...]:
    """Return a program's settings beside streams and window: Table 2 has one value of each."""
    push, odd = rng.random() < 0.5, rng.random() < 0.25
    if program == "nginx":
        return ((MAX_FRAME_SIZE, FRAME_SIZE["nginx"]),)
    if program == "apache":
        return ()
    settings = [(HEADER_TABLE_SIZE, 4096), (MAX_FRAME_SIZE, 16384), (MAX_HEADER_LIST_SIZE, 16384)]
    if program == "h2lib":
        settings += [(ENABLE_PUSH, 0)] * push + [(UNKNOWN_SETTING, 7)] * odd
    return tuple(settings)


def _with_short_pages(seed: int, sites: list[Site]) -> list[Site]:
    wide = [i for i, site in enumerate(sites) if all(s.icw >= SHORT_MIN_ICW for s in site.servers)]
    count = min(len(wide), round(len(sites) * SHORT_PERCENT / 100))
    for i in stream(seed, "short pages").sample(wide, count):
        servers = tuple(replace(server, page_bytes=SHORT_PAGE_BYTES) for server in sites[i].servers)
        sites[i] = replace(sites[i], servers=servers)
    return sites


def _with_stacks(seed: int, sites: list[Site]) -> list[Site]:
    """Return the sites of one program dealt to namespaces with settings of their own."""
    able = [i for i, site in enumerate(sites) if site.program == stacks.PROGRAM]
    pack = tuple((stack.name, stack.share) for stack in stacks.STACKS.values())
    for i, name in zip(able, deal(stream(seed, "stacks"), pack, len(able)), strict=True):
        sites[i] = replace(sites[i], servers=tuple(replace(server, stack=name) for server in sites[i].servers))
    return sites


def _with_addresses(sites: list[Site]) -> tuple[Site, ...]:
    """Number the servers within their prefixes, spread over its /24s: neighbours in the list are not so here."""
    used: dict[IPv4Address, int] = {}

    def numbered(site: Site, server: SiteServer) -> SiteServer:
        program = site.program_of(server)
        first, _ = prefix(program, server.rto_min_ms, server.advmss, server.stack)
        n = used.get(first, 0)
        if n >= PREFIX_CAPACITY:
            raise BadInput(f"more than {PREFIX_CAPACITY} servers of {program} share one route: draw fewer sites")
        used[first] = n + 1
        other = numbered(site, server.other) if server.other else None
        return replace(server, address=str(first + (n % 16) * 256 + 1 + n // 16), other=other)

    return tuple(replace(site, servers=tuple(numbered(site, server) for server in site.servers)) for site in sites)
