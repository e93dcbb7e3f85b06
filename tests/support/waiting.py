# SPDX-License-Identifier: MIT
"""Wait for an event, however late it is: a busy machine makes a test slow, never red."""

from __future__ import annotations

import time
from collections.abc import Callable

# s that any event of a test may take: some seconds on an idle machine, and eight times as many beside eight others.
PATIENCE_S = 180.0
# s that a whole guest or a chain of programs may take: some minutes of a core, as late.
GUEST_S = 1800
# s between two looks.
LOOK_S = 0.02


def until(holds: Callable[[], bool], about: Callable[[], object] = lambda: "", patience_s: float = PATIENCE_S) -> float:
    """Wait until something holds; return how long that took, s. Fails with `about` when patience is over."""
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() < began_s + patience_s, about()
        time.sleep(LOOK_S)
    return time.monotonic() - began_s
