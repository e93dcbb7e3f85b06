# SPDX-License-Identifier: MIT
"""Documents for an agent's next start, on a disk that is full now and then."""

from __future__ import annotations

from configtron.model.errors import Unwritten
from configtron.service.fleet.map_journal import DocumentQueue, DrawnPlace

Place = tuple[int, int]


class FullNowAndThen:
    """A journal in memory; nothing is written while it is full."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.is_full = False

    def keep(self, document: bytes, term: int, version: int) -> None:
        self._check()
        self.places.append((term, version))

    def turned(self, drawn: DrawnPlace) -> None:
        self._check()
        self.places = [place for place in self.places if place >= drawn[:2]]

    def dropped(self, place: Place) -> None:
        self._check()
        self.places = [each for each in self.places if each <= place]

    def _check(self) -> None:
        if self.is_full:
            raise Unwritten("no space left on device")


def test_a_map_that_was_given_up_on_a_full_disk_is_not_put_in_force_by_a_later_start() -> None:
    journal, remarks = FullNowAndThen(), list[str]()
    kept = DocumentQueue(journal, remarks.append)
    for version in (1, 2):
        kept.keep(b"", (1, version))
    journal.is_full = True
    kept.dropped((1, 1))
    kept.keep(b"", (1, 3))
    assert journal.places == [(1, 1), (1, 2)]
    assert remarks == ["maps after 1.1 are not forgotten for the next start yet: no space left on device"]
    journal.is_full = False
    kept.flush()
    assert journal.places == [(1, 1), (1, 3)]
