# SPDX-License-Identifier: MIT
"""Sizes and plan of the experiment on kernels: continents as mixtures of conditions, pages, what is planted when."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from benchmarks.live_kernel.place import AccessNetwork
from configtron.lab.testbed.model import shipped
from configtron.lab.testbed.pages import PageModel

# Continent -> conditions of its networks, in order.
CONTINENTS: dict[str, tuple[str, ...]] = {
    "africa": ("access:3g,spread=6", "link:3/150/1,loss=2", "link:5/150/1,window=32768,spread=6"),
    "asia": ("link:20/100/1,spread=6", "policer:5/50/16000,spread=6", "link:10/80/1,loss=3"),
    "europe": ("link:50/20/1,spread=6", "link:20/60/1,spread=6", "link:20/40/1,acks=20,spread=6"),
    "north america": ("link:20/60/1,spread=6", "link:50/20/1,spread=6", "link:8/40/1,neighbours=1"),
    "oceania": ("link:5/150/1,spread=6", "link:20/200/1,spread=6", "link:5/150/1,window=32768,spread=6"),
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
    change     the networks of a continent become others
    squeeze    every queue becomes too short for a burst, so that what is not paced turns harmful; until the end
    lost       the second server is killed, its agent too; both are back after `lost_for` epochs
    restart    the manager is killed in mid-epoch, and started again
    """

    driver: str = "kmod"
    seed: int = 1
    epochs: int = 12
    epoch_s: int = 60
    continents: tuple[str, ...] = tuple(CONTINENTS)
    networks: int = 3
    clients: int = 60
    hosts: int = 4
    holdback: float = 0.5
    policy: str = "thompson"
    begin_with: int = 600
    budget: float = 0.1
    change: int = 6
    squeeze: int = 8
    lost: int = 10
    lost_for: int = 1
    restart: int = 11

    def quiet(self) -> KernelScenario:
        """Return the same without anything planted."""
        return replace(self, change=0, squeeze=0, lost=0, restart=0)

    def access_networks(self) -> list[AccessNetwork]:
        """Return the networks of all continents."""
        found: list[AccessNetwork] = []
        for name in self.continents:
            for at in range(self.networks):
                condition = CONTINENTS[name][at % len(CONTINENTS[name])]
                found.append(AccessNetwork(len(found), name, condition, self.clients))
        return found

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
