# SPDX-License-Identifier: MIT
"""How much processor time a guest used between two moments, seen from the host.

A thread adds up the run times of all the guest's processes many times a second (/proc/PID/schedstat, ns); what was used
at a moment between two samples is taken from the line through them. A guest in real time reads the host's clock, so the
moments that it wrote down are the host's.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from contextlib import suppress
from pathlib import Path

# Short against a block of connections (100 ms), long against the reading of a dozen small files.
EVERY_S = 0.002
# Processes come and go only between phases.
LOOK_EVERY_S = 0.1


class Meter:
    """Samples while the block stands; `watch` says whom."""

    def __init__(self) -> None:
        self._at: list[float] = []
        self._used: list[int] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def watch(self, pid: int) -> None:
        """Begin to measure this process and all below it."""
        self._thread = threading.Thread(target=self._sample, args=(pid,))
        self._thread.start()

    def used_ns(self, began: float, ended: float) -> float:
        """Processor time between two moments (seconds since the epoch)."""
        return self._until(ended) - self._until(began)

    def _until(self, moment: float) -> float:
        after = bisect_left(self._at, moment)
        if not 0 < after < len(self._at):
            raise ValueError(f"{moment} lies outside of what was measured")
        share = (moment - self._at[after - 1]) / (self._at[after] - self._at[after - 1])
        return self._used[after - 1] + share * (self._used[after] - self._used[after - 1])

    def _sample(self, pid: int) -> None:
        # What a process that ended had used stays counted: the sum must not fall.
        seen: dict[int, int] = {}
        looked = 0.0
        while not self._stop.wait(EVERY_S):
            if time.monotonic() - looked > LOOK_EVERY_S:
                looked = time.monotonic()
                for one in family(pid):
                    seen.setdefault(one, 0)
            for one in seen:
                with suppress(OSError, IndexError):
                    seen[one] = int(Path(f"/proc/{one}/schedstat").read_text().split()[0])
            self._at.append(time.time())
            self._used.append(sum(seen.values()))


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        with suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [int(word) for word in (task / "children").read_text().split()]
    return found
