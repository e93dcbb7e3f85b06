# SPDX-License-Identifier: MIT
"""Records of ended connections, as files of `learn initial train`: windows are their networks'. One close record."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from configtron.model.close_records import CLOSED, CloseRecord, OpenRecord

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


def record(**given: Any) -> CloseRecord:
    opened = OpenRecord("198.51.100.0/24", 443, 999, 5_000_000_000, 1, "c", 1, False, "fixed-50", 1, 3, None, 41_000,
                        False)  # fmt: skip
    fields = {
        "end_ns": 6_000_000_000, "min_rtt_us": 40_000, "max_cwnd": 57, "bytes_acked": 90_000, "bytes_received": 300,
        "segments": 80, "retransmits": 4, "app_limited": 0.1, "rwnd_limited": None, "delivery_kbps": 9000.0,
        "ending": CLOSED,
    }  # fmt: skip
    return CloseRecord(opened, **(fields | given))
