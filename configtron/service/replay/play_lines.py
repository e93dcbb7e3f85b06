# SPDX-License-Identifier: MIT
"""Progress of a replay of packets as lines, now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

from configtron.service.progress import Event
from configtron.service.replay.recordings import PlayProgress

# A line of progress this often.
PROGRESS_EVERY_S = 10.0


class PlayLines:
    """Print how many probes have been replayed, now and then; say: prints a line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._began = self._last = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        now = time.monotonic()
        if isinstance(event, PlayProgress) and now - self._last >= PROGRESS_EVERY_S:
            self._last = now
            self._say(f"replay: {event.probes} probes, {now - self._began:.0f} s")
