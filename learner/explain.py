# SPDX-License-Identifier: MIT
"""Why this profile: a policy's answer to an operator who asks about one client.

Everything in it is read from the policy's own table and sums; nothing is learned or drawn to answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.class_cells import classed, has_classes
from configtron.learner.classes import NO_CONTEXTS
from configtron.learner.columns import ARMS, contexts_of
from configtron.learner.table_policy import TablePolicy
from configtron.model.nearest import point
from configtron.model.nouns import Context, Profile, Value


@dataclass(frozen=True, slots=True)
class Choice:
    """A configuration this client may get. share: of its sessions; loads: seen here; excess: expected, over
    Default's."""

    profile: Profile
    arm: str
    share: float
    loads: int
    excess: float | None


@dataclass(frozen=True, slots=True)
class Effect:
    """The expected effect of one knob's setting here: excess of going back to its default, as a share; > 0: it
    helps."""

    knob: str
    setting: Value
    default: Value | None
    excess: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """reason: why the client has no class, or why there is only one; "" for neither. distance: to the class, scaled;
    runner_up: the next class, and the distance to it."""

    class_id: str
    reason: str
    distance: float | None
    runner_up: str
    runner_up_distance: float | None
    loads: int
    choices: tuple[Choice, ...]
    effects: tuple[Effect, ...]


def explain(policy: TablePolicy, context: Context) -> Explanation:
    """Return the class, choices and knobs' effects for one client."""
    contexts = contexts_of([context], policy.sites)
    row, network = int(policy.where(contexts)[0][0]), int(policy.where(contexts)[1][0])
    if row < 0:
        default = Choice(policy.grid.profiles[policy.grid.default], "default", 1.0, 0, 0.0)
        return Explanation("", "bandwidth, round trip or loss is unknown", None, "", None, 0, (default,), ())
    choices = _choices(policy, row)
    if not has_classes(policy) or network < 0:
        return Explanation("", f"policy {policy.name} has no classes", None, "", None, 0, choices, ())
    name, nouns = policy.class_ids_[network], classed(policy).classes_.nouns()
    here = point(context, classed(policy).classes_.axes)
    alike = [noun for noun in nouns if noun.device == nouns[network].device]
    near = sorted((noun.distance(here), noun.id) for noun in alike) if here else []
    second = near[1] if len(near) > 1 else (None, "")
    loads = int(policy.cells.tally_.count[row].sum()) if policy.LEARNS else 0
    effects = _effects(policy, row) if policy.LEARNS else ()
    why = NO_CONTEXTS if classed(policy).classes_.everyone else ""
    return Explanation(name, why, near[0][0] if near else None, second[1], second[0], loads, choices, effects)


def _choices(policy: TablePolicy, row: int) -> tuple[Choice, ...]:
    served = policy.served_
    share = served.probabilities(len(policy.grid))[row]
    arm = {int(at): ARMS[code] for at, code in zip(served.configuration[row], served.arm[row], strict=True)}
    loads, excess = np.zeros(len(policy.grid)), None
    if has_classes(policy) and policy.LEARNS:
        loads, expected = policy.cells.tally_.count[row], policy.expected_ln()[row]
        excess = np.expm1(expected - expected[policy.grid.default])
    order = [int(at) for at in np.argsort(-share, kind="stable") if share[at] > 0 and (at in arm or share[at] > 0.01)]
    return tuple(
        Choice(
            policy.grid.profiles[at],
            arm.get(at, "epsilon"),
            float(share[at]),
            int(loads[at]),
            None if excess is None else float(excess[at]),
        )
        for at in order
    )


def _effects(policy: TablePolicy, row: int) -> tuple[Effect, ...]:
    """Return each knob of the likeliest configuration that is off its default, and the cost of its default."""
    grid = policy.grid
    likely = int(policy.served_.probabilities(len(grid))[row].argmax())
    expected = policy.expected_ln()[row]
    settings = dict(grid.profiles[likely].settings)
    found = []
    for knob in grid.knobs:
        if settings[knob.name] == knob.default or knob.default is None:
            continue
        back = Profile("back", tuple((settings | {knob.name: knob.default}).items()))
        if back.settings in {profile.settings for profile in grid.profiles}:
            excess = float(np.expm1(expected[grid.index(back)] - expected[likely]))
            found.append(Effect(knob.name, settings[knob.name], knob.default, excess))
    return tuple(sorted(found, key=lambda effect: -effect.excess))
