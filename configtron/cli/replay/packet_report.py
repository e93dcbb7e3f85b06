# SPDX-License-Identifier: MIT
"""A replay of packets on stderr while it goes, and its exit code."""

from __future__ import annotations

import sys
import time

from configtron.cli.settings import settings
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL
from configtron.report.replay_results import DIVERGED, UNTOLD, WRONG, Played
from configtron.service.progress import Event
from configtron.service.replay import PlayProgress

# A line of progress this often.
PROGRESS_EVERY_S = 10.0


class PlayDisplay:
    """Show progress on stderr, now and then."""

    def __init__(self) -> None:
        self.quiet = settings().loudness < 0
        self.began = self.last = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Show how many probes have been replayed."""
        now = time.monotonic()
        if isinstance(event, PlayProgress) and now - self.last >= PROGRESS_EVERY_S:
            self.last = now
            self.say(f"{event.probes} probes, {now - self.began:.0f} s")

    def say(self, text: str) -> None:
        """Print a line, unless quiet."""
        if not self.quiet:
            print(f"replay: {text}", file=sys.stderr, flush=True)


def exit_code(played: tuple[Played, ...], *, update: bool) -> int:
    """Return the exit code of a replay."""
    seen = {one.status for one in played}
    if not played:
        return NOTHING
    if DIVERGED in seen or not update and seen & set(WRONG):
        return CONDITION
    return PARTIAL if UNTOLD in seen and not update else DONE
