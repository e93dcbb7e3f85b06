# SPDX-License-Identifier: MIT
"""Records of ended connections whose windows are their networks', as files of `learn initial train`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

# Two networks: windows of the one end at 23, of the other at 140 segments.
WINDOWS = {"10.1.0.0/24": 23.0, "10.1.1.0/24": 23.0, "10.2.0.0/24": 140.0, "10.2.1.0/24": 140.0}


def rows(count: int = 200, seed: int = 1) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    prefixes = list(WINDOWS)
    found = []
    for at in range(count):
        prefix = prefixes[int(rng.integers(len(prefixes)))]
        found.append({"at_s": 1.7e9 + 60.0 * at, "prefix": prefix, "min_rtt_ms": 40.0, "max_cwnd": WINDOWS[prefix],
                      "packets_out": 100.0})  # fmt: skip
    return found


def written(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path
