# SPDX-License-Identifier: MIT
"""Deal impairments to sites: the table's shares, by seed.

Question   Which sites are difficult, and what does that make of their servers?
Method     Rows are dealt in exact shares (deal.py) to sites in random order; a row takes the first that it suits. What
           was planted stays visible: those sites are left alone, as are those with short pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from configtron.lab.internet.deal import deal, stream
from configtron.lab.internet.impairments import BY_NAME, IMPAIRMENTS, Impairment
from configtron.lab.internet.mixes import mixed
from configtron.lab.internet.shares import SHORT_PAGE_BYTES
from configtron.lab.internet.sites import SYNACK_RETRIES, Plant, Region, Site

# What a site without impairment is dealt.
NONE = ""


def impair(seed: int, sites: list[Site], plants: Sequence[Plant], regions: Sequence[Region]) -> list[Site]:
    """Return the sites with their impairments."""
    planted = {plant.host for plant in plants}
    order = list(range(len(sites)))
    stream(seed, "troubled sites").shuffle(order)
    free = [i for i in order if sites[i].host not in planted and sites[i].servers[0].page_bytes != SHORT_PAGE_BYTES]
    rest = 100.0 - sum(impairment.share for impairment in IMPAIRMENTS)
    rows = [(impairment.name, impairment.share) for impairment in IMPAIRMENTS]
    # where there are fewer sites than rows, chance and not the table's order decides which rows are seen
    stream(seed, "order of troubles").shuffle(rows)
    pack = (*rows, (NONE, rest))
    sites = list(sites)
    for name in deal(stream(seed, "troubles"), pack, len(sites)):
        if name == NONE:
            continue
        impairment = BY_NAME[name]
        if (i := next((i for i in free if impairment.suits(sites[i])), None)) is not None:
            free.remove(i)
            sites[i] = impaired(sites[i], impairment)
            if impairment.mix:
                sites[i] = mixed(stream(seed, f"mix {sites[i].host}"), sites[i], impairment.mix, regions)
    return sites


def impaired(site: Site, impairment: Impairment) -> Site:
    """That site with that impairment, on the impairment's program."""
    changed: dict[str, Any] = {"impairment": impairment.name, **dict(impairment.fields)}
    program = impairment.program or site.program
    if program != site.program:
        # what only the old program does
        changed |= {"synack_retries": SYNACK_RETRIES[program], "nopush": False, "h2c": False, "stack": ""}
    return replace(site, program=program, servers=tuple(replace(server, **changed) for server in site.servers))
