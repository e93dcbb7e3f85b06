# SPDX-License-Identifier: MIT
"""Progress of a study: a bar on a terminal, a line a part elsewhere. All of it on stderr."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from configtron.report.progress import Progress, lasting
from configtron.studies.registry.kinds import PartsProgress


class Steps(Progress):
    """Show how far a study is."""

    _before, _last = -1, (0, 0)

    def step(self, done: int, parts: int, now: str = "") -> None:
        """So many of so many parts are done; `now`: the last one, or what is done now."""
        if self._before < 0 or parts != self._last[1] or done < self._last[0]:
            # parts of an earlier run took no time of this one; a study's next lot of parts begins anew
            self._before, self._began = done, self._clock()
        self._last = done, parts
        here, elapsed = done - self._before, self._clock() - self._began
        left = lasting(elapsed * (parts - done) / here if here else None if done < parts else 0.0)
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
            self._steps = self.enter_context(
                Steps(name, sys.stderr, quiet=self._quiet, color=self._color, counted=True)
            )
        self._steps.step(step.done, step.parts, step.now)
