# SPDX-License-Identifier: MIT
"""Sizes and plan of the experiment on kernels: continents as mixtures of conditions, pages, what is planted when."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b

from benchmarks.live_kernel.place import AccessNetwork
from configtron.lab.testbed.model import shipped
from configtron.lab.testbed.pages import PageModel
from configtron.tune.guard import MOST_LEARNED_WINDOW

# Continent -> conditions of its networks, in order.
CONTINENTS: dict[str, tuple[str, ...]] = {
    "africa": ("access:3g,spread=6", "link:3/150/1,loss=2", "link:5/150/1,window=32768,spread=6"),
    "asia": ("link:20/100/1,spread=6", "policer:5/50/16000,spread=6", "link:10/80/1,loss=3"),
    "europe": ("link:50/20/1,spread=6", "link:20/40/1,acks=20,spread=6", "link:20/60/1,spread=6"),
    "north america": ("link:20/60/1,spread=6", "link:8/40/1", "link:50/20/1,spread=6"),
    "oceania": ("link:5/150/1,spread=6", "link:5/150/1,window=32768,spread=6", "link:20/200/1,spread=6"),
    "south america": ("link:10/80/1,loss=1,runs=8", "policer:5/50/16000,spread=6", "link:5/150/1,spread=6"),
}  # fmt: skip
# Where the networks of the continent that changes are from then on.
CHANGED, AFTER = "europe", ("link:5/150/1,spread=6", "link:10/80/1,loss=1,runs=8", "policer:5/50/16000,spread=6")
PAGES = ("bank", "manual", "results")


@dataclass(frozen=True, slots=True)
class KernelScenario:
    """Sizes, and the epochs in which something is planted; 0: never.

    networks   of each continent; clients: of each network
    begin_with outcomes from which classes are made; budget: of exploration, large since the run is short
    windows    segments of the largest initial window that is tried; more only where an operator permits it
    change     the networks of a continent become others
    squeeze    every queue becomes too short for a burst, so that what is not paced turns harmful; until the end
    lost       the second server is killed, its agent too; both are back after `lost_for` epochs
    restart    the manager is killed in mid-epoch, and started again
    """

    driver: str = "kmod"
    seed: int = 1
    epochs: int = 24
    epoch_s: int = 40
    continents: tuple[str, ...] = tuple(CONTINENTS)
    networks: int = 2
    clients: int = 60
    hosts: int = 4
    holdback: float = 0.5
    begin_with: int = 150
    budget: float = 0.2
    windows: int = MOST_LEARNED_WINDOW
    change: int = 8
    squeeze: int = 12
    lost: int = 16
    lost_for: int = 1
    restart: int = 20

    @property
    def key(self) -> bytes:
        """Return the key of the draw: other clients are held back with another seed."""
        return blake2b(str(self.seed).encode(), digest_size=16).digest()

    def access_networks(self) -> list[AccessNetwork]:
        """Return the networks of all continents."""
        found: list[AccessNetwork] = []
        for name in self.continents:
            for at in range(self.networks):
                condition = CONTINENTS[name][at % len(CONTINENTS[name])]
                found.append(AccessNetwork(len(found), name, condition, self.clients))
        return found

    def networks_in(self, epoch: int) -> list[AccessNetwork]:
        """Return the networks as they are in an epoch."""
        names, found = iter(AFTER * len(self.access_networks())), self.access_networks()
        if not self.change or epoch < self.change:
            return found
        return [replace(one, condition=next(names)) if one.continent == CHANGED else one for one in found]

    def text(self) -> str:
        """One line, for the guest."""
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> KernelScenario:
        """Return what `text` wrote."""
        form = json.loads(text)
        return KernelScenario(**form | {"continents": tuple(form["continents"])})


def pages() -> dict[str, PageModel]:
    """Return the site models that are loaded, by name."""
    return {name: page for name, page in shipped().items() if name in PAGES}
