# SPDX-License-Identifier: MIT
"""Progress of a study: a bar on a terminal, a line a part elsewhere. All of it on stderr."""

from __future__ import annotations

from configtron.report.filling import lasting
from configtron.report.progress_display import ProgressDisplay


class Steps(ProgressDisplay):
    """Show how far a study is."""

    _before = -1

    def update(self, done: int, parts: int, now: str = "") -> None:
        """So many of so many parts are done; `now`: the last one, or what is done now."""
        if self._before < 0:
            # parts of an earlier run took no time of this one
            self._before, self._began = done, self._clock()
        here, elapsed = done - self._before, self._clock() - self._began
        left = lasting(elapsed * (parts - done) / here if here else None)
        if not self._drawn(parts, done, f"{left} {now}"):
            self.say(f"{self._what}: {done}/{parts} parts, {left}{f' ({now})' if now else ''}")
