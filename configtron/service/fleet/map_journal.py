# SPDX-License-Identifier: MIT
"""The documents of the map that an agent's later start needs: the latest, and the one that its epoch is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from configtron.model.errors import ConfigtronError


class DrawnPlace(NamedTuple):
    """The map that arms are drawn from, the epoch, and the names of the keys that it was drawn by (`EpochKeys`)."""

    term: int
    version: int
    epoch: int
    keys: str = ""


NOT_DRAWN = DrawnPlace(0, 0, 0)


class MapJournal(Protocol):
    """What keeps documents on this host. Errors of all: `ConfigtronError`, e.g. for a full disk."""

    def keep(self, document: bytes, term: int, version: int) -> None:
        """Journal a document that was accepted."""

    def turned(self, drawn: DrawnPlace) -> None:
        """Journal which map is drawn from in which epoch; documents before it are not needed any more."""

    def dropped(self, place: tuple[int, int]) -> None:
        """Journal that the documents after this one were given up."""


class DocumentQueue:
    """Documents to be journaled, in order. What a full disk does not take waits, and maps stay in force.

    remark  takes a line when something begins to wait
    """

    def __init__(self, journal: MapJournal, remark: Callable[[str], None]) -> None:
        self._journal, self._remark = journal, remark
        self._waiting: list[tuple[bytes, tuple[int, int]]] = []
        self._drawn = self._journaled = NOT_DRAWN
        # The last document that counts, where later ones were given up and the journal still has them.
        self._given_up: tuple[int, int] | None = None
        self._complained = False

    def keep(self, document: bytes, place: tuple[int, int]) -> None:
        """Keep a document for the next start."""
        self._waiting.append((document, place))
        self.flush()

    def turned(self, drawn: DrawnPlace) -> None:
        """Keep what is drawn from, and forget documents that no start needs any more."""
        self._drawn = drawn
        self.flush()

    def dropped(self, place: tuple[int, int]) -> None:
        """Forget the documents after that one."""
        self._waiting = [each for each in self._waiting if each[1] <= place]
        self._given_up = place if self._given_up is None else min(place, self._given_up)
        self.flush()

    def flush(self) -> None:
        """Journal what waits; what there is no room for, at the next call."""
        try:
            if self._given_up is not None:
                self._journal.dropped(self._given_up)
                self._given_up = None
            while self._waiting:
                document, place = self._waiting[0]
                self._journal.keep(document, *place)
                del self._waiting[0]
            if self._drawn != self._journaled:
                self._journal.turned(self._drawn)
                self._journaled = self._drawn
        except ConfigtronError as error:
            if not self._complained and self._given_up is not None:
                term, version = self._given_up
                self._remark(f"maps after {term}.{version} are not forgotten for the next start yet: {error}")
            elif not self._complained:
                term, version = self._waiting[0][1] if self._waiting else self._drawn[:2]
                self._remark(f"map {term}.{version} is in force, but not kept for the next start yet: {error}")
            self._complained = True
            return
        self._complained = False
