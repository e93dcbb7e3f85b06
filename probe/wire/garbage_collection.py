# SPDX-License-Identifier: MIT
"""Make Python's search for reference cycles rare while a campaign runs.

A finished connection leaves no reference cycle (`wire/flow.py`), so reference counting frees its objects. By default
Python searches after every 700 new objects, and visits all objects of the open connections each time: a tenth of a
campaign's processor time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# New objects after which Python searches. A thousand open connections have fewer (100 each), so connections alone never
# cause a search; and if other code leaves cycles, they take some tens of megabytes at most until one.
OBJECTS_BETWEEN_COLLECTIONS = 200_000


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Search for reference cycles rarely, and never among the objects that exist already."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
