# SPDX-License-Identifier: MIT
"""The parts of a campaign on a cluster: so many targets of the list, from one vantage.

Part p = n * vantages + v is the targets [n * part_size, (n + 1) * part_size) from vantage v, so all vantages go through
the list at the same pace. Sessions have the same places as in a run on this host (`probe/wire/journal.py`), and so has
the file of the places that have ended; a resumed run needs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from configtron.model.nouns import Target
from configtron.probe.wire.journal import Ended
from configtron.probe.wire.listing import ListedParts


@dataclass(frozen=True, slots=True)
class Parts:
    """The list, how many targets it has, and how many vantages there are."""

    listing: ListedParts
    size: int
    vantages: int

    @property
    def part_size(self) -> int:
        """Return the number of targets of a part."""
        return self.listing.part_size

    @property
    def count(self) -> int:
        """Return the number of parts."""
        return -(-self.size // self.part_size) * self.vantages

    def vantage(self, part: int) -> int:
        """Return the number of a part's vantage."""
        return part % self.vantages

    def places(self, part: int) -> range:
        """Return the places of a part's sessions, in the order of its targets."""
        first = part // self.vantages * self.part_size
        last = min(first + self.part_size, self.size)
        return range(first * self.vantages + part % self.vantages, last * self.vantages, self.vantages)

    def targets(self, part: int) -> list[Target]:
        """Return the targets of a part."""
        return self.listing.part(part // self.vantages)

    def unfinished(self, vantage: int, ended: Ended) -> Iterator[int]:
        """Yield the parts of a vantage, in order, of which sessions have not ended when their turn comes."""
        first = ended.low // self.vantages // self.part_size * self.vantages + vantage
        return (part for part in range(first, self.count, self.vantages) if not self.done(part, ended))

    def done(self, part: int, ended: Ended) -> bool:
        """Return whether all sessions of a part have ended."""
        return all(place in ended for place in self.places(part))
