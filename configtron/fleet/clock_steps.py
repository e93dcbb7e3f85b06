# SPDX-License-Identifier: MIT
"""Steps of a host's wall clock, seen beside a clock that is never set back."""

from __future__ import annotations

# s. The two clocks are read one after the other, and a busy host may run another process between.
LEAST_S = 2.0


class ClockSteps:
    """Compares readings of both clocks with those before."""

    def __init__(self) -> None:
        self._ahead_s: float | None = None

    def step_s(self, now_s: float, now_ns: int) -> float:
        """Return by how much the wall clock (ns) was stepped since the last call, s; 0.0: not, or by less than 2 s."""
        before, self._ahead_s = self._ahead_s, now_ns / 1e9 - now_s
        step_s = 0.0 if before is None else self._ahead_s - before
        return step_s if abs(step_s) >= LEAST_S else 0.0


def step_line(step_s: float, effect: str) -> str:
    """Return the log's line of a step and of what follows it."""
    return (f"this host's wall clock was stepped by {step_s:+.0f} s: {effect}; if it is wrong now, see the host's time"
            " synchronisation: timedatectl")  # fmt: skip
