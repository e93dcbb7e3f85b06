# SPDX-License-Identifier: MIT
"""The phases of a long job, as notices."""

from __future__ import annotations

import time
from collections.abc import Callable

# Below it a rate is written with two digits: parts of a study take minutes.
SLOW = 10.0


class JobPhases:
    """Name each phase of a job as it begins; in the end how long each took, and the rate over all of them."""

    def __init__(self, what: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        self.what, self._say, self._clock = what, say, clock
        self._start = self._at = clock()
        self._took: dict[str, float] = {}
        self._now = ""

    def __call__(self, name: str) -> None:
        """Begin this phase, and end the one before it."""
        self._over()
        self._now = name
        self._say(f"{self.what}: {name}")

    def _over(self) -> None:
        now = self._clock()
        if self._now:
            self._took[self._now] = self._took.get(self._now, 0.0) + now - self._at
        self._at = now

    def done(self, count: int, things: str) -> None:
        """End the last phase; so many things were done in all of them."""
        self._over()
        self._now = ""
        whole = self._at - self._start
        rate = count / max(whole, 1e-9)
        each = f"{rate:.0f}" if rate >= SLOW else f"{rate:.2g}"
        parts = ", ".join(f"{name} {took:.1f} s" for name, took in self._took.items())
        self._say(f"{self.what}: {count} {things} in {whole:.1f} s, {each}/s ({parts})")
