# SPDX-License-Identifier: MIT
"""Progress of a study: a bar on a terminal, a line a part elsewhere. All of it on stderr."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from configtron.report.filling import lasting
from configtron.report.progress_display import ProgressDisplay
from configtron.studies.registry.kinds import PartsProgress


class Steps(ProgressDisplay):
    """Show how far a study is."""

    _before, _parts = 0, -1

    def update(self, done: int, parts: int, now: str = "") -> None:
        """So many of so many parts are done; `now`: the last one, or what is done now."""
        if parts != self._parts or done < self._before:
            # a study has several rounds of parts; parts of an earlier run took no time of this one
            self._before, self._parts, self._began = done, parts, self._clock()
        here, elapsed = done - self._before, self._clock() - self._began
        left = lasting(elapsed * (parts - done) / here if here else None)
        if not self._drawn(parts, done, f"{left} {now}"):
            self.say(f"{self._what}: {done}/{parts} parts, {left}{f' ({now})' if now else ''}")


class PartsDisplay(ExitStack):
    """Show the progress of one study of claims after another on stderr."""

    def __init__(self, *, quiet: bool, color: bool) -> None:
        super().__init__()
        self._name, self._quiet, self._color = "", quiet, color

    def __call__(self, name: str, step: PartsProgress) -> None:
        """Show a step of a study."""
        if name != self._name:
            self.close()
            self._name = name
            self._steps = self.enter_context(Steps(name, sys.stderr, quiet=self._quiet, color=self._color))
        self._steps.update(step.done, step.parts, step.now)
