# SPDX-License-Identifier: MIT
"""One reading of a roll-out's stage from rows of outcomes: what `rollout.advance` judges.

Question   What do the loads since a stage began say of the version, against held-back clients?
Method     Loads of the stage alone: of clients that got the version, and of those that are held back; what the version
           before had is in neither arm. Differences of all clients, and of each place that has an alarm. The sample
           ratio compares the clients of one epoch, that with most of them, since both arms are drawn once a stage.
Stop when  read.
Reads as   a `StageLook`.
Fails as   differences with reasons, while loads are few: then nothing passes and nothing trips.
Differs    ConfigTron has no stages.
Source     `outcome_arms.py`, `rollout.py`
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from configtron.learner.outcome_arms import fleet_loads
from configtron.learner.rollout import Rollout, StageLook
from configtron.learner.sequential.differences import GOALS, ArmDifference, ArmLoads, difference
from configtron.learner.sequential.sample_ratio import at_all_times
from configtron.model.fleet import OutcomeRow


def stage_look(
    rollout: Rollout, rows: Iterable[OutcomeRow], at_ns: int, *, holdback: float, refused: int = 0, entries: int = 0,
    has: Callable[[OutcomeRow], bool] | None = None,
) -> StageLook:  # fmt: skip
    """Return the reading of the present stage. rows: any, other stages' are left out; holdback: share of clients
    that are held back; refused, entries: of the map, by all agents that answered; places are agents' names; has:
    whether a row's client got the version, of rows of this stage alone, whatever their agents' clocks show; None: by
    the map that a row names, of loads since the stage began."""
    latest_ns = rollout.evidence[-1].at_ns if rollout.evidence else 0
    # a claim is a row of evidence too, and begins no stage
    begun_ns = next((row.at_ns for row in rollout.evidence if row.stage == rollout.stage), latest_ns)
    got = has or (lambda row: _has(rollout, row))
    counted = [row for row in rows if (has or row.at_ns > begun_ns) and (row.held or got(row))]
    found = fleet_loads(counted)
    differences = list(_differences("", found.loads))
    for place in rollout.plan.places:
        if place in found.agents:
            differences += _differences(place, found.of_agent(found.agents.index(place)))
    ratio = _ratio(counted, rollout.share * (1.0 - holdback), holdback)
    return StageLook(at_ns, rollout.stage, tuple(differences), ratio, refused, entries)


def _has(rollout: Rollout, row: OutcomeRow) -> bool:
    return (row.term, row.map_version) == rollout.version


def _differences(place: str, loads: ArmLoads) -> list[tuple[str, ArmDifference]]:
    return [(place, difference(loads, goal)) for goal in GOALS]


def _ratio(rows: Sequence[OutcomeRow], treated: float, held: float) -> float:
    """Return the p-value that an epoch's clients of both arms are as many as their shares ask for; failures count."""
    if treated <= 0.0 or held <= 0.0:
        return 1.0
    units: dict[int, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for row in rows:
        units[row.epoch][row.held].add(row.unit)
    most = max(units.values(), key=lambda pair: len(pair[0]) + len(pair[1]), default=(set[str](), set[str]()))
    return at_all_times((len(most[0]), len(most[1])), (treated, held))
