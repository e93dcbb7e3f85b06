# SPDX-License-Identifier: MIT
"""Python's search for reference cycles, kept rare while connections are made.

A finished connection leaves no cycle (`wire/flow.py`), so its objects go by their counts. The search would visit, every
700 new objects, all those of the connections under way: a tenth of a campaign's processor time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# New objects until a search: more than a thousand connections under way have (100 each), so that steady work never
# begins one, and what a cycle somewhere else leaks stays below some tens of megabytes.
OBJECTS = 200_000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Search for cycles seldom, and never among the objects that are there now."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
