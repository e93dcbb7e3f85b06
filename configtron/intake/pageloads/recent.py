# SPDX-License-Identifier: MIT
"""The last few hundred thousand names and a word about each, in bounded memory and constant time.

Two generations: new names go into the young one; when that has half of the bound, it becomes the old one, and the old
one's names are forgotten all at once. Deleting the oldest name of a plain dict one by one takes ever longer, for the
dict walks over the places of those deleted before.
"""

from __future__ import annotations


class RecentNames:
    """At least the last `most` / 2 names, at most `most`."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._young: dict[str, str] = {}
        self._old: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, name: str) -> str | None:
        """Return the word about a name; None where it is not known any more."""
        found = self._young.get(name)
        return self._old.get(name) if found is None else found

    def put(self, name: str, word: str) -> None:
        """Remember a word about a name."""
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[name] = word
