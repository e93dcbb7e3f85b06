# SPDX-License-Identifier: MIT
"""How fast a long job goes and when it will be done: a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

# Often enough for a reader who waits, rarely enough for a log.
EVERY_S = 5.0
# Below it a rate is shown with two digits: parts of a study take minutes.
SLOW = 10.0


class JobPace:
    """Counts of a job of `total` things, of which `begun` were done before it was resumed; `say` gets the lines."""

    def __init__(
        self, what: str, things: str, total: int, begun: int, say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.what, self.things, self.total, self.begun, self._say, self._clock = what, things, total, begun, say, clock
        self._start = self._shown_at = clock()

    def __call__(self, done: int, *, last: bool = False) -> None:
        """Show how far it is if it is time; `last` in any case. done: those of before included."""
        now = self._clock()
        if not last and now - self._shown_at < EVERY_S:
            return
        self._shown_at = now
        self._say(self.line(done, now - self._start))

    def line(self, done: int, took_s: float) -> str:
        """Return the line that is shown."""
        rate = (done - self.begun) / max(took_s, 1e-9)
        left = (self.total - done) / rate if rate > 0 else 0.0
        each = f"{rate:.0f}" if rate >= SLOW else f"{rate:.2g}"
        ahead = f", {left:.0f} s left" if done < self.total else f" in {took_s:.1f} s"
        return f"{self.what}: {done}/{self.total} {self.things}, {each}/s{ahead}"
