# SPDX-License-Identifier: MIT
"""Which run is it, whatever number a database gives it?

A run keeps its identity when its database is copied or merged: a hash of when and how it was begun and of its first
connection's nanosecond, so that equal commands on equal machines in the same second are still two runs.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from configtron.db.store import Run, Store
from configtron.model.errors import BadInput

# In a run's configuration: what a merged run was (`merging.py`).
MERGED = "merged"


def identity_of(store: Store, run: Run) -> str:
    """Return the identity of a run: 16 hexadecimal digits."""
    known = merged_of(run).get("identity")
    return str(known) if known else _hash(run.begun_at, run.version, run.config, *store.first_trace(run.id))


def named_identity(name: str) -> str:
    """Return the identity of the run that other runs are merged into by name."""
    return _hash("as-one", name)


def machine_of(run: Run) -> str:
    """Return the name of the host that made a run; "" if its configuration has none."""
    return str(json.loads(run.config).get("host", ""))


def merged_of(run: Run) -> dict[str, Any]:
    """Return what a merged run was; empty for a run of this database's own."""
    found = json.loads(run.config).get(MERGED, {})
    return found if isinstance(found, dict) else {}


def check_resumable(run: Run) -> None:
    """Refuse to go on with a merged run: its targets are on another machine. Errors: `BadInput`."""
    if merged := merged_of(run):
        where = f" on {merged['machine']}" if merged.get("machine") else ""
        raise BadInput(f"run {run.id} was merged: resume it where it was begun{where}, and merge again")


def _hash(*parts: object) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()
