# SPDX-License-Identifier: MIT
"""A manager's `/metrics`: the report's figures as Prometheus reads them."""

from __future__ import annotations

from configtron.model.exposition import MANAGER_METRICS, Samples, exposition
from configtron.report.fleet_inputs import ReportInputs


def manager_metrics(inputs: ReportInputs) -> str:
    """Return the manager's metrics as text; figures that are unknown are left out."""
    samples: dict[str, Samples] = {
        "manager_agents": _agents(inputs),
        "manager_entries_refused": {(): float(sum(one.refused for one in inputs.agents))},
        "manager_maps_rejected": {(): float(sum(bool(one.rejected) for one in inputs.agents))},
        "manager_rows_total": {(): float(inputs.quality.rows)},
        "manager_rows_lost_total": {(): float(inputs.quality.lost)},
        "manager_rows_aside": {(reason,): float(count) for reason, count in inputs.quality.aside.items()},
        "manager_rollout_stage": {(inputs.rollout.stage if inputs.rollout else "none",): 1.0},
        "manager_rollout_share": {(): inputs.rollout.share if inputs.rollout else 0.0},
    }
    if inputs.quality.ratio.units:
        samples["manager_sample_ratio_p"] = {(): inputs.quality.ratio.p}
    if inputs.decisions:
        term, version = inputs.decisions[-1].place.split(".")
        samples["manager_map_term"], samples["manager_map_version"] = {(): float(term)}, {(): float(version)}
    return exposition(MANAGER_METRICS, {**samples, **_effects(inputs)})


def _agents(inputs: ReportInputs) -> Samples:
    latest = inputs.decisions[-1].place if inputs.decisions else ""
    count: dict[tuple[str, ...], float] = {("current",): 0.0, ("behind",): 0.0, ("revoked",): 0.0}
    for one in inputs.agents:
        count["revoked" if one.revoked else "current" if one.holds == latest else "behind",] += 1.0
    return count


def _effects(inputs: ReportInputs) -> dict[str, Samples]:
    found: dict[tuple[str, ...], float] = {}
    loads: dict[tuple[str, ...], float] = {}
    for one in inputs.effects[0].goals if inputs.effects else ():
        loads = {("held",): float(one.found.loads[0]), ("tuned",): float(one.found.loads[1])}
        if not one.found.reason:
            bounds = {"estimate": one.found.estimate, "low": one.low, "high": one.high}
            found |= {(one.found.goal.name, name): value for name, value in bounds.items()}
    return {"manager_effect": found, "manager_effect_loads": loads}
