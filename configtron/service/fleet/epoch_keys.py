# SPDX-License-Identifier: MIT
"""Keys by which the epoch under way has been drawn: one that comes back within it waits for the turn.

A map with another key of the draw changes arms at once, as a rollback must: under a new key each client is another
unit. A key that has drawn in this epoch is not new: a client would be one unit with two arms.
"""

from __future__ import annotations

from hashlib import blake2b

# Bytes of a key's name: enough to distinguish the few keys of an epoch.
NAME_BYTES = 8


class EpochKeys:
    """The keys that the latest epoch was drawn by, as names that do not show them."""

    def __init__(self) -> None:
        self._epoch, self._names = 0, list[str]()

    @property
    def names(self) -> str:
        """Return the names in one word, for a journal; "": none."""
        return ",".join(self._names)

    def restore(self, epoch: int, names: str) -> None:
        """Take what a former start journaled."""
        self._epoch, self._names = epoch, [name for name in names.split(",") if name]

    def drawn(self, epoch: int, key: bytes) -> None:
        """Note that an epoch is drawn from by a key."""
        if epoch != self._epoch:
            self._epoch, self._names = epoch, []
        if (name := _name(key)) not in self._names:
            self._names.append(name)

    def has(self, epoch: int, key: bytes) -> bool:
        """Return whether an epoch was drawn from by a key."""
        return epoch == self._epoch and _name(key) in self._names


def _name(key: bytes) -> str:
    return blake2b(key, digest_size=NAME_BYTES).hexdigest()
