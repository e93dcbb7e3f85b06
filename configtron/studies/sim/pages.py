# SPDX-License-Identifier: MIT
"""The websites of an analytic tensor: how much they load, in how many pieces, and the browser's own time.

Twelve, from a bare page to a heavy one. Sizes and counts follow the HTTP Archive's percentiles of 2018, when CT
measured (10th 300 KB and 15 requests, median 1.7 MB and 70, 90th 6 MB and 180); names are of a kind, not of a site.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Floats
from configtron.model.errors import BadInput


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """(sites,) each. objects: requests; kilobytes: in all; small_share: of objects under one segment; own_ms: time
    that no network changes."""

    names: tuple[str, ...]
    objects: Floats
    kilobytes: Floats
    small_share: Floats
    own_ms: Floats


# name, requests, kilobytes, share of requests under a segment, ms of parsing and running.
ROWS = (
    ("search", 15.0, 250.0, 0.55, 150.0),
    ("forum", 25.0, 350.0, 0.60, 180.0),
    ("encyclopedia", 22.0, 450.0, 0.45, 200.0),
    ("blog", 40.0, 700.0, 0.45, 250.0),
    ("bank", 45.0, 900.0, 0.40, 300.0),
    ("portal", 70.0, 1100.0, 0.50, 350.0),
    ("travel", 80.0, 1400.0, 0.45, 400.0),
    ("shop", 120.0, 1700.0, 0.50, 450.0),
    ("social", 90.0, 2100.0, 0.35, 500.0),
    ("news", 160.0, 2600.0, 0.50, 600.0),
    ("pictures", 70.0, 3600.0, 0.15, 350.0),
    ("video", 110.0, 5200.0, 0.25, 550.0),
)


def pages(n: int) -> Pages:
    """Return n of the twelve, spread from light to heavy. Errors: `BadInput` for none, or more than there are."""
    if not 1 <= n <= len(ROWS):
        raise BadInput(f"an analytic tensor has 1 to {len(ROWS)} sites, not {n}")
    rows = [ROWS[at] for at in np.unique(np.linspace(0, len(ROWS) - 1, n).round().astype(int))]
    numbers = np.array([row[1:] for row in rows])
    return Pages(tuple(row[0] for row in rows), *(numbers[:, at] for at in range(4)))
