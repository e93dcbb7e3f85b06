# SPDX-License-Identifier: MIT
"""A policy's table as one mix of configurations for each network class: what a kernel can draw from.

Question   With which shares do clients of this class get which configurations?
Method     A kernel cannot see for which website a connection is. So the rows of a class, one for each website, become
           one: their probabilities, weighted by the loads that each row has had (all rows alike where it had none).
           Of a class at most `MOST_ARMS` configurations are drawn in an epoch: Default, the six of the largest shares,
           and one that stands for all the others: drawn among them in proportion to their shares, it gets their whole
           share. So over epochs each configuration comes up as often as the policy wants, and in an epoch every
           propensity is a weight of the mix, which the kernel counts in 65536ths.
Stop when  every class has its mix.
Reads as   (classes, configurations) shares; per class its arms, Default first, then by their place in the grid: classes
           have the same order, so that a client whose class changes mostly keeps its arm.
Fails as   a configuration outside `among` in the table: its share is Default's.
Differs    from CT, whose agent asks for each website, and gets one configuration.
Source     CT section 5; Horvitz and Thompson 1952 (known probabilities of inclusion).
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.table_policy import TablePolicy
from configtron.model.fleet import MOST_ARMS, WHOLE

# An arm of half a part of 65536 has none.
LEAST_SHARE = 0.5 / WHOLE
# Classes of a policy that does not divide clients: all are one.
EVERYONE = ("all",)


def class_ids(policy: TablePolicy) -> tuple[str, ...]:
    """Return the classes that a map of this policy has, by name."""
    return policy.class_ids_ or EVERYONE


def class_shares(policy: TablePolicy, among: Mask) -> Floats:
    """Return (classes, configurations) the probability of each; of what is outside `among`, Default gets the share."""
    of_row = policy.served_.probabilities(len(policy.grid))
    network, tally = policy.cells.class_of_row(), policy.cells.tally_.count
    weight = tally.sum(axis=1) if tally.shape[1] else np.zeros(len(of_row))
    found = np.stack([_mean(of_row[network == k], weight[network == k]) for k in range(len(class_ids(policy)))])
    found[:, policy.grid.default] += found[:, ~among].sum(axis=1)
    default = np.arange(len(among)) == policy.grid.default
    return np.where(among | default, found, 0.0)


def _mean(rows: Floats, weight: Floats) -> Floats:
    found: Floats = np.average(rows, axis=0, weights=weight if weight.sum() > 0 else None)
    return found


def arms_of(shares: Floats, default: int, rng: np.random.Generator) -> list[tuple[int, float]]:
    """Return a class's arms, (configuration, share) each, Default first; shares (configurations,) sum to 1."""
    order: Codes = np.argsort(-shares, kind="stable")
    others = [int(at) for at in order if at != default and shares[at] >= LEAST_SHARE]
    share = {at: float(shares[at]) for at in others}
    if len(others) > MOST_ARMS - 1:
        others, rest = others[: MOST_ARMS - 2], others[MOST_ARMS - 2 :]
        total = sum(share[at] for at in rest)
        turn = int(rng.choice(rest, p=np.array([share[at] for at in rest]) / total))
        others, share[turn] = [*others, turn], total
    kept = sum(share[at] for at in others)
    return [(default, max(1.0 - kept, 0.0)), *((at, share[at]) for at in sorted(others))]
