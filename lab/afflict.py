# SPDX-License-Identifier: MIT
"""Who gets which trouble: the table's shares dealt to the sites by seed.

Question   Which sites are difficult, and what does that make of their servers?
Method     Rows are dealt in exact shares (deal.py) to sites in random order; a row takes the first that it suits. What
           was planted stays visible: those sites are left alone, as are those with short pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from configtron.lab.deal import deal, stream
from configtron.lab.mixes import mixed
from configtron.lab.shares import SHORT_PAGE_BYTES
from configtron.lab.sites import SYNACK_RETRIES, Plant, Region, Site
from configtron.lab.troubles import BY_NAME, TROUBLES, Trouble

# What a site without trouble is dealt.
NONE = ""


def afflict(seed: int, sites: list[Site], plants: Sequence[Plant], regions: Sequence[Region]) -> list[Site]:
    """The sites with their troubles."""
    planted = {plant.host for plant in plants}
    order = list(range(len(sites)))
    stream(seed, "troubled sites").shuffle(order)
    free = [i for i in order if sites[i].host not in planted and sites[i].servers[0].page_bytes != SHORT_PAGE_BYTES]
    rest = 100.0 - sum(trouble.share for trouble in TROUBLES)
    rows = [(trouble.name, trouble.share) for trouble in TROUBLES]
    # where there are fewer sites than rows, chance and not the table's order decides which rows are seen
    stream(seed, "order of troubles").shuffle(rows)
    pack = (*rows, (NONE, rest))
    sites = list(sites)
    for name in deal(stream(seed, "troubles"), pack, len(sites)):
        if name == NONE:
            continue
        trouble = BY_NAME[name]
        if (i := next((i for i in free if trouble.suits(sites[i])), None)) is not None:
            free.remove(i)
            sites[i] = troubled(sites[i], trouble)
            if trouble.mix:
                sites[i] = mixed(stream(seed, f"mix {sites[i].host}"), sites[i], trouble.mix, regions)
    return sites


def troubled(site: Site, trouble: Trouble) -> Site:
    """That site with that trouble, on the trouble's program."""
    changed: dict[str, Any] = {"trouble": trouble.name, **dict(trouble.fields)}
    program = trouble.program or site.program
    if program != site.program:
        # what only the old program does
        changed |= {"synack_retries": SYNACK_RETRIES[program], "nopush": False, "h2c": False, "stack": ""}
    return replace(site, program=program, servers=tuple(replace(server, **changed) for server in site.servers))
