# SPDX-License-Identifier: MIT
"""Log a line a minute about page loads: how many beacons or log lines came, and what became of each."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

# s between two lines.
REPORT_S = 60.0

log = logging.getLogger("configtron.fleet")


class CountsReport:
    """Counts since the line before. waiting: returns how many beacons have no result yet."""

    def __init__(self, about: str, waiting: Callable[[], int] = lambda: 0) -> None:
        self._about, self._waiting, self._reported = about, waiting, Counter[str]()
        self._due_s = time.monotonic() + REPORT_S

    def turn(self, counts: Callable[[], Counter[str]], *, now: bool = False) -> None:
        """Log what is new, if a minute has passed. now: do not wait for the minute's end."""
        if not now and time.monotonic() < self._due_s:
            return
        self._due_s, found = time.monotonic() + REPORT_S, counts()
        if fresh := found - self._reported:
            waiting = Counter(waiting=self._waiting())
            shown = (f"{number} {name}" for name, number in [*fresh.most_common(), *(+waiting).items()])
            log.info("%s: %s", self._about, ", ".join(shown))
        self._reported = found
