# SPDX-License-Identifier: MIT
"""A fault of this program in words."""

from __future__ import annotations

import traceback
from pathlib import Path

# Characters of a fault's message that are shown.
FAULT_LENGTH = 200


def fault(error: Exception) -> str:
    """Return where a fault of this program is, and what it says."""
    at = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {Path(one.filename).name}:{one.lineno}" for one in at)
    what = " ".join(f"{type(error).__name__}: {error}".split())[:FAULT_LENGTH]
    return f"a fault of this program{where} ({what})"
