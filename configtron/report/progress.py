# SPDX-License-Identifier: MIT
"""Progress of a run: a bar on a terminal, a line now and then elsewhere, JSON lines for programs.

All of it on stderr or in a file of its own; never on stdout, which is for data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TextIO

from configtron.model.records import canonical
from configtron.report.progress_display import ProgressDisplay

# A status line each second, as zmap does; a plain line rarely, since it stays in logs.
STATUS_EVERY_S = 1.0
PLAIN_EVERY_S = 10.0
# A bar's length in parts, and how far it may go by an estimate alone.
PARTS, NEARLY = 1000, 0.99
# A time left is shown after so long, and so much of the run: before, it would be a guess.
LEFT_AFTER_S, LEFT_FROM = 5.0, 0.02


class CampaignCounts(NamedTuple):
    """A moment of a run: targets (times vantages) in all and finished; connections made, and those without answer;
    about how many connections there will be (0: unknown)."""

    total: int = 0
    done: int = 0
    calls: int = 0
    failed: int = 0
    steps: int = 0

    @property
    def share(self) -> float:
        """Return how much of the run is done, 0 to 1: by connections, since targets end together, and late."""
        if self.done >= self.total:
            return 1.0 if self.total else 0.0
        return max(self.done / self.total, min(self.calls / self.steps, NEARLY) if self.steps else 0.0)


class Progress(ProgressDisplay):
    """Show counts. Call `update` as often as you like."""

    counted = False

    def __init__(
        self,
        what: str,
        err: TextIO,
        *,
        quiet: bool = False,
        color: bool = True,
        status: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(what, err, quiet=quiet, color=color, clock=clock)
        self._status = status
        self._plain_at = self._status_at = self._began
        self._shown: CampaignCounts | None = None
        self._share, self._moved_at = 0.0, self._began

    def update(self, counts: CampaignCounts, *, last: bool = False) -> None:
        """The newest counts; `last` shows them in any case."""
        now = self._clock()
        if counts.share != self._share:
            self._share, self._moved_at = counts.share, now
        if self._status is not None and (last or now >= self._status_at):
            self._status_at = now + STATUS_EVERY_S
            form = {"elapsed_s": round(now - self._began, 3), "what": self._what, **counts._asdict()}
            self._status.write(canonical(form) + "\n")
            self._status.flush()
        left = "" if last else self._left(counts, now)
        note = f"{counts.done}/{counts.total} targets, {_connections(counts)}, {counts.failed} without answer"
        if not self._drawn(PARTS, round(PARTS * counts.share), note + left) and (
            now >= self._plain_at or last and counts != self._shown
        ):
            self._plain_at, self._shown = now + PLAIN_EVERY_S, counts
            self.say(f"{self._what}: {note}, {now - self._began:.0f} s{left}")

    def _left(self, counts: CampaignCounts, now: float) -> str:
        """About how long it will take yet, once enough has been seen to say so; nothing where the last connections are
        the slow ones: more came than were expected, or none has ended for longer than what would be left."""
        elapsed, share = now - self._began, counts.share
        if elapsed < LEFT_AFTER_S or share < LEFT_FROM or share >= NEARLY:
            return ""
        seconds = elapsed * (1 - share) / share
        if now - self._moved_at > seconds:
            return ""
        return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"


def _connections(counts: CampaignCounts) -> str:
    """Return how many connections were made, of about how many while the run goes on and more will come."""
    ahead = counts.done < counts.total and counts.calls < counts.steps
    return f"{counts.calls} of about {counts.steps} connections" if ahead else f"{counts.calls} connections"
