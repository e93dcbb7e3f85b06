# SPDX-License-Identifier: MIT
"""Page loads of two arms: heavy tails, clients with several loads, failures, and what was expected of each load."""

from __future__ import annotations

import numpy as np

from configtron.learner.sequential.differences import ArmLoads

# Variance of ln(ms) in a site's real loads is near 0.8 squared; a unit's share of it, and mean loads of a unit.
VARIANCE, OF_UNITS, LOADS_A_UNIT = 0.64, 0.25, 3.0


def arm_loads(
    seed: tuple[int, ...], n: int, effect: float = 0.0, *, explained: float = 0.0, failing: float = 0.02,
    failing_treated: float | None = None, slow_tail: float = 0.0, share: float = 0.5,
    of_units: float = OF_UNITS,
) -> ArmLoads:  # fmt: skip
    """n loads. effect: of the profile, as a share; explained: share of the variance that the expectation knows;
    failing: share of failed loads, of the treated another one; slow_tail: share added to one treated load in ten;
    share: of units that are treated; of_units: share of the variance that a unit's loads have in common."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(n), rng.geometric(1.0 / LOADS_A_UNIT, n))[:n]
    treated = (rng.random(n) < share)[unit]
    known = rng.normal(0.0, np.sqrt(VARIANCE * explained), n)
    shared = rng.normal(0.0, np.sqrt(VARIANCE * of_units), n)[unit]
    own = rng.standard_t(3.0, n) * np.sqrt(VARIANCE * (1.0 - of_units - explained) / 3.0)
    ln_ms = 7.0 + known + shared + own + np.log1p(effect) * treated
    ln_ms += np.log1p(slow_tail) * (treated & (rng.random(n) < 0.1))
    lost = np.where(treated, failing if failing_treated is None else failing_treated, failing)
    ln_ms[rng.random(n) < lost] = np.inf
    expected = 7.0 + known if explained else np.zeros(0)
    return ArmLoads(treated, ln_ms, unit, np.zeros(0, dtype=np.int64), expected)
