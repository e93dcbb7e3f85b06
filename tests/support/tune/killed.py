# SPDX-License-Identifier: MIT
"""Something done to the kernel by processes that are killed before a write: each gets one write further."""

from __future__ import annotations

import os
from collections.abc import Callable

# More writes than any of them makes.
MOST_WRITES = 100
# Fewer: it was not what writes that was watched.
LEAST_WRITES = 5


def at_any_write(act: Callable[[int], None], sound: Callable[[], None]) -> None:
    """Let a process do `act`, which dies before its next write but so many, and look afterwards; until one survives."""
    for survived in range(MOST_WRITES):
        child = os.fork()
        if not child:
            try:
                act(survived)
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        sound()
        if os.waitstatus_to_exitcode(status) == 0:
            assert survived > LEAST_WRITES
            return
    raise AssertionError("it never came to its end")
