# SPDX-License-Identifier: MIT
"""Generators from seeds, for code that must draw the same numbers again: the only place that makes one for a policy.

Everything else gets its generator as an argument.
"""

from __future__ import annotations

import numpy as np


def seeded(*numbers: int) -> np.random.Generator:
    """Return the generator of this seed; the same numbers begin the same stream."""
    return np.random.default_rng(numbers if len(numbers) > 1 else numbers[0])
