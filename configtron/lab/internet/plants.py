# SPDX-License-Identifier: MIT
"""Differences put there on purpose: the paper's share of sites is set otherwise in some regions.

Question   Would a prober that compares regions see what differs, and nothing else?
Method     For each knob of `CHANGES`, a random sample of the paper's size (shares.py, HETEROGENEITY) gets another
           value, the same one in one or more regions outside North America. Each such (host, knob, region) is listed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from configtron.lab.internet.deal import stream
from configtron.lab.internet.shares import HETEROGENEITY, ICWS, RWINS, STREAMS, SYNACK_RTOS_MS, VERSIONS, WINDOWS, Pack
from configtron.lab.internet.sites import BASELINE, Plant, Region, Site, SiteServer


@dataclass(frozen=True, slots=True)
class KnobVariation:
    """How a knob is planted: the server's fields that it is, the packs' cards for them, and how it is read."""

    fields: tuple[str, ...]
    cards: tuple[tuple[tuple[int | str, ...], float], ...]
    read: Callable[[SiteServer], object]
    only_h2: bool = False

    def values(self, server: SiteServer) -> tuple[int | str, ...]:
        """Return the fields as they are."""
        return tuple(getattr(server, field) for field in self.fields)

    def other(self, rng: random.Random, server: SiteServer) -> dict[str, int | str]:
        """Return another card than the server's, by the pack's shares."""
        rest = [(card, share) for card, share in self.cards if card != self.values(server)]
        drawn = rng.choices([card for card, _ in rest], [share for _, share in rest])[0]
        return dict(zip(self.fields, drawn, strict=True))


def _single(pack: Pack[int] | Pack[str]) -> tuple[tuple[tuple[int | str, ...], float], ...]:
    return tuple(((card,), share) for card, share in pack)


# http_version first: differences of SETTINGS are planted where both regions show some.
CHANGES = {
    "http_version": KnobVariation(("http_version",), _single(VERSIONS), lambda s: s.http_version),
    "h2_max_concurrent_streams": KnobVariation(
        ("max_concurrent_streams",), _single(STREAMS), lambda s: s.max_concurrent_streams, only_h2=True
    ),
    "h2_initial_window_size": KnobVariation(
        ("initial_window_size",), _single(WINDOWS), lambda s: s.initial_window_size, only_h2=True
    ),
    "icw": KnobVariation(("icw",), _single(ICWS), lambda s: s.icw),
    "synack_rto": KnobVariation(("synack_rto_ms",), _single(SYNACK_RTOS_MS), lambda s: s.synack_rto_ms / 1000),
    "rwin": KnobVariation(("rwin_packets", "advmss"), RWINS, lambda s: s.rwin_packets * s.advmss),
}


def plant(seed: int, sites: list[Site], regions: tuple[Region, ...]) -> tuple[list[Site], tuple[Plant, ...]]:
    """The sites with the paper's share of them changed in one or more regions away from the baseline, and the list."""
    away = [i for i, region in enumerate(regions) if region.name != BASELINE]
    if not away or len(away) == len(regions):
        return sites, ()
    base = next(i for i, region in enumerate(regions) if region.name == BASELINE)
    sites = list(sites)
    plants: list[Plant] = []
    for knob, change in CHANGES.items():
        rng = stream(seed, f"plant {knob}")
        for i in _sample(rng, knob, change, [site.servers for site in sites], base):
            # Mostly one region, sometimes several: Table 2's examples name one.
            where = sorted(rng.sample(away, rng.choice([1, 1, 1, min(2, len(away)), len(away)])))
            servers = list(sites[i].servers)
            fields = change.other(rng, servers[base])
            for w in where:
                servers[w] = replace(servers[w], **fields)  # type: ignore[arg-type]
                read = [str(change.read(server)) for server in (servers[base], servers[w])]
                plants.append(Plant(sites[i].host, knob, regions[w].name, read[0], read[1]))
            sites[i] = replace(sites[i], servers=tuple(servers))
    return sites, tuple(plants)


def _sample(
    rng: random.Random, knob: str, change: KnobVariation, sites: list[tuple[SiteServer, ...]], base: int
) -> list[int]:
    """Which sites: the share is of all that show the knob in the baseline, chosen among those that do in all."""
    shown = [i for i, servers in enumerate(sites) if not change.only_h2 or servers[base].http_version == "h2"]
    count = round(len(shown) * HETEROGENEITY[knob] / 100)
    everywhere = [i for i in shown if not change.only_h2 or all(s.http_version == "h2" for s in sites[i])]
    return sorted(rng.sample(everywhere, count))
