# SPDX-License-Identifier: MIT
"""Reports of simulated loads, where they differ from the true load times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """n sessions' reports, (n,) each.

    fixed_ms   reported whatever the load took, ms; NaN: the load counts
    factor     reported load over the load
    client     whether it is a client's; a machine's load is not judged
    """

    fixed_ms: Floats
    factor: Floats
    client: npt.NDArray[np.bool_]

    def then(self, other: Reports) -> Reports:
        """Return these reports with others on top: where both fix a load time, the later one counts."""
        fixed_ms = np.where(np.isnan(other.fixed_ms), self.fixed_ms * other.factor, other.fixed_ms)
        return Reports(fixed_ms, self.factor * other.factor, self.client & other.client)

    def of(self, ms: Floats, rows: slice | Codes) -> Floats:
        """Return (m,) the reported load times of those sessions, whose true ones are `ms`."""
        return np.where(np.isnan(self.fixed_ms[rows]), ms * self.factor[rows], self.fixed_ms[rows])

    def lasted(self, reported_ms: Floats, median_ms: Floats, rows: slice | Codes) -> Floats:
        """Return (m,) ms until those sessions' loads ended, by the report; by the median where the report was fixed."""
        return np.where(np.isnan(self.fixed_ms[rows]), reported_ms / self.factor[rows], median_ms)


def as_happened(n: int) -> Reports:
    """Return every load as it was."""
    return Reports(np.full(n, np.nan), np.ones(n), np.ones(n, dtype=np.bool_))
