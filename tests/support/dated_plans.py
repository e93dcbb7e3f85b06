# SPDX-License-Identifier: MIT
"""A map of a fleet as the plan of an epoch, to draw from without an applier."""

from __future__ import annotations

from configtron.intake.pageloads.plan_book import DatedPlan
from configtron.model.draw import Key, Mix, Plan
from configtron.model.fleet import FleetMap
from configtron.service.fleet.drawing import DrawnPrefixes


def dated_plan(fleet_map: FleetMap, epoch: int) -> DatedPlan:
    """Return what the join of page loads needs of a map in an epoch."""
    mixes = {name: Mix(tuple(one for one, _ in mix), tuple(parts for _, parts in mix))
             for name, mix in fleet_map.mixes.items()}  # fmt: skip
    bands = tuple((band.up_to_us, band.class_name) for band in fleet_map.bands)
    plan = Plan(Key.of(fleet_map.key), epoch, 0, fleet_map.holdback, "", bands)
    place = (fleet_map.term, fleet_map.version, fleet_map.epoch_s)
    return DatedPlan(*place, plan, mixes, fleet_map.key, DrawnPrefixes(plan, mixes, fleet_map.prefixes))
