# SPDX-License-Identifier: MIT
"""A process that has no descriptor left."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count


@contextmanager
def no_descriptors(pid: int = 0) -> Iterator[None]:
    """Let a process open nothing for the length of a block; what it has open stays. 0: this process."""
    if not pid:
        # What was closed within the block would be free.
        gc.collect()
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (_lowest_free(pid), before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _lowest_free(pid: int) -> int:
    if not pid:
        found = os.dup(0)
        os.close(found)
        return found
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    return next(number for number in count() if number not in used)
