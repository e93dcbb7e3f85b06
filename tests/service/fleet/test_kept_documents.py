# SPDX-License-Identifier: MIT
"""Documents for an agent's next start, on a disk that is full now and then."""

from __future__ import annotations

from configtron.model.errors import Unwritten
from configtron.service.fleet.kept_documents import DrawnPlace, KeptDocuments

Place = tuple[int, int]


class FullNowAndThen:
    """A journal in memory; nothing is written while it is full."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.is_full = False

    def keep(self, document: bytes, term: int, version: int) -> None:
        self._check()
        self.places.append((term, version))

    def turned(self, drawn: DrawnPlace, first: Place) -> None:
        self._check()
        self.places = [place for place in self.places if place >= first]

    def dropped(self, place: Place) -> None:
        self._check()
        self.places = [each for each in self.places if each <= place]

    def _check(self) -> None:
        if self.is_full:
            raise Unwritten("no space left on device")


def test_a_map_that_was_given_up_on_a_full_disk_does_not_stand_between_two_that_belong_together() -> None:
    """1.3 is the difference to 1.1; with 1.2 between them a start had no map, and took another within the epoch."""
    journal, remarks = FullNowAndThen(), list[str]()
    kept = KeptDocuments(journal, remarks.append)
    for version in (1, 2):
        kept.keep(b"", (1, version), version == 1)
    journal.is_full = True
    kept.dropped((1, 1))
    kept.keep(b"", (1, 3), False)
    assert journal.places == [(1, 1), (1, 2)]
    assert remarks == ["maps after 1.1 are not forgotten for the next start yet: no space left on device"]
    journal.is_full = False
    kept.again()
    assert journal.places == [(1, 1), (1, 3)]
