# SPDX-License-Identifier: MIT
"""Two servers behind one address, as a load balancer has them, or an anycast network with more than one configuration.

Question   Does a prober see that an address is not one server, and not take it for a difference between regions?
Method     A mix gives the servers of a site a second face, unlike the first in one thing, and the share of connections
           that meet it; a balancer (middlebox.py) chooses by each connection's addresses and ports. A mix abroad is in
           one region outside the baseline only: a comparison of regions would see a difference now and then.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from configtron.lab.internet.shares import FRAME_SIZE, ICWS, MAX_FRAME_SIZE, STREAMS, WINDOWS, Pack
from configtron.lab.internet.sites import BASELINE, SYNACK_RETRIES, Region, Site, SiteServer

# Of the two programs that most sites have, the other one.
OTHER_PROGRAM = {"nginx": "apache", "apache": "nginx"}


@dataclass(frozen=True, slots=True)
class ServerMix:
    """kind: in what the second face differs, "icw", "settings" or "program"; percent: of connections that meet it;
    abroad: in one region only."""

    kind: str
    percent: int = 50
    abroad: bool = False


def mixed(rng: random.Random, site: Site, mix: ServerMix, regions: Sequence[Region]) -> Site:
    """Return the site with second faces. A region without one has no impairment."""
    away = [i for i, region in enumerate(regions) if region.name != BASELINE]
    where = {rng.choice(away)} if mix.abroad and away else set(range(len(regions)))
    # the same second face everywhere
    other = _other(rng, site.program, site.servers[0], mix.kind)
    servers = [
        replace(server, other=replace(other, other=None), other_percent=mix.percent)
        if i in where
        else replace(server, impairment="")
        for i, server in enumerate(site.servers)
    ]
    return replace(site, servers=tuple(servers))


def _other(rng: random.Random, program: str, server: SiteServer, kind: str) -> SiteServer:
    if kind == "icw":
        return replace(server, icw=_another(rng, ICWS, server.icw))
    if kind == "settings":
        return replace(
            server,
            max_concurrent_streams=_another(rng, STREAMS, server.max_concurrent_streams),
            initial_window_size=_another(rng, WINDOWS, server.initial_window_size),
        )
    to = OTHER_PROGRAM[program]
    extra = ((MAX_FRAME_SIZE, FRAME_SIZE[to]),) if to == "nginx" else ()
    retries = SYNACK_RETRIES[to]
    return replace(server, program=to, synack_retries=retries, extra_settings=extra, nopush=False, h2c=False, stack="")


def _another(rng: random.Random, pack: Pack[int], value: int) -> int:
    """Return another card than that one, by the pack's shares."""
    rest = [(card, share) for card, share in pack if card != value]
    return rng.choices([card for card, _ in rest], [share for _, share in rest])[0]
