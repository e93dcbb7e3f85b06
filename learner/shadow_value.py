# SPDX-License-Identifier: MIT
"""What the loads of the version in force say of another one, before any client gets that.

Question   Would typical loads take longer under the candidate's mixes than under those in force?
Method     Each load of a client that is not held back is weighted by how much likelier the candidate is to choose its
           settings, in its class, than the version in force, whose own loads these are (self-normalised). Both means of
           ln(ms) are of the same loads, so their difference is what only the weights make; its spread is that of sums
           by unit and by prefix, the wider of both. A load that failed counts as the longest.
Stop when  summed.
Reads as   `ShadowJudged`: an interval of the candidate's mean less that in force, ln(ms).
Fails as   `log:never-tried`: of the candidate's choices more than `MOST_UNTRIED` are settings that the version in force
           never draws in that class, so no load can show them; `log:few-effective`: fewer than `LEAST_EFFECTIVE` loads
           under the weights.
Differs    from `value.py`, which judges a policy website by website, with a model: a map has one mix a class.
Source     Horvitz and Thompson 1952; Swaminathan and Joachims 2015 (SNIPS); Liang and Zeger 1986.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log

import numpy as np

from configtron.learner.live_rows import WORST_MS
from configtron.learner.rollout import ShadowJudged
from configtron.learner.sequential.differences import Z_95, clustered_error
from configtron.learner.staged_mixes import StagedVersion
from configtron.model.fleet import OutcomeRow

# Loads under the weights below which their spread is not known; share of choices that no load can show.
LEAST_EFFECTIVE, MOST_UNTRIED = 200.0, 0.02


def shadow_value(
    at_ns: int, rows: Sequence[OutcomeRow], in_force: StagedVersion, candidate: StagedVersion
) -> ShadowJudged:
    """Return what rows of the version in force show of a candidate. rows: those that its maps drew, alone."""
    counted = [row for row in rows if row.teaches and row.arm is not None and (row.failure or row.plt_ms)]
    classes = {row.class_name for row in counted}
    ratio: dict[tuple[str, str], float] = {}
    untried: dict[str, float] = {}
    for name in classes:
        now, then = in_force.shares(name), candidate.shares(name)
        untried[name] = sum(share for settings, share in then.items() if settings not in now)
        for profile, _ in in_force.arms(name):
            settings = in_force.profiles[profile].settings
            ratio[name, profile] = then.get(settings, 0.0) / now[settings]
    known = [row for row in counted if (row.class_name, row.profile) in ratio]
    if not known or sum(untried[row.class_name] for row in known) / len(known) > MOST_UNTRIED:
        return ShadowJudged(at_ns, -inf, inf, "log:never-tried")
    weight = np.array([ratio[row.class_name, row.profile] for row in known])
    total = float(weight.sum())
    if total <= 0.0 or total**2 / float((weight**2).sum()) < LEAST_EFFECTIVE:
        return ShadowJudged(at_ns, -inf, inf, "log:few-effective")
    ln_ms = np.array([log(WORST_MS if row.failure or row.plt_ms is None else row.plt_ms) for row in known])
    mean, weighted = float(ln_ms.mean()), float((weight * ln_ms).sum()) / total
    terms = weight * (ln_ms - weighted) / total - (ln_ms - mean) / len(ln_ms)
    clusters = [row.unit for row in known], [row.prefix for row in known]
    error = max(clustered_error(terms, names) for names in clusters)
    off = weighted - mean
    return ShadowJudged(at_ns, off - Z_95 * error, off + Z_95 * error)
