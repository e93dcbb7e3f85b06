# SPDX-License-Identifier: MIT
"""When a child process that ends may be started again."""

from __future__ import annotations

# s until a process that ended is started again, twice as long each time, at most.
AGAIN_S, MOST_AGAIN_S = 1.0, 60.0


class Restarts:
    """Each wait is twice the one before, until the process worked, or ran for longer than the longest wait.

    due_s  the second from which on it may be started
    """

    def __init__(self, first_s: float = AGAIN_S, most_s: float = MOST_AGAIN_S) -> None:
        self._first_s, self._most_s = first_s, most_s
        self._wait_s, self._begun_s, self.due_s = first_s, float("inf"), float("-inf")

    def begun(self, now_s: float) -> None:
        """Note that it was started."""
        self._begun_s = now_s

    def worked(self) -> None:
        """Note that it did what it was started for: the next wait is the first one."""
        self._wait_s = self._first_s

    def ended(self, now_s: float) -> float:
        """Note that it has ended; return how long to wait, s."""
        if now_s - self._begun_s > self._most_s:
            self.worked()
        waits_s, self._wait_s = self._wait_s, min(2.0 * self._wait_s, self._most_s)
        self.due_s = now_s + waits_s
        return waits_s
